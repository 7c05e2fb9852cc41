// What a capture will do, before it does it.

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <string>

#include <H5public.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/slots.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "capture/inference/budget_split.hpp"
#include "capture/inference/capture.hpp"
#include "capture/model/model_cache.hpp"
#include "capture/model/policy_file.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::capture {

void check_prompt_ids(const ModelConfig& config, std::span<const std::int32_t> ids,
                      const std::string& where) {
  if (ids.empty()) throw InvalidInput(where + "the prompt is empty; expected at least one token");
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= config.vocab_size)
      throw InvalidInput(fmt::format("{}prompt token {} is id {}, and the model's vocabulary has ids 0 to {}",
                                     where, i, ids[i], config.vocab_size - 1));
}

namespace {

using Json = nlohmann::ordered_json;

// N of a policy that evicts, where they differ the largest.
std::int64_t largest_budget(const CaptureOptions& options) {
  return options.budgets.empty() ? options.budget.rows_for(std::ssize(options.prompt_ids))
                                 : std::ranges::max(options.budgets);
}

// Places in the cache never exceed N + B, whatever the length of the text.
void check_cache_positions(const ModelConfig& config, const CaptureOptions& options) {
  if (!config.layer_windows.empty())
    throw UsageError(
        "--positions cache: this model has layers with a sliding window, which is kept by true "
        "positions; leave the option out");
  const std::int64_t budget = largest_budget(options);
  const auto n_prompt = static_cast<std::int64_t>(options.prompt_ids.size());
  const bool evicts = std::ranges::all_of(
      options.policies, [](const analysis::PolicySpec& spec) { return spec.name != "none"; });
  const std::int64_t all = n_prompt + std::max<std::int64_t>(options.generate - 1, 0);
  const std::int64_t rows =
      evicts && !options.oracle ? std::min(all, budget + std::min(options.block_size, n_prompt)) : all;
  if (rows > config.context_length)
    throw InvalidInput(
        fmt::format("--positions cache: the cache will hold {} rows, and the model's context is {}; {}", rows,
                    config.context_length,
                    evicts && !options.oracle ? "take a smaller --budget or --block"
                                              : "only a policy that evicts as it reads goes beyond it"));
}

void check_prompt(const Model& model, const CaptureOptions& options) {
  const ModelConfig& config = model.config();
  check_prompt_ids(config, options.prompt_ids);
  const auto n_prompt = static_cast<std::int64_t>(options.prompt_ids.size());
  const std::int64_t fed_back = std::max<std::int64_t>(options.generate - 1, 0);
  if (options.cache_positions) return check_cache_positions(config, options);
  const std::int64_t room = config.context_length - n_prompt;
  if (room < 0)
    throw InvalidInput(
        fmt::format("the prompt has {} tokens, and the model's context is {}; shorten it with --max-tokens",
                    n_prompt, config.context_length));
  if (fed_back > room)
    throw InvalidInput(
        fmt::format("the prompt has {} tokens, {} generated ones follow, and the model's context is {}; at "
                    "most --generate {} fits, or shorten the prompt with --max-tokens",
                    n_prompt, fed_back, config.context_length, room + 1));
}

// A recording of layers that have no keys would be one of nothing.
void require_some_keys(const ModelConfig& config, const recording::RecordPlan& plan) {
  if (plan.counted_layer() >= 0) return;
  std::vector<int> with_keys;
  for (int layer = 0; layer < config.n_layers; ++layer)
    if (config.attends(layer)) with_keys.push_back(layer);
  throw UsageError(
      fmt::format("--layers: found {}, which have no keys, since their mixers are recurrent; "
                  "expected at least one of {}",
                  shown_list(plan.layers), shown_list(with_keys)));
}

// Of the model's `n`, those wanted, ascending; all where none are named.
std::vector<int> choose(const char* option, const char* what, const std::vector<int>& wanted, int n) {
  std::vector<int> chosen = wanted;
  if (chosen.empty())
    for (int i = 0; i < n; ++i) chosen.push_back(i);
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  if (chosen.front() < 0 || chosen.back() >= n)
    throw UsageError(fmt::format("{}: {} is not there; the model has {} 0 to {}", option,
                                 chosen.front() < 0 ? chosen.front() : chosen.back(), what, n - 1));
  return chosen;
}

// A choice of all heads limits nothing, and is recorded as if none had been made.
recording::RecordedHeads choose_heads(const ModelConfig& config, const std::vector<int>& layers,
                                      const std::vector<int>& wanted) {
  std::vector<int> heads = choose("--heads", "KV heads", wanted, config.n_kv_heads);
  if (static_cast<int>(heads.size()) == config.n_kv_heads) return {};
  for (const int layer : layers)
    if (heads.back() >= config.heads(layer).n_kv_heads)
      throw UsageError(fmt::format("--heads: {} is not there in layer {}, which has KV heads 0 to {}",
                                   heads.back(), layer, config.heads(layer).n_kv_heads - 1));
  return {std::move(heads)};
}

// Budgets that are given and what a policy makes of N exclude each other.
void check_policy(const ModelConfig& config, const CaptureOptions& options, const analysis::PolicySpec& spec,
                  const analysis::Policy& policy) {
  const analysis::Slots& slots = policy.slots();
  check_slots(config, spec, policy, largest_budget(options));
  if (options.cache_positions && (policy.needs().rotation || policy.needs().query_moments))
    throw UsageError(fmt::format(
        "--positions cache: policy {} looks at keys before rotation and at the positions to come, which are "
        "true ones; expected --positions true",
        spec.name));
  if ((options.cache_positions || !options.budgets.empty()) && keeps_whole_heads(config, policy))
    throw UsageError(
        fmt::format("policy {} has heads that keep every row, and {}; expected {}", spec.name,
                    options.cache_positions
                        ? "with --positions cache rows are rotated by their place in a cache of N rows"
                        : "budgets were given for layers and heads",
                    options.cache_positions ? "--positions true" : "--budget"));
  if (slots.all_layers() && options.schedule == Schedule::kLayer)
    throw UsageError(fmt::format(
        "--schedule layer: policy {} with {} looks at all layers after every block; expected --schedule "
        "block or together",
        spec.name, analysis::weighing_option(spec).given));
  const bool one_set = slots.granularity == analysis::Slots::Granularity::kModel;
  if (!one_set && slots.split == analysis::Slots::Split::kUniform) return;
  const auto [given, instead] = analysis::weighing_option(spec);
  if (options.cache_positions)
    throw UsageError(fmt::format(
        "--positions cache: rows are rotated by their place in one layer's cache of N rows, and policy {} "
        "has {}; expected {}",
        spec.name, given, instead));
  if (!options.budgets.empty())
    throw UsageError(fmt::format(
        "policy {} deals out one budget ({}), and budgets were given for layers and heads; give --budget, "
        "or take {}",
        spec.name, given, instead));
}

// One set of rows for a whole layer cannot have several sizes.
void check_budgets(const ModelConfig& config, const CaptureOptions& options) {
  for (const analysis::PolicySpec& spec : options.policies)
    if (const auto policy = policy_for(spec, options.seed, config); policy != nullptr)
      check_policy(config, options, spec, *policy);
  if (options.budgets.empty()) return;
  const auto n_heads = static_cast<std::size_t>(config.n_kv_heads);
  if (options.budgets.size() != n_heads * config.n_layers)
    throw UsageError(fmt::format("{} budgets; expected one for each of {} layers' {} KV heads",
                                 options.budgets.size(), config.n_layers, config.n_kv_heads));
  if (std::ranges::min(options.budgets) < 1) throw UsageError("a budget of no row; expected at least 1");
  for (const analysis::PolicySpec& spec : options.policies) {
    const auto policy = analysis::make_policy(spec, options.seed);
    if (policy == nullptr || !(policy->needs().last_row_layer || policy->slots().joint())) continue;
    for (std::size_t i = 0; i < options.budgets.size(); ++i)
      if (options.budgets[i] != options.budgets[i / n_heads * n_heads])
        throw UsageError(fmt::format(
            "policy {} keeps one set of rows per layer, and the KV heads of layer {} have "
            "budgets of their own; give the layer one budget, or take {}",
            spec.name, i / n_heads, policy->slots().joint() ? "granularity=head" : "heads=group"));
  }
}

recording::RunPlan plan_run(const ModelConfig& config, const CaptureOptions& options,
                            const analysis::PolicySpec& spec, const analysis::CacheFormat& format) {
  recording::RunPlan run;
  run.policy = spec.name;
  run.parameters = recording::parameters_json(analysis::with_defaults(spec, options.seed).options);
  if (spec.name != "none") {
    run.budget = largest_budget(options);
    run.budgets = options.budgets;
    if (run.budgets.empty())
      run.budgets = split_budgets(config, *policy_for(spec, options.seed, config), run.budget,
                                  std::ssize(options.prompt_ids));
    const std::int64_t all = std::ssize(options.prompt_ids) + std::max<std::int64_t>(options.generate - 1, 0);
    for (std::int64_t& rows : run.budgets)
      if (rows == kAllRows) rows = all;
    run.oracle = options.oracle;
    run.cache_positions = options.cache_positions;
  }
  run.cache_format = format;
  run.block_size = options.block_size;
  const auto n_prompt = static_cast<std::int64_t>(options.prompt_ids.size());
  run.n_prompt_blocks = (n_prompt - 1) / options.block_size + 1;
  run.max_generated = options.generate;
  return run;
}

// Where there are caches of several formats, the names of quantised runs say which is theirs.
std::vector<recording::RunPlan> plan_runs(const ModelConfig& config, const CaptureOptions& options) {
  std::vector<recording::RunPlan> runs;
  for (const analysis::CacheFormat& format : options.cache_formats)
    for (const analysis::PolicySpec& spec : options.policies) {
      std::string name = spec.run_name();
      if (options.cache_formats.size() > 1 && format.quantises())
        name += fmt::format("-{}", analysis::cache_dtype_name(format.dtype));
      recording::RunPlan run = plan_run(config, options, spec, format);
      run.name = recording::next_run_name(name, runs);
      runs.push_back(std::move(run));
    }
  return runs;
}

// KIVI's groups are of keys after rotation, and there a key's rotation changes whenever a row before it goes.
void check_cache_formats(const CaptureOptions& options) {
  if (options.cache_formats.empty()) throw UsageError("--cache-dtype: no dtype was given");
  for (std::size_t i = 0; i < options.cache_formats.size(); ++i) {
    const analysis::CacheFormat& format = options.cache_formats[i];
    const auto earlier = std::span(options.cache_formats).first(i);
    if (std::ranges::find(earlier, format.dtype, &analysis::CacheFormat::dtype) != earlier.end())
      throw UsageError(
          fmt::format("--cache-dtype: {} is given twice", analysis::cache_dtype_name(format.dtype)));
    if (options.cache_positions && format.groups_keys())
      throw UsageError(fmt::format(
          "--positions cache: keys lie in the cache unrotated, and {} with scales by channel is of rotated "
          "ones; take --cache-scales token, which rounds each key as it lies there",
          analysis::cache_dtype_name(format.dtype)));
  }
}

std::string schedule_name(Schedule schedule) {
  switch (schedule) {
    case Schedule::kLayer:
      return "layer";
    case Schedule::kTogether:
      return "together";
    case Schedule::kBlock:
      break;
  }
  return "block";
}

std::string configuration_json(const Model& model, const CaptureOptions& options) {
  Json json;
  Json policies = Json::array();
  for (const auto& spec : options.policies)
    policies.push_back({{"name", spec.name}, {"options", spec.options}});
  json["policies"] = std::move(policies);
  json["budget"] = options.budget.rows_for(std::ssize(options.prompt_ids));
  if (!options.budgets.empty()) json["budgets"] = options.budgets;
  json["block"] = options.block_size;
  json["schedule"] = schedule_name(options.schedule);
  json["oracle"] = options.oracle;
  json["positions"] = options.cache_positions ? "cache" : "true";
  json["cache"] = Json::array();
  for (const analysis::CacheFormat& format : options.cache_formats) {
    Json entry{{"dtype", analysis::cache_dtype_name(format.dtype)}};
    if (format.quantises()) entry["scales"] = analysis::cache_scales_name(format.scales);
    json["cache"].push_back(std::move(entry));
  }
  json["generate"] = options.generate;
  json["ignore_eos"] = options.ignore_eos;
  if (!options.answer.empty()) json["answer"] = options.answer;
  if (!options.evidence.empty()) json["evidence"] = options.evidence;
  json["layers"] = options.layers;
  if (!options.heads.empty()) json["heads"] = options.heads;
  json["record"] = {{"keys", options.record_keys},
                    {"queries", options.record_queries},
                    {"values", options.record_values},
                    {"attention", options.record_attention},
                    {"logits", options.record_logits}};
  if (options.record_value_norms) json["record"]["value-norms"] = true;
  json["score_last"] = options.score_last;
  json["store"] = recording::store_name(options.store);
  json["compress"] = options.compress;
  json["dtype"] = model.dtype_name();
  json["threads"] = model.threads();
  json["seed"] = options.seed;
  json["n_prompt"] = options.prompt_ids.size();
  return json_text(json);
}

std::string hash_ids(const std::vector<std::int32_t>& ids) {
  Sha256 hash;
  hash.add({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(std::int32_t)});
  return hash.hex();
}

recording::Provenance provenance(const Model& model, const CaptureOptions& options) {
  recording::Provenance origin;
  origin.command = options.command;
  origin.configuration = configuration_json(model, options);
  origin.versions = fmt::format("keyscope {}, {}, HDF5 {}.{}.{}", KEYSCOPE_VERSION, model.library(),
                                H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE);
  origin.model_sha256 = options.model_sha256.empty() ? model.model_sha256() : options.model_sha256;
  if (const auto cached = cached_model(model.folder())) origin.model_commit = cached->commit;
  origin.quantisation = model.quantisation();
  origin.prompt_sha256 = hash_ids(options.prompt_ids);
  origin.seed = static_cast<std::int64_t>(options.seed);
  origin.device = model.device_name();
  origin.schedule = schedule_name(options.schedule);
  origin.started = utc_now();
  return origin;
}

}  // namespace

void check_options(const CaptureOptions& options) {
  if (options.policies.empty()) throw UsageError("no policy was given; `none` keeps everything");
  if (options.block_size < 1) throw UsageError("--block: expected at least 1");
  if (options.generate < 0) throw UsageError("--generate: expected at least 0");
  if (options.score_last < 1) throw UsageError("--score-last: expected at least 1");
  check_cache_formats(options);
  for (const analysis::PolicySpec& spec : options.policies)
    if (spec.name != "none" && !options.budget.is_given() && options.budgets.empty())
      throw UsageError(fmt::format(
          "policy {} needs a --budget: rows per KV head, or a share of the prompt such as 25%", spec.name));
}

recording::RecordPlan plan_capture(const Model& model, const CaptureOptions& options) {
  check_options(options);
  check_budgets(model.config(), options);
  check_prompt(model, options);
  if (!model.has_head() && (options.generate > 0 || options.record_logits))
    throw FileError(
        fmt::format("{}: holds no lm_head.weight, so that there are no next tokens; expected a model "
                    "with its head, or neither --generate nor logits to record",
                    model.folder().string()));
  const ModelConfig& config = model.config();
  recording::RecordPlan plan;
  plan.provenance = provenance(model, options);
  plan.model = model_info(config, model_name(model.folder()));
  if (const tokenizer::Tokenizer* tokenizer = model.tokenizer()) {
    plan.prompt = tokenizer->token_text(options.prompt_ids);
  } else {
    plan.prompt.id = options.prompt_ids;
    plan.prompt.offset.assign(options.prompt_ids.size() + 1, 0);
  }
  plan.runs = plan_runs(config, options);
  plan.layers = choose("--layers", "layers", options.layers, config.n_layers);
  plan.heads = choose_heads(config, plan.layers, options.heads);
  plan.keys = options.record_keys;
  plan.queries = options.record_queries;
  plan.values = options.record_values;
  plan.value_norms = options.record_value_norms;
  plan.attention = options.record_attention;
  plan.logits = options.record_logits;
  plan.score_last = std::min(options.score_last, plan.n_prompt());
  plan.vocab_size = config.vocab_size;
  plan.store = options.store;
  plan.compress = options.compress;
  plan.sinks = config.attention_sinks;
  std::ranges::set_intersection(plan.layers, config.keyless_layers(),
                                std::back_inserter(plan.keyless_layers));
  require_some_keys(config, plan);
  for (const int layer : plan.layers)
    if (config.has_experts(layer)) plan.expert_layers.push_back(layer);
  if (!plan.expert_layers.empty()) {
    plan.n_experts = config.experts.n;
    plan.experts_per_token = config.experts.per_token;
  }
  return plan;
}

}  // namespace keyscope::capture
