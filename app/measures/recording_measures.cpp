#include "app/measures/recording_measures.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include "app/measures/router_measures.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace keyscope::measures {

namespace {

std::vector<int> choose(const std::vector<int>& wanted, const std::vector<int>& there, const char* what) {
  if (wanted.empty()) return there;
  for (const int index : wanted)
    if (std::find(there.begin(), there.end(), index) == there.end())
      throw UsageError(
          fmt::format("{} {} is not in the recording; it has {}", what, index, shown_list(there)));
  return wanted;
}

std::vector<int> count_up(std::size_t n) {
  std::vector<int> indices(n);
  for (std::size_t i = 0; i < n; ++i) indices[i] = static_cast<int>(i);
  return indices;
}

nlohmann::ordered_json head_json(const HeadMeasures& head) {
  nlohmann::ordered_json json;
  const auto put = [&](const char* name, const auto& value) {
    if (value)
      json[name] = *value;
    else
      json[name] = nullptr;
  };
  json["layer"] = head.layer;
  json["kv_head"] = head.kv_head;
  json["retained"] = head.retained;
  put("spearman", head.spearman);
  put("spearman_total", head.spearman_total);
  put("spearman_given_position", head.spearman_given_position);
  put("kendall", head.kendall);
  put("mean_key_cosine", head.mean_key_cosine);
  put("key_query_mean_cosine", head.key_query_mean_cosine);
  put("top_key_query_cosine", head.top_key_query_cosine);
  put("log_volume_nats", head.log_volume_nats);
  put("rank", head.rank);
  put("regularised_log_volume_nats", head.regularised_log_volume_nats);
  put("participation_ratio", head.participation_ratio);
  put("effective_rank", head.effective_rank);
  put("mean_pairwise_cosine", head.mean_pairwise_cosine);
  put("cosine_objective", head.cosine_objective);
  put("attention_mass_kept", head.attention_mass_kept);
  put("output_error", head.output_error);
  put("attention_entropy_nats", head.attention_entropy_nats);
  put("attention_gini", head.attention_gini);
  put("attention_top_share", head.attention_top_share);
  put("sink_metric", head.sink_metric);
  put("learned_sink_share", head.learned_sink_share);
  put("spearman_without_sinks", head.spearman_without_sinks);
  put("spearman_given_position_without_sinks", head.spearman_given_position_without_sinks);
  put("attention_mass_kept_without_sinks", head.attention_mass_kept_without_sinks);
  put("output_error_without_sinks", head.output_error_without_sinks);
  put("expert_epsilon_squared", head.expert_epsilon_squared);
  put("expert_p_value", head.expert_p_value);
  put("quantised_key_error", head.quantised_key_error);
  put("quantised_key_cosine", head.quantised_key_cosine);
  put("quantised_score_spearman", head.quantised_score_spearman);
  put("quantised_retained_jaccard", head.quantised_retained_jaccard);
  put("quantised_attention_difference", head.quantised_attention_difference);
  put("held_bytes", head.held_bytes);
  put("packed_bytes", head.packed_bytes);
  put("pca_explained", head.pca_explained);
  put("bound_pairs", head.bound_pairs);
  put("bound_pairs_causal", head.bound_pairs_causal);
  put("bound_violations", head.bound_violations);
  if (head.bound_sampled) json["bound_sampled"] = *head.bound_sampled;
  put("bound_min_slack", head.bound_min_slack);
  put("bound_min_slack_exact", head.bound_min_slack_exact);
  return json;
}

nlohmann::ordered_json router_json(const RouterMeasures& router) {
  return {{"layer", router.layer},
          {"n_experts", router.n_experts},
          {"experts_per_token", router.experts_per_token},
          {"n_tokens", router.n_tokens},
          {"load", router.load},
          {"load_gini", json_number(router.load_gini)},
          {"n_idle", router.n_idle},
          {"router_entropy_nats", json_number(router.router_entropy_nats)},
          {"first_expert_weight", json_number(router.first_expert_weight)}};
}

nlohmann::ordered_json run_json(const recording::RunInfo& info, const RunMeasures& run) {
  nlohmann::ordered_json json;
  json["run"] = run.run;
  json["policy"] = info.plan.policy;
  const auto parameters = parse_ordered_json(info.plan.parameters);
  json["parameters"] = parameters.is_discarded() ? nlohmann::ordered_json::object() : parameters;
  json["budget"] = info.plan.budget;
  json["block_size"] = info.plan.block_size;
  json["replayed"] = info.plan.replayed;
  json["oracle"] = info.plan.oracle;
  const analysis::CacheFormat& format = info.plan.cache_format;
  json["cache_dtype"] = analysis::cache_dtype_name(format.dtype);
  json["cache_scales"] = nullptr;
  if (format.quantises()) json["cache_scales"] = analysis::cache_scales_name(format.scales);
  json["generated"] = info.generated.id;
  json["top_ids"] = info.top_ids;
  json["top_logits"] = info.top_logits;
  json["kl_nats"] = run.kl_nats ? nlohmann::ordered_json(*run.kl_nats) : nullptr;
  json["top1_agreement"] = run.top1_agreement ? nlohmann::ordered_json(*run.top1_agreement) : nullptr;
  json["biased"] = nlohmann::ordered_json::array();
  if (info.plan.policy != "none")
    for (const std::string_view measure : kBiasedMeasures) json["biased"].push_back(measure);
  json["heads"] = nlohmann::ordered_json::array();
  for (const auto& head : run.heads) json["heads"].push_back(head_json(head));
  json["routers"] = nlohmann::ordered_json::array();
  for (const auto& router : run.routers) json["routers"].push_back(router_json(router));
  return json;
}

// Does the work of every head, and holds no more of them at a time than two layers have. Each thread takes
// the next one, until all are done.
//   throws Cancelled where the caller's tasks were called off
void for_each_head(const recording::RecordingInfo& info, std::size_t n_heads,
                   const std::function<void(std::size_t)>& work) {
  const int n_of_two_layers = 2 * std::max(1, info.model.n_kv_heads);
  const int n_at_once = std::min(oneapi::tbb::this_task_arena::max_concurrency(), n_of_two_layers);
  std::atomic<std::size_t> next = 0, n_done = 0;
  oneapi::tbb::parallel_for(0, n_at_once, [&](int) {
    for (std::size_t i = next++; i < n_heads && !oneapi::tbb::is_current_task_group_canceling(); i = next++) {
      work(i);
      ++n_done;
    }
  });
  if (n_done < n_heads) throw Cancelled("interrupted; not all heads were measured");
}

}  // namespace

std::vector<RunMeasures> measure_recording(const recording::Recording& recording,
                                           const MeasureSelection& selection, Parts parts,
                                           const MeasureProgress& progress,
                                           const std::atomic<bool>& cancelled) {
  const auto info = recording.info();
  const auto runs = choose(selection.runs, count_up(info->runs.size()), "run");
  for (const int layer : selection.layers)
    if (!info->has_keys(layer)) throw UsageError(recording::layer_refusal(*info, layer));
  const auto layers = choose(selection.layers, info->layers, "layer");
  const auto kv_heads = choose(selection.kv_heads, count_up(info->model.n_kv_heads), "KV head");
  std::vector<recording::LayerHead> heads = info->all_heads();
  std::erase_if(heads, [&](const recording::LayerHead& head) {
    return std::ranges::find(layers, head.layer) == layers.end() ||
           std::ranges::find(kv_heads, head.kv_head) == kv_heads.end();
  });

  std::vector<RunMeasures> result(runs.size());
  oneapi::tbb::parallel_for(std::size_t{0}, runs.size(), [&](std::size_t r) {
    result[r] = measure_run(recording, runs[r]);
    result[r].heads.resize(heads.size());
    for (const int layer : info->expert_layers)
      if (selection.layers.empty() || std::ranges::find(layers, layer) != layers.end())
        if (auto router = measure_router(recording, runs[r], layer))
          result[r].routers.push_back(std::move(*router));
  });
  std::vector<Moment> moments;
  for (const int run : runs) moments.push_back({run, -1});
  std::atomic<std::int64_t> done = 0;
  for_each_head(*info, heads.size(), [&](std::size_t i) {
    if (cancelled) throw Cancelled("interrupted; nothing was written");
    auto measured = measure_head(recording, moments, heads[i].layer, heads[i].kv_head, parts);
    for (std::size_t r = 0; r < runs.size(); ++r) result[r].heads[i] = std::move(measured[r]);
    if (progress)
      progress(++done, static_cast<std::int64_t>(heads.size()), fmt::format("layer {}", heads[i].layer));
  });
  return result;
}

std::vector<std::vector<HeadMeasures>> measure_heads(const recording::Recording& recording,
                                                     std::span<const Moment> moments, Parts parts) {
  const auto info = recording.info();
  const std::vector<recording::LayerHead> heads = info->all_heads();
  std::vector<std::vector<HeadMeasures>> result(moments.size(), std::vector<HeadMeasures>(heads.size()));
  for_each_head(*info, heads.size(), [&](std::size_t i) {
    auto measured = measure_head(recording, moments, heads[i].layer, heads[i].kv_head, parts);
    for (std::size_t m = 0; m < moments.size(); ++m) result[m][i] = std::move(measured[m]);
  });
  return result;
}

nlohmann::ordered_json measures_json(const recording::RecordingInfo& info,
                                     const std::vector<RunMeasures>& runs) {
  nlohmann::ordered_json json;
  json["format"] = 1;
  json["model"] = {{"name", info.model.name},
                   {"sha256", info.provenance.model_sha256},
                   {"n_layers", info.model.n_layers},
                   {"n_heads", info.model.n_heads},
                   {"n_kv_heads", info.model.n_kv_heads},
                   {"head_dim", info.model.head_dim}};
  for (int layer = 0; layer < std::ssize(info.model.layer_heads); ++layer) {
    json["model"]["layer_n_kv_heads"].push_back(info.model.heads(layer).n_kv_heads);
    json["model"]["layer_head_dim"].push_back(info.model.heads(layer).head_dim);
  }
  if (!info.model.layer_lenders.empty()) json["model"]["keys_of"] = info.model.layer_lenders;
  json["n_prompt"] = info.n_prompt();
  json["complete"] = info.complete;
  json["keyless_layers"] = info.keyless_layers;
  json["runs"] = nlohmann::ordered_json::array();
  for (const auto& run : runs) {
    const int index = info.run_index(run.run);
    json["runs"].push_back(run_json(info.runs[index], run));
  }
  return json;
}

std::optional<double> mean_over_heads(const std::vector<HeadMeasures>& heads,
                                      std::optional<double> HeadMeasures::*measure) {
  double sum = 0;
  std::int64_t n = 0;
  for (const auto& head : heads)
    if (const auto& value = head.*measure) {
      sum += *value;
      ++n;
    }
  if (n == 0) return std::nullopt;
  return sum / static_cast<double>(n);
}

namespace {

using Json = nlohmann::ordered_json;
using Columns = std::vector<std::pair<std::string, std::string>>;  // name and field

std::string field_of(const Json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? csv_field(value.get<std::string>()) : json_text(value);
}

void add_head(Columns& columns, const Json& head) {
  for (const auto& [name, value] : head.items()) {
    if (name == "retained") {
      columns.emplace_back(name, std::to_string(value.size()));
    } else if (name == "pca_explained") {
      for (const int i : {0, 1})
        columns.emplace_back(name + "_" + std::to_string(i + 1), value.is_null() ? "" : field_of(value[i]));
    } else if (name != "bound_sampled") {  // only some heads have it; it follows for all
      columns.emplace_back(name, field_of(value));
    }
  }
  columns.emplace_back("bound_sampled",
                       head.contains("bound_sampled") ? field_of(head["bound_sampled"]) : "");
}

void add_line(std::string& text, const Columns& columns, std::string Columns::value_type::*part) {
  for (std::size_t i = 0; i < columns.size(); ++i) text += (i > 0 ? "," : "") + columns[i].*part;
  text += '\n';
}

}  // namespace

std::string measures_csv(const recording::RecordingInfo& info, const std::vector<RunMeasures>& runs) {
  const Json json = measures_json(info, runs);
  std::string text;
  for (const Json& run : json["runs"])
    for (const Json& head : run["heads"]) {
      Columns columns{{"run", field_of(run["run"])},
                      {"policy", field_of(run["policy"])},
                      {"budget", field_of(run["budget"])},
                      {"block_size", field_of(run["block_size"])}};
      add_head(columns, head);
      if (text.empty()) add_line(text, columns, &Columns::value_type::first);
      add_line(text, columns, &Columns::value_type::second);
    }
  return text;
}

}  // namespace keyscope::measures
