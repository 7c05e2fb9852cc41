#include "app/commands/budget_file.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "app/commands/text_input.hpp"

namespace keyscope::commands {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostRows = std::int64_t{1} << 31;

std::int64_t read_budget(const Json& entry, const std::string& where) {
  const bool fits =
      entry.is_number_integer() && entry.get<std::int64_t>() >= 1 && entry.get<std::int64_t>() <= kMostRows;
  if (!fits)
    throw FileError(
        fmt::format("{} is {}, expected a number of rows from 1", where, entry.dump().substr(0, 40)));
  return entry.get<std::int64_t>();
}

void require_size(const Json& list, int n, const std::string& where, const char* of_what) {
  if (!list.is_array() || list.size() != static_cast<std::size_t>(n))
    throw FileError(fmt::format(
        "{} is {}, expected {} entries, one per {} of the model", where,
        list.is_array() ? fmt::format("a list of {}", list.size()) : list.dump().substr(0, 40), n, of_what));
}

}  // namespace

std::vector<std::int64_t> read_budget_file(const std::string& path, const capture::ModelConfig& config) {
  // Numbers in lists of a list: what is nested deeper is not looked at further.
  bool too_deep = false;
  const auto shallow = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > 2;
    return depth <= 2;
  };
  const Json json = Json::parse(TextInput(path).read_all(), shallow, false);
  if (json.is_discarded() || too_deep)
    throw FileError(fmt::format("{}: a JSON array of budgets is expected, such as [512, [256, 128]]", path));
  require_size(json, config.n_layers, path, "layer");
  std::vector<std::int64_t> budgets;
  for (std::size_t layer = 0; layer < json.size(); ++layer) {
    const Json& entry = json[layer];
    const std::string where = fmt::format("{}: entry {}", path, layer);
    if (entry.is_array()) require_size(entry, config.n_kv_heads, where, "KV head");
    for (int head = 0; head < config.n_kv_heads; ++head)
      budgets.push_back(read_budget(entry.is_array() ? entry[static_cast<std::size_t>(head)] : entry, where));
  }
  return budgets;
}

}  // namespace keyscope::commands
