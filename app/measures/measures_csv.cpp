#include "app/measures/measures_csv.hpp"

#include <utility>

#include <nlohmann/json.hpp>

#include "app/measures/recording_measures.hpp"

namespace keyscope::measures {
namespace {

using Json = nlohmann::ordered_json;
using Columns = std::vector<std::pair<std::string, std::string>>;  // name and field

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string field = "\"";
  for (const char c : text) field += c == '"' ? std::string("\"\"") : std::string(1, c);
  return field + '"';
}

std::string field_of(const Json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? quoted(value.get<std::string>()) : value.dump();
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
