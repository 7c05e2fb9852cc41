#include "capture/recording/records.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/text.hpp"

namespace keyscope::recording {

std::string_view store_name(StoreType store) {
  switch (store) {
    case StoreType::kFloat16:
      return "float16";
    case StoreType::kBFloat16:
      return "bfloat16";
    case StoreType::kFloat32:
      break;
  }
  return "float32";
}

// 11 and 8 significant bits.
double store_rounding(StoreType store) {
  switch (store) {
    case StoreType::kFloat16:
      return 0x1p-11;
    case StoreType::kBFloat16:
      return 0x1p-8;
    case StoreType::kFloat32:
      break;
  }
  return 0;
}

std::vector<int> RecordedHeads::list(int n_kv_heads) const {
  if (!all()) return kv_heads;
  std::vector<int> every(n_kv_heads);
  std::iota(every.begin(), every.end(), 0);
  return every;
}

int RecordedHeads::place(int kv_head) const {
  if (all()) return kv_head;
  const auto found = std::ranges::lower_bound(kv_heads, kv_head);
  return found == kv_heads.end() || *found != kv_head ? -1 : static_cast<int>(found - kv_heads.begin());
}

int RecordedHeads::query_place(int query_head, int group_size) const {
  const int group = place(query_head / group_size);
  return group < 0 ? -1 : group * group_size + query_head % group_size;
}

std::string RecordedHeads::refusal(int kv_head) const {
  return fmt::format("KV head {} was not recorded; recorded are {}", kv_head, shown_list(kv_heads));
}

int RecordPlan::counted_layer() const {
  const auto found = std::ranges::find_if(layers, [&](int layer) { return has_keys(layer); });
  return found == layers.end() ? -1 : *found;
}

int RecordPlan::holder(int layer) const {
  return *std::ranges::find_if(
      layers, [&](int other) { return other == layer || model.lender(other) == model.lender(layer); });
}

std::string parameters_json(const std::map<std::string, std::string>& options) {
  using Json = nlohmann::ordered_json;
  Json json = Json::object();
  for (const auto& [key, value] : options) {
    const Json number = parse_ordered_json(value);
    json[key] = number.is_number() ? number : Json(value);
  }
  return json_text(json);
}

std::map<std::string, std::string> policy_options(const RunPlan& run) {
  std::map<std::string, std::string> options;
  const nlohmann::json json = parse_json(run.parameters);
  if (!json.is_object()) return options;
  for (const auto& [key, value] : json.items())
    if (key != "oracle") options[key] = value.is_string() ? value.get<std::string>() : json_text(value);
  return options;
}

std::string next_run_name(const std::string& policy, std::span<const RunPlan> runs) {
  std::string name = policy;
  const auto taken = [&](const RunPlan& run) { return run.name == name; };
  for (int use = 2; std::ranges::any_of(runs, taken); ++use) name = fmt::format("{}-{}", policy, use);
  return name;
}

}  // namespace keyscope::recording
