// What a capture will do, before it does it.

#include <algorithm>
#include <ctime>
#include <map>
#include <set>

#include <H5public.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <torch/headeronly/version.h>

#include "analysis/errors.hpp"
#include "analysis/policies/registry.hpp"
#include "capture/inference/capture.hpp"
#include "capture/model/sha256.hpp"

namespace keyscope::capture {
namespace {

using Json = nlohmann::ordered_json;

void check_prompt(const Model& model, const CaptureOptions& options) {
  const ModelConfig& config = model.config();
  if (options.prompt_ids.empty()) throw InvalidInput("the prompt is empty; expected at least one token");
  for (std::size_t i = 0; i < options.prompt_ids.size(); ++i)
    if (options.prompt_ids[i] < 0 || options.prompt_ids[i] >= config.vocab_size)
      throw InvalidInput(fmt::format("prompt token {} is id {}, and the model's vocabulary has ids 0 to {}",
                                     i, options.prompt_ids[i], config.vocab_size - 1));
  const auto n_prompt = static_cast<std::int64_t>(options.prompt_ids.size());
  const std::int64_t fed_back = std::max<std::int64_t>(options.generate - 1, 0);
  const std::int64_t room = config.context_length - n_prompt;
  if (room < 0)
    throw InvalidInput(
        fmt::format("the prompt has {} tokens, and the model's context is {}{}; shorten it with --max-tokens",
                    n_prompt, config.context_length,
                    config.sliding_window == config.context_length
                        ? " (its sliding window, beyond which it is not supported)"
                        : ""));
  if (fed_back > room)
    throw InvalidInput(
        fmt::format("the prompt has {} tokens, {} generated ones follow, and the model's context is {}; at "
                    "most --generate {} fits, or shorten the prompt with --max-tokens",
                    n_prompt, fed_back, config.context_length, room + 1));
}

std::vector<int> choose_layers(const ModelConfig& config, const std::vector<int>& wanted) {
  std::vector<int> layers = wanted;
  if (layers.empty())
    for (int i = 0; i < config.n_layers; ++i) layers.push_back(i);
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  if (layers.front() < 0 || layers.back() >= config.n_layers)
    throw UsageError(fmt::format("--layers: {} is not there; the model has layers 0 to {}",
                                 layers.front() < 0 ? layers.front() : layers.back(), config.n_layers - 1));
  return layers;
}

// Options as JSON: what reads as a number is one.
std::string parameters_json(const analysis::PolicySpec& spec) {
  Json json = Json::object();
  for (const auto& [key, value] : spec.options) {
    const Json number = Json::parse(value, nullptr, false);
    json[key] = number.is_number() ? number : Json(value);
  }
  return json.dump();
}

std::vector<recording::RunPlan> plan_runs(const CaptureOptions& options) {
  std::vector<recording::RunPlan> runs;
  std::map<std::string, int> uses;
  for (const analysis::PolicySpec& spec : options.policies) {
    recording::RunPlan run;
    run.policy = spec.name;
    const int use = ++uses[spec.name];
    run.name = use == 1 ? spec.name : fmt::format("{}-{}", spec.name, use);
    run.parameters = parameters_json(analysis::with_defaults(spec, options.seed));
    if (spec.name != "none") run.budget = options.budget;
    run.block_size = options.block_size;
    const auto n_prompt = static_cast<std::int64_t>(options.prompt_ids.size());
    run.n_prompt_blocks = (n_prompt - 1) / options.block_size + 1;
    run.max_generated = options.generate;
    runs.push_back(std::move(run));
  }
  return runs;
}

std::string configuration_json(const Model& model, const CaptureOptions& options) {
  Json json;
  Json policies = Json::array();
  for (const auto& spec : options.policies)
    policies.push_back({{"name", spec.name}, {"options", spec.options}});
  json["policies"] = std::move(policies);
  json["budget"] = options.budget;
  json["block"] = options.block_size;
  json["generate"] = options.generate;
  json["ignore_eos"] = options.ignore_eos;
  json["layers"] = options.layers;
  json["record"] = {{"keys", options.record_keys},
                    {"queries", options.record_queries},
                    {"values", options.record_values},
                    {"attention", options.record_attention},
                    {"logits", options.record_logits}};
  json["score_last"] = options.score_last;
  json["store"] = options.store == recording::StoreType::kFloat16 ? "float16" : "float32";
  json["compress"] = options.compress;
  json["dtype"] = model.dtype_name();
  json["threads"] = model.threads();
  json["seed"] = options.seed;
  json["n_prompt"] = options.prompt_ids.size();
  return json.dump();
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
  origin.versions =
      fmt::format("keyscope {}, LibTorch {}.{}.{}, HDF5 {}.{}.{}", KEYSCOPE_VERSION, TORCH_VERSION_MAJOR,
                  TORCH_VERSION_MINOR, TORCH_VERSION_PATCH, H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE);
  origin.model_sha256 = model.model_sha256();
  origin.prompt_sha256 = hash_ids(options.prompt_ids);
  origin.seed = static_cast<std::int64_t>(options.seed);
  origin.device = model.device_name();
  origin.started = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  return origin;
}

}  // namespace

void check_options(const CaptureOptions& options) {
  if (options.policies.empty()) throw UsageError("no policy was given; `none` keeps everything");
  if (options.block_size < 1) throw UsageError("--block: expected at least 1");
  if (options.generate < 0) throw UsageError("--generate: expected at least 0");
  if (options.score_last < 1) throw UsageError("--score-last: expected at least 1");
  for (const analysis::PolicySpec& spec : options.policies)
    if (spec.name != "none" && options.budget < 1)
      throw UsageError(fmt::format("policy {} needs a --budget of at least 1 row per KV head", spec.name));
}

recording::RecordPlan plan_capture(const Model& model, const CaptureOptions& options) {
  check_options(options);
  check_prompt(model, options);
  const ModelConfig& config = model.config();
  recording::RecordPlan plan;
  plan.provenance = provenance(model, options);
  const auto folder = std::filesystem::absolute(model.folder()).lexically_normal();
  plan.model = {
      config.raw_json,   (folder.has_filename() ? folder : folder.parent_path()).filename().string(),
      config.n_layers,   config.n_heads,
      config.n_kv_heads, config.head_dim};
  if (const tokenizer::Tokenizer* tokenizer = model.tokenizer()) {
    plan.prompt = tokenizer->token_text(options.prompt_ids);
  } else {
    plan.prompt.id = options.prompt_ids;
    plan.prompt.offset.assign(options.prompt_ids.size() + 1, 0);
  }
  plan.runs = plan_runs(options);
  plan.layers = choose_layers(config, options.layers);
  plan.keys = options.record_keys;
  plan.queries = options.record_queries;
  plan.values = options.record_values;
  plan.attention = options.record_attention;
  plan.logits = options.record_logits;
  plan.score_last = std::min(options.score_last, plan.n_prompt());
  plan.vocab_size = config.vocab_size;
  plan.store = options.store;
  plan.compress = options.compress;
  return plan;
}

}  // namespace keyscope::capture
