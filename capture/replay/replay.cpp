#include "capture/replay/replay.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include <H5public.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <oneapi/tbb/parallel_for.h>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/slots.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/outputs_together.hpp"
#include "base/text.hpp"
#include "capture/model/policy_file.hpp"
#include "capture/model/recorded_attention.hpp"
#include "capture/recording/recording_layout.hpp"
#include "capture/recording/records.hpp"
#include "capture/replay/head_replay.hpp"
#include "capture/replay/replay_file.hpp"

namespace keyscope::replay {

namespace {

class Replay {
 public:
  Replay(const Source& source, const ReplayPlan& plan, const ReplayProgress& progress,
         const std::atomic<bool>& cancelled)
      : recording_(*source.recording),
        info_(source.recording->info()),
        plan_(plan),
        progress_(progress),
        cancelled_(cancelled) {}

  void check_cancelled() const {
    if (cancelled_) throw Cancelled("interrupted; nothing was written");
  }

  void add_rows(std::int64_t n_rows, const std::string& run) {
    check_cancelled();
    const std::int64_t done = rows_done_ += n_rows;
    if (progress_) progress_(done, run);
  }

  std::int64_t rows_of_layer(int layer) const {
    return info_->model.heads(layer).n_kv_heads * info_->n_prompt();
  }

  RunOutcome replay_run(std::size_t run, ReplayFile& file) {
    const auto policy = capture::policy_for(plan_.policies[run], plan_.seed, *info_);
    RunOutcome outcome{plan_.runs[run].name, {}};
    std::map<int, std::vector<HeadEvictions>> lent;  // by the layer whose keys are those of several
    for (const int layer : plan_.layers) {
      std::vector<HeadEvictions>& heads = lent[info_->model.lender(layer)];
      if (heads.empty())
        heads = replay_layer(*policy, plan_.runs[run], scored_layer(*info_, layer));
      else
        add_rows(rows_of_layer(layer), progress_name(plan_.runs[run], layer));
      file.write_layer(run, layer, heads);
      for (std::size_t head = 0; head < heads.size(); ++head)
        outcome.heads.push_back({layer, static_cast<int>(head), heads[head].n_retained()});
    }
    file.count_run(run);
    return outcome;
  }

 private:
  static std::string progress_name(const recording::RunPlan& run, int layer) {
    return fmt::format("{} layer {}", run.name, layer);
  }

  std::vector<HeadEvictions> replay_layer(const analysis::Policy& policy, const recording::RunPlan& run,
                                          int layer) {
    const analysis::PolicyNeeds needs = policy.needs();
    const auto last_row_layer = read_last_row_layer(recording_, needs, plan_.source_run, layer);
    const int n_kv_heads = info_->model.heads(layer).n_kv_heads;
    const ReplayedCache cache{layer, run.budget, run.block_size,
                              capture::recorded_rules(*info_, layer).window};
    const auto after_block = [&](std::int64_t n_rows) { add_rows(n_rows, progress_name(run, layer)); };
    const auto read = [&](int kv_head) {
      HeadSource source = read_head_source(recording_, policy, plan_.source_run, layer, kv_head);
      source.last_row_layer = last_row_layer;
      return source;
    };
    if (!cuts_heads_alone(policy)) {
      std::vector<HeadSource> sources(n_kv_heads);
      oneapi::tbb::parallel_for(0, n_kv_heads, [&](int kv_head) { sources[kv_head] = read(kv_head); });
      return replay_heads(policy, sources, cache, after_block);
    }
    std::vector<HeadEvictions> heads(n_kv_heads);
    oneapi::tbb::parallel_for(0, n_kv_heads, [&](int kv_head) {
      heads[kv_head] = replay_head(policy, read(kv_head), kv_head, cache, after_block);
    });
    return heads;
  }

  const recording::Recording& recording_;
  std::shared_ptr<const recording::RecordingInfo> info_;
  const ReplayPlan& plan_;
  const ReplayProgress& progress_;
  const std::atomic<bool>& cancelled_;
  std::atomic<std::int64_t> rows_done_ = 0;
};

// The runs that are whole outlive what went wrong after them, and wait for no other output; what closing the
// file has to say no longer matters beside the first error.
void keep_what_is_done(ReplayFile& file) {
  try {
    OutputsTogether kept;
    file.finish(false);
    kept.commit();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the first error is on its way
  }
}

std::string kept_in(const recording::PartFile& place) {
  return (std::filesystem::exists(place.part()) ? place.part() : place.out()).string();
}

}  // namespace

std::vector<RunOutcome> run_replay(const Source& source, const ReplayPlan& plan, const ReplayTarget& target,
                                   const ReplayProgress& progress, const std::atomic<bool>& cancelled) {
  recording::PartFile place(target.out, target.replace);
  Replay replay(source, plan, progress, cancelled);
  const std::string copied = source.recording->info()->runs[plan.source_run].plan.name + ", copied";
  ReplayFile file(
      place, source, plan, [&] { replay.check_cancelled(); },
      [&](int layer) { replay.add_rows(replay.rows_of_layer(layer), copied); });
  std::vector<RunOutcome> outcomes;
  try {
    for (std::size_t run = 0; run < plan.runs.size(); ++run) outcomes.push_back(replay.replay_run(run, file));
  } catch (const Cancelled&) {
    keep_what_is_done(file);
    if (file.runs_done() == 0) throw;
    throw Cancelled(fmt::format("interrupted; {} of {} replayed runs are kept in {}", file.runs_done(),
                                plan.runs.size(), kept_in(place)));
  } catch (...) {
    keep_what_is_done(file);
    throw;
  }
  file.finish(true);
  return outcomes;
}

namespace {

using Json = nlohmann::ordered_json;
using recording::RecordingInfo;
using recording::RunInfo;
namespace hdf5 = recording::hdf5;

int find_source_run(const RecordingInfo& info, const std::string& name) {
  const int index = info.run_index(name);
  if (index < 0) {
    std::vector<std::string> names;
    names.reserve(info.runs.size());
    for (const RunInfo& run : info.runs) names.push_back(run.plan.name);
    throw UsageError(
        fmt::format("--run: there is no run '{}' in {}; it has {}", name, info.source, shown_list(names)));
  }
  const RunInfo& run = info.runs[index];
  if (run.plan.policy != "none" || run.plan.budget > 0)
    throw UsageError(fmt::format(
        "--run: {} evicted rows under policy {} with a budget of {}; expected a run that kept everything "
        "(none): behind its first eviction, keys come from hidden states that the eviction has altered",
        name, run.plan.policy, run.plan.budget));
  if (const analysis::CacheFormat& format = run.plan.cache_format; format.quantises())
    throw UsageError(fmt::format(
        "--run: {} has a cache of {} (--cache-dtype), whose keys were rounded in the groups of a cache that "
        "evicts nothing; expected a run in the model's dtype. Capture quantised runs with their policies: "
        "capture --cache-dtype {}",
        name, analysis::cache_dtype_name(format.dtype), analysis::cache_dtype_name(format.dtype)));
  if (run.n_tokens < info.n_prompt())
    throw FileError(
        fmt::format("{}: run {} was cut short after {} of {} prompt tokens; a replay needs the "
                    "attention of a whole prompt: capture it again",
                    info.source, name, run.n_tokens, info.n_prompt()));
  return index;
}

std::vector<int> choose_layers(const RecordingInfo& info, std::vector<int> wanted) {
  if (wanted.empty()) return info.layers;
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  for (const int layer : wanted)
    if (const std::string refusal = recording::layer_refusal(info, layer); !refusal.empty())
      throw UsageError("--layers: " + refusal);
  return wanted;
}

void check_contents(const ReplayPlan& plan, const RecordingInfo& info, const analysis::Policy& scorer,
                    const std::string& policy) {
  const analysis::PolicyNeeds needs = scorer.needs();
  if (!info.keys)
    throw FileError(info.source +
                    ": keys were not recorded, and a replay scores keys; capture with --record keys");
  if (!info.heads.all())
    throw FileError(
        fmt::format("{}: only the rows of KV heads {} were recorded, and a replay scores the keys of every "
                    "head; capture without --heads",
                    info.source, shown_list(info.heads.kv_heads)));
  if (needs.values && !info.values)
    throw FileError(
        fmt::format("{}: policy {} scores values, and none were recorded; capture with --record "
                    "keys,queries,values",
                    info.source, policy));
  for (const std::string& refusal : {query_refusal(info, needs, plan.layers), window_refusal(info, needs),
                                     value_norm_refusal(info, scorer.slots(), plan.layers)})
    if (!refusal.empty()) throw FileError(fmt::format("{}: policy {}: {}", info.source, policy, refusal));
}

void check_options(const ReplayOptions& options) {
  if (options.block_size < 1) throw UsageError("--block: expected at least 1");
  const auto evicts = [](const analysis::PolicySpec& spec) { return spec.name != "none"; };
  if (std::ranges::none_of(options.policies, evicts))
    throw UsageError(
        "replay: a --policy that evicts is needed; the run that evicts nothing is there already");
  if (!options.budget.is_given())
    throw UsageError("replay: a --budget is needed: rows per KV head, or a share of the prompt such as 25%");
}

// One layer is replayed at a time, all with one budget.
void check_slots(const analysis::PolicySpec& spec, const analysis::Policy& policy, std::int64_t budget) {
  const analysis::Slots& slots = policy.slots();
  if (slots.all_layers() || slots.splits_layers()) {
    const auto [given, instead] = analysis::weighing_option(spec);
    throw UsageError(fmt::format(
        "replay: policy {} has {}, which weighs layers against each other, and a replay takes one by itself; "
        "capture with it, or take {}",
        spec.name, given, instead));
  }
  if (policy.head_file() == analysis::HeadFile::kFlags && !cuts_heads_alone(policy))
    throw UsageError(fmt::format(
        "replay: policy {}: heads that keep everything share neither rows nor a budget with others; expected "
        "granularity=head and split=uniform",
        spec.name));
  if (slots.granularity == analysis::Slots::Granularity::kPage && budget < slots.page_rows)
    throw UsageError(fmt::format(
        "replay: policy {}: granularity=page:{} needs a budget of at least one page; found {} rows",
        spec.name, slots.page_rows, budget));
}

// Of every head where some keep all rows, as a capture writes them; empty elsewhere.
std::vector<std::int64_t> head_budgets(const RecordingInfo& info, const analysis::Policy& policy,
                                       std::int64_t budget) {
  std::vector<std::int64_t> budgets;
  for (int layer = 0; layer < info.model.n_layers; ++layer)
    for (int head = 0; head < info.model.n_kv_heads; ++head) {
      const int there = std::min(head, info.model.heads(layer).n_kv_heads - 1);
      budgets.push_back(policy.keeps_all(info.model.lender(layer), there) ? info.n_prompt() : budget);
    }
  if (std::ranges::count(budgets, budget) == std::ssize(budgets)) budgets.clear();
  return budgets;
}

void plan_runs(ReplayPlan& plan, const RecordingInfo& info, const ReplayOptions& options) {
  std::vector<recording::RunPlan> named{info.runs[plan.source_run].plan};
  for (const analysis::PolicySpec& spec : options.policies) {
    if (spec.name == "none") continue;
    const auto policy = capture::policy_for(spec, options.seed, info);
    const auto needs = policy->needs();
    check_contents(plan, info, *policy, spec.name);
    plan.scores_queries |= needs.queries();
    check_slots(spec, *policy, options.budget.rows_for(info.n_prompt()));
    auto parameters = analysis::with_defaults(spec, options.seed).options;
    recording::RunPlan run;
    run.policy = spec.name;
    run.name = recording::next_run_name(spec.run_name(), named);
    const std::string statistic = oracle_statistic(needs);
    run.oracle = !statistic.empty();
    if (run.oracle) parameters["oracle"] = statistic;
    run.parameters = recording::parameters_json(parameters);
    run.budget = options.budget.rows_for(info.n_prompt());
    run.budgets = head_budgets(info, *policy, run.budget);
    run.block_size = options.block_size;
    run.n_prompt_blocks = (info.n_prompt() - 1) / options.block_size + 1;
    run.replayed = true;
    named.push_back(run);
    plan.runs.push_back(std::move(run));
    plan.policies.push_back(spec);
  }
}

Json parsed(const std::string& text) {
  Json json = parse_ordered_json(text);
  return json.is_discarded() ? Json(text) : json;
}

std::string scores_from(recording::StoreType store) {
  return store == recording::StoreType::kFloat32
             ? "rows as computed"
             : fmt::format("rows rounded to {}", recording::store_name(store));
}

std::string configuration_json(const ReplayPlan& plan, const RecordingInfo& info,
                               const ReplayOptions& options) {
  const recording::Provenance& captured = info.provenance;
  const Json configuration = parsed(captured.configuration);
  Json json;
  Json policies = Json::array();
  for (const auto& spec : plan.policies) policies.push_back({{"name", spec.name}, {"options", spec.options}});
  json["policies"] = std::move(policies);
  json["budget"] = options.budget.rows_for(info.n_prompt());
  json["block"] = options.block_size;
  json["layers"] = options.layers;
  json["seed"] = options.seed;
  json["n_prompt"] = info.n_prompt();
  json["run"] = options.run;
  json["scores_from"] = scores_from(plan.store);
  // The last prompt positions over which the output error is measured.
  if (configuration.is_object() && configuration.contains("score_last"))
    json["score_last"] = configuration["score_last"];
  json["source"] = {{"file", info.source},
                    {"command", captured.command},
                    {"configuration", configuration},
                    {"versions", captured.versions},
                    {"started", captured.started}};
  return json_text(json);
}

// Who the model and the prompt are stays; how they were run stands below `source`.
recording::Provenance provenance(const ReplayPlan& plan, const RecordingInfo& info,
                                 const ReplayOptions& options) {
  recording::Provenance origin = info.provenance;
  origin.command = options.command;
  origin.configuration = configuration_json(plan, info, options);
  origin.versions = fmt::format("keyscope {}, HDF5 {}.{}.{}", KEYSCOPE_VERSION, H5_VERS_MAJOR, H5_VERS_MINOR,
                                H5_VERS_RELEASE);
  origin.seed = static_cast<std::int64_t>(options.seed);
  origin.started = utc_now();
  return origin;
}

// What the file says beyond what a Recording does: how its rows are stored, and how large they are.
void measure_source(ReplayPlan& plan, const Source& source, const RecordingInfo& info) {
  const RunInfo& run = info.runs[plan.source_run];
  const hdf5::Group group =
      source.file.root().open_group("entry").open_group("runs").open_group(run.plan.name);
  const bool shared = run.n_tokens == info.n_prompt();
  for (const int layer : plan.layers) {
    const hdf5::Group from = group.open_group(recording::layer_group_name(layer));
    for (const std::string& name : from.names()) {
      if (!from.has_dataset(name)) continue;
      const hdf5::Dataset dataset = from.open_dataset(name, 0, {0});
      const bool rows = name == "keys" || name == "queries" || name == "values";
      if (rows && (name != "queries" || plan.scores_queries))
        plan.store =
            std::ranges::max(plan.store, recording::store_of(dataset), {}, recording::store_rounding);
      plan.disk_bytes += static_cast<std::int64_t>(dataset.stored_bytes()) * (rows && !shared ? 2 : 1);
    }
  }
  const std::int64_t n_layers = static_cast<std::int64_t>(plan.layers.size());
  std::int64_t n_rows = 0;
  for (const int layer : plan.layers) n_rows += info.model.heads(layer).n_kv_heads * info.n_prompt();
  const auto n_runs = static_cast<std::int64_t>(plan.runs.size());
  constexpr std::int64_t kTraceBytes = sizeof(std::int32_t) + sizeof(float);
  constexpr std::int64_t kGroupBytes = 1 << 13;  // of a layer's group, its datasets' headers and chunk index
  plan.disk_bytes += n_runs * (n_rows * kTraceBytes + n_layers * kGroupBytes);
  plan.rows_total = (n_runs + 1) * n_rows;
}

}  // namespace

Source open_source(const std::string& path) {
  return {recording::open_recording(path), hdf5::File::open(path)};
}

int exact_layer(const RecordingInfo& info) {
  int layer = 0;
  while (!info.has_keys(layer)) ++layer;
  return layer;
}

ReplayPlan plan_replay(const Source& source, const ReplayOptions& options) {
  check_options(options);
  const auto info = source.recording->info();
  ReplayPlan plan;
  plan.seed = options.seed;
  plan.source_run = find_source_run(*info, options.run);
  plan.layers = choose_layers(*info, options.layers);
  if (options.layers.empty()) plan.keyless_layers = info->keyless_layers;
  plan.exact_layer = exact_layer(*info);
  plan_runs(plan, *info, options);
  measure_source(plan, source, *info);
  plan.provenance = provenance(plan, *info, options);
  return plan;
}

}  // namespace keyscope::replay
