#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands/commands.hpp"
#include "app/commands/inspection.hpp"
#include "app/commands/json_output.hpp"

namespace keyscope::commands {
namespace {

using Json = nlohmann::ordered_json;

struct InspectArguments {
  std::string path;
  JsonTarget json;
};

// Text and numbers as they are, lists on one line.
std::string cell(const Json& value) {
  if (value.is_null()) return "none";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string()) {
    std::string text = value.get<std::string>();
    // A prompt may hold anything; a terminal shall not obey it.
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
    return text;
  }
  if (!value.is_array()) return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string list;
  for (const Json& item : value) list += (list.empty() ? "" : ", ") + cell(item);
  return list.empty() ? "none" : list;
}

bool is_table(const Json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(), [](const Json& row) { return row.is_object(); });
}

// One line a row, under the names of the first row's fields.
void print_table(const Json& rows, int indent) {
  std::vector<std::string> names;
  for (const Json& row : rows)
    for (const auto& [name, value] : row.items())
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  std::vector<std::vector<std::string>> lines{names};
  for (const Json& row : rows) {
    auto& line = lines.emplace_back();
    for (const std::string& name : names) line.push_back(row.contains(name) ? cell(row[name]) : "");
  }
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t c = 0; c < line.size(); ++c) {
      std::size_t width = 0;
      for (const auto& other : lines) width = std::max(width, other[c].size());
      text += fmt::format("{:<{}}", line[c], c + 1 == line.size() ? 0 : width + 2);
    }
    fmt::print("{:{}}{}\n", "", indent, text);
  }
}

void print_fields(const Json& fields, int indent) {
  constexpr int kNameWidth = 26;
  for (const auto& [name, value] : fields.items()) {
    if (!is_table(value) && !value.is_object()) {
      fmt::print("{:{}}{:<{}}{}\n", "", indent, name, kNameWidth - indent, cell(value));
      continue;
    }
    fmt::print("{:{}}{}\n", "", indent, name);
    if (is_table(value))
      print_table(value, indent + 2);
    else
      print_fields(value, indent + 2);
  }
}

void run_inspect(const InspectArguments& arguments) {
  require_writable(arguments.json, arguments.path);
  const Json found = inspect_path(arguments.path);
  if (!arguments.json.is_stdout()) print_fields(found, 0);
  if (arguments.json.given()) write_json(arguments.json, found);
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App* command =
      app.add_subcommand("inspect", "What a model folder, a recording or a figure file holds");
  command->add_option("PATH", arguments->path, "A model folder, a recording (or its .part), a figure file")
      ->required();
  command->add_option("--json", arguments->json.path, "Write it as JSON; - for stdout");
  command->add_flag("--force", arguments->json.replace, "Replace an existing --json file");
  command->footer("Example:\n  keyscope inspect assets/demo_model");
  command->callback([arguments] { run_inspect(*arguments); });
}

}  // namespace keyscope::commands
