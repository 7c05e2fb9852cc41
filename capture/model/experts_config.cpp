// A mixture of experts, as config.json describes it.

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "capture/model/config_fields.hpp"

namespace keyscope::capture {

namespace {

using Json = nlohmann::json;
using Router = ExpertsConfig::Router;

constexpr std::int64_t kMostExperts = 65536;

void leave_out_listed(const ConfigFields& fields, std::vector<bool>& layers) {
  if (!fields.has("mlp_only_layers")) return;
  const auto n_layers = static_cast<std::int64_t>(layers.size());
  const Json& list = fields.at("mlp_only_layers");
  const std::string expected = fmt::format("a list of layers, 0 to {}", n_layers - 1);
  if (!list.is_array()) fields.fail("mlp_only_layers", shown_value(list), expected);
  for (const Json& layer : list) {
    const bool sound =
        layer.is_number_integer() && layer.get<std::int64_t>() >= 0 && layer.get<std::int64_t>() < n_layers;
    if (!sound) fields.fail("mlp_only_layers", shown_value(list), expected);
    layers[layer.get<int>()] = false;
  }
}

std::vector<bool> read_layers(const ConfigFields& fields, const ExpertsRule& rule, int n_layers) {
  std::vector<bool> layers(n_layers, true);
  if (rule.layers == ExpertLayers::kChosen) {
    const std::int64_t step = fields.count_or("decoder_sparse_step", 1, 1, kLargestSize);
    for (int layer = 0; layer < n_layers; ++layer) layers[layer] = (layer + 1) % step == 0;
    leave_out_listed(fields, layers);
  }
  if (rule.layers == ExpertLayers::kBehindFirst) {
    const std::int64_t n =
        fields.count_or("first_k_dense_replace", rule.default_dense_layers, 0, kLargestSize);
    for (int layer = 0; layer < n_layers && layer < n; ++layer) layers[layer] = false;
    if (fields.count_or("moe_layer_freq", 1, 1, kLargestSize) != 1)
      fields.fail("moe_layer_freq", shown_value(fields.at("moe_layer_freq")), "1: experts in every layer");
  }
  return layers;
}

// From which groups experts are chosen.
void read_groups(const ConfigFields& fields, const ExpertsRule& rule, ExpertsConfig& experts) {
  if (rule.groups == ExpertGroups::kNone) return;
  if (rule.groups == ExpertGroups::kByMethod) {
    const std::string method = fields.text_or("topk_method", "greedy");
    if (method != "greedy" && method != "group_limited_greedy")
      fields.fail("topk_method", shown(method), "\"greedy\" or \"group_limited_greedy\"");
    if (method == "greedy") return;
  }
  experts.n_groups = static_cast<int>(fields.count_or("n_group", rule.default_groups, 1, kMostExperts));
  experts.chosen_groups =
      static_cast<int>(fields.count_or("topk_group", rule.default_chosen_groups, 1, kMostExperts));
  if (experts.n % experts.n_groups != 0)
    fields.fail("n_group", std::to_string(experts.n_groups),
                fmt::format("a divisor of the number of experts, which is {}", experts.n));
  const int in_group = experts.n / experts.n_groups;
  if (experts.router == Router::kBiasedSigmoid && in_group < 2)
    fields.fail("n_group", std::to_string(experts.n_groups),
                fmt::format("groups of two experts at least, which are {}", experts.n));
  if (experts.chosen_groups > experts.n_groups)
    fields.fail("topk_group", std::to_string(experts.chosen_groups),
                fmt::format("at most n_group, which is {}", experts.n_groups));
  if (experts.per_token > experts.chosen_groups * in_group)
    fields.fail("num_experts_per_tok", std::to_string(experts.per_token),
                fmt::format("at most {}, as {} groups of {} experts are chosen",
                            experts.chosen_groups * in_group, experts.chosen_groups, in_group));
}

void read_weighting(const ConfigFields& fields, const Family& family, ExpertsConfig& experts) {
  const ExpertsRule& rule = family.experts;
  experts.router = rule.router;
  experts.renormalised = rule.renormalised_field.empty()
                             ? rule.renormalised
                             : fields.flag_or(std::string(rule.renormalised_field), rule.renormalised);
  if (rule.scaled_weights)
    experts.weight_scale = fields.positive_or("routed_scaling_factor", rule.default_weight_scale);
  if (rule.scoring.empty()) return;
  const std::string scoring = fields.text_or("scoring_func", std::string(rule.scoring));
  if (scoring != rule.scoring)
    fields.fail("scoring_func", shown(scoring),
                fmt::format("\"{}\", as in other models of {}", rule.scoring, family.model_type));
  // The model's first code and Transformers' do not agree on what these weights are.
  if (rule.renormalised_field.empty() && !rule.renormalised && fields.flag_or("norm_topk_prob", false))
    fields.fail("norm_topk_prob", "true",
                fmt::format("false, as in the published models of {}", family.model_type));
}

void read_shared(const ConfigFields& fields, const ExpertsRule& rule, ExpertsConfig& experts) {
  if (!rule.shared_size_field.empty())
    experts.shared_intermediate_size =
        fields.count_or(std::string(rule.shared_size_field), rule.default_shared_size, 1, kLargestSize);
  if (rule.n_shared_field.empty() || fields.is_null(std::string(rule.n_shared_field))) return;
  const std::int64_t n =
      fields.count_or(std::string(rule.n_shared_field), rule.default_n_shared, 0, kMostExperts);
  experts.shared_intermediate_size = n * experts.intermediate_size;
}

}  // namespace

void read_experts(const ConfigFields& fields, const Family& family, ModelConfig& config) {
  const ExpertsRule& rule = family.experts;
  if (rule.n_field.empty()) return;
  const bool beside_dense = !rule.beside_dense_flag.empty();
  if (beside_dense && !fields.flag_or(std::string(rule.beside_dense_flag), false)) return;
  ExpertsConfig& experts = config.experts;
  experts.beside_dense = beside_dense;
  // Some of these families call the number of their experts by another's name.
  const std::string n_field = fields.has(std::string(rule.n_field)) || !fields.has("num_local_experts")
                                  ? std::string(rule.n_field)
                                  : "num_local_experts";
  experts.n = static_cast<int>(
      beside_dense ? fields.count(n_field, 1, kMostExperts)
                   : fields.count_or(n_field, rule.default_n, rule.may_be_none ? 0 : 1, kMostExperts));
  const std::string size_field(rule.size_field);
  if (experts.n > 0)
    experts.intermediate_size = rule.default_size > 0
                                    ? fields.count_or(size_field, rule.default_size, 1, kLargestSize)
                                    : fields.count(size_field, 1, kLargestSize);
  read_shared(fields, rule, experts);
  if (experts.n == 0) {
    config.intermediate_size = experts.shared_intermediate_size;
    return;
  }
  const std::string chosen_field(rule.per_token_field);
  experts.per_token = static_cast<int>(
      rule.default_per_token > 0 ? fields.count_or(chosen_field, rule.default_per_token, 1, kMostExperts)
                                 : fields.count(chosen_field, 1, kMostExperts));
  if (experts.per_token > experts.n)
    fields.fail(chosen_field, std::to_string(experts.per_token),
                fmt::format("at most {}, which is {}", n_field, experts.n));
  read_weighting(fields, family, experts);
  read_groups(fields, rule, experts);
  if (rule.default_clamp > 0) {
    experts.clamp = fields.positive_or("swiglu_limit", rule.default_clamp);
    if (fields.positive_or("swiglu_alpha", 1.702) != 1.702)
      fields.fail("swiglu_alpha", shown_value(fields.at("swiglu_alpha")), "1.702");
  }
  config.layer_experts = read_layers(fields, rule, config.n_layers);
}

}  // namespace keyscope::capture
