#include "app/validation/validation.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <oneapi/tbb/parallel_for.h>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/slots.hpp"
#include "app/measures/head_bounds.hpp"
#include "app/measures/recording_measures.hpp"
#include "app/results/run_identity.hpp"
#include "app/validation/prompt_record.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "capture/inference/capture.hpp"
#include "capture/model/model.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::validation {

namespace {

std::vector<BoundTallies> measure_bounds(const recording::Recording& recording,
                                         const std::atomic<bool>& cancelled) {
  const auto info = recording.info();
  const auto heads = info->all_heads();
  std::vector<BoundTallies> bounds(heads.size());
  oneapi::tbb::parallel_for(std::size_t{0}, bounds.size(), [&](std::size_t i) {
    if (cancelled) throw Cancelled("interrupted");
    bounds[i] = tally_bounds(measures::measure_bounds(recording, 0, heads[i].layer, heads[i].kv_head));
  });
  return bounds;
}

}  // namespace

capture::CaptureOptions prompt_capture_options(const capture::Model& model, const Settings& settings,
                                               const results::Prompt& prompt) {
  capture::CaptureOptions options;
  options.prompt_ids = prompt.ids;
  options.policies = settings.policies;
  options.budget = settings.budget;
  options.block_size = settings.block_size;
  const auto together = [](const analysis::PolicySpec& spec) {
    return analysis::read_slots(spec).all_layers();
  };
  options.schedule =
      std::ranges::any_of(options.policies, together) ? capture::Schedule::kBlock : capture::Schedule::kLayer;
  options.record_values = true;
  options.record_logits = model.has_head();
  options.score_last = settings.score_last;
  options.seed = settings.seed;
  return options;
}

PromptRecord measure_prompt(const capture::Model& model, const Settings& settings,
                            const results::Prompt& prompt, const std::filesystem::path& recording,
                            capture::CaptureControl& control, const std::atomic<bool>& cancelled) {
  const capture::CaptureOptions options = prompt_capture_options(model, settings, prompt);
  const auto memory = recording::MemoryRecording::create();
  std::vector<recording::RecordSink*> sinks{memory.get()};
  std::unique_ptr<recording::RecordSink> file;
  if (!recording.empty()) sinks.push_back((file = recording::make_recording_writer(recording, true)).get());
  capture::run_capture(model, options, sinks, control);

  PromptRecord record;
  record.key = prompt_key(settings_json(settings), prompt.ids);
  record.n_tokens = std::ssize(prompt.ids);
  record.budget = options.budget.rows_for(record.n_tokens);
  using measures::Part, measures::Parts;
  // What `quantities` names. Bounds by measure_bounds, which looks at the lemma as well.
  const Parts kept =
      Parts::all() - Parts{Part::kRetained, Part::kExperts, Part::kQuantisation, Part::kPca, Part::kBounds};
  record.runs = measures::measure_recording(*memory, {}, kept, nullptr, cancelled);
  record.bounds = measure_bounds(*memory, cancelled);
  return record;
}

std::int64_t tokens_of(const Settings& settings, const results::Prompt& prompt) {
  return std::ssize(prompt.ids) * std::ssize(settings.policies);
}

namespace {

// A prompt whose result is still missing.
struct Task {
  const results::Prompt* prompt;
  std::string key;
};

PromptRecord read_back(const ResultFolder& folder, const std::string& key) {
  auto record = folder.find(key);
  if (!record)
    throw FileError(fmt::format("{}: a prompt's result has gone", folder.file("prompts").string()));
  return *std::move(record);
}

}  // namespace

void adopt_records(const Settings& settings, std::span<const results::Prompt> prompts, const FindRecord& find,
                   const ResultFolder& folder) {
  const auto json = settings_json(settings);
  for (const results::Prompt& prompt : prompts) {
    const std::string key = prompt_key(json, prompt.ids);
    if (folder.find(key)) continue;
    const auto found = find(settings, prompt);
    if (!found) continue;
    const std::string where = "a record of " + prompt.name;
    const PromptRecord record = parse_prompt_record(*found, where);
    if (record.key != key)
      throw FileError(fmt::format("{}: \"key\" is {}; expected {}, of these settings and this prompt", where,
                                  record.key, key));
    folder.save(record);
  }
}

std::vector<PromptRecord> measure_prompts(const capture::Model& model, const Settings& settings,
                                          std::span<const results::Prompt> prompts,
                                          const ResultFolder& folder, bool keep_recordings,
                                          const ValidationWatch& watch) {
  const auto json = settings_json(settings);
  std::vector<std::string> keys;
  std::vector<Task> tasks;
  std::int64_t total = 0, done = 0;
  for (const results::Prompt& prompt : prompts) {
    keys.push_back(prompt_key(json, prompt.ids));
    if (folder.find(keys.back())) continue;
    tasks.push_back({&prompt, keys.back()});
    total += tokens_of(settings, prompt);
  }
  std::size_t n_measured = prompts.size() - tasks.size();
  watch.control.on_progress = [&](const capture::CaptureProgress& now) {
    watch.on_progress(done + now.tokens_done, total,
                      fmt::format("prompt {} of {}, {}", n_measured + 1, prompts.size(), now.run));
  };
  try {
    for (const Task& task : tasks) {
      const auto file = keep_recordings ? folder.recording(task.key) : std::filesystem::path();
      folder.save(measure_prompt(model, settings, *task.prompt, file, watch.control, watch.cancelled));
      done += tokens_of(settings, *task.prompt);
      ++n_measured;
    }
  } catch (const Cancelled&) {
    throw Cancelled(fmt::format("interrupted; {} of {} prompts are measured, and the same command goes on",
                                n_measured, prompts.size()));
  }
  std::vector<PromptRecord> records;
  records.reserve(keys.size());
  for (const std::string& key : keys) records.push_back(read_back(folder, key));
  return records;
}

namespace {

using Json = nlohmann::ordered_json;
using analysis::PolicySpec;

// Of what is measured and how it is stored; numbers of another format are not mixed with these.
constexpr int kFormat = 1;

}  // namespace

std::vector<PolicySpec> default_policies() {
  std::vector<PolicySpec> policies;
  for (const char* name : {"none", "keydiff", "sink", "tova", "snapkv", "h2o", "l2norm", "random"})
    policies.push_back(analysis::parse_policy(name));
  return policies;
}

std::vector<PolicySpec> complete_policies(std::vector<PolicySpec> asked) {
  if (asked.empty()) return default_policies();
  std::vector<PolicySpec> policies;
  for (const char* first : {"none", "keydiff"}) {
    const auto found = std::ranges::find(asked, first, &PolicySpec::name);
    policies.push_back(found != asked.end() ? *found : analysis::parse_policy(first));
    if (found != asked.end()) asked.erase(found);
  }
  for (PolicySpec& spec : asked) {
    if (std::ranges::find(policies, spec.name, &PolicySpec::name) != policies.end())
      throw UsageError(
          fmt::format("--policy: {} is given twice; claims are about one run of each policy", spec.name));
    policies.push_back(std::move(spec));
  }
  return policies;
}

Json settings_json(const Settings& settings) {
  Json json{{"format", kFormat}};
  results::add_identity(json, settings.model);
  json["policies"] = Json::array();
  for (const PolicySpec& spec : settings.policies)
    json["policies"].push_back(results::policy_json(spec, settings.seed));
  json["budget"] = settings.budget.text();
  json["block"] = settings.block_size;
  json["max_tokens"] = json_number(settings.max_tokens);
  json["score_last"] = settings.score_last;
  json["seed"] = settings.seed;
  return json;
}

std::string prompt_key(const Json& settings, std::span<const std::int32_t> ids) {
  Sha256 hash;
  hash.add(json_text(settings));
  for (const std::int32_t id : ids) hash.add(fmt::format(" {}", id));
  return hash.hex();
}

void check_lengths(const Settings& settings, std::span<const results::Prompt> prompts,
                   const std::string& file) {
  for (const results::Prompt& prompt : prompts) {
    const auto n = static_cast<std::int64_t>(prompt.ids.size());
    const std::string where = fmt::format("{}, line {}: the prompt has {} tokens", file, prompt.line, n);
    if (n <= settings.budget.rows_for(n))
      throw FileError(
          fmt::format("{}, and a budget of {} evicts none of them; take a smaller --budget or a "
                      "longer prompt",
                      where, settings.budget.rows_for(n)));
    if (n <= settings.block_size)
      throw FileError(
          fmt::format("{}, which are one block of {}, so that nothing is evicted while it is read; "
                      "take a smaller --block or a longer prompt",
                      where, settings.block_size));
  }
}

namespace {

// What a file would hold is what memory holds.
std::int64_t needed_bytes(const capture::Model& model, const Settings& settings,
                          const results::Prompt& prompt) {
  const auto estimate = capture::estimate_capture(
      model, capture::plan_capture(model, prompt_capture_options(model, settings, prompt)));
  return estimate.disk_bytes + estimate.cache_bytes;
}

// The most tokens of a prompt too long that fit. Not in proportion: logits take the same whatever its length.
std::size_t fitting_tokens(const capture::Model& model, const Settings& settings, results::Prompt prompt,
                           std::int64_t available) {
  std::size_t fits = 0, too_many = prompt.ids.size();
  while (too_many - fits > 1) {
    const std::size_t middle = fits + (too_many - fits) / 2;
    prompt.ids.resize(middle);  // which tokens they are does not matter
    (needed_bytes(model, settings, prompt) <= available ? fits : too_many) = middle;
  }
  return fits;
}

}  // namespace

void check_memory(const capture::Model& model, const Settings& settings,
                  std::span<const results::Prompt> prompts, const PromptWords& words,
                  std::int64_t available) {
  if (prompts.empty()) return;
  const results::Prompt& longest = *std::ranges::max_element(
      prompts, {}, [](const results::Prompt& prompt) { return std::ssize(prompt.ids); });
  const std::int64_t needed = needed_bytes(model, settings, longest);
  if (needed <= available) return;
  const std::size_t fitting = fitting_tokens(model, settings, longest, available);
  throw FileError(fmt::format(
      "{}: the prompt has {} tokens; keys, queries and values of its {} runs and their caches need "
      "{} of memory, and {} are available; take {}fewer policies",
      words.where(longest), longest.ids.size(), settings.policies.size(), gib_text(needed),
      gib_text(available), fitting > 0 ? fmt::format("{} {} or ", words.shorter, fitting) : ""));
}

}  // namespace keyscope::validation
