#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/inspection.hpp"
#include "app/commands/interrupt.hpp"
#include "app/commands/console.hpp"
#include "app/commands/option_checks.hpp"
#include "app/measures/token_story.hpp"
#include "app/session/selection.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::commands {
namespace {

using Json = nlohmann::ordered_json;

struct InspectArguments {
  std::string path;
  std::optional<std::int64_t> token;
  std::string run;
  std::optional<int> layer, kv_head;
  JsonTarget json;
};

// A prompt may hold anything: a terminal shall not obey it, and its spaces shall be seen.
std::string readable(const std::string& text) {
  const auto space = [](unsigned char c) { return c <= 0x20 || c == 0x7F; };
  const auto control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
  const bool plain = !text.empty() && !space(text.front()) && !space(text.back()) &&
                     std::none_of(text.begin(), text.end(), control);
  return plain ? text : fmt::format("{:?}", text);
}

// Numbers as they are, lists on one line.
std::string cell(const Json& value) {
  if (value.is_null()) return "none";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string()) return readable(value.get<std::string>());
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
    if (value.is_string() && value.get_ref<const std::string&>().empty()) continue;  // nothing to say
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

// A token's story, in the run that the window would show first unless it is named.
Json inspect_token(const InspectArguments& arguments) {
  const auto recording = recording::open_recording(arguments.path);
  const auto info = recording->info();
  session::SelectionRequest request{.layer = arguments.layer, .kv_head = arguments.kv_head};
  if (!arguments.run.empty()) request.run = arguments.run;
  if (info->runs.empty() || info->layers.empty())
    throw FileError(fmt::format("{}: it holds no run with recorded layers", arguments.path));
  const session::Selection selected = session::resolve_selection(*info, request);
  const std::int64_t n_tokens = info->runs[static_cast<std::size_t>(selected.run)].n_tokens;
  if (*arguments.token >= n_tokens)
    throw UsageError(
        fmt::format("--token {}: the run has {} tokens, counted from 0", *arguments.token, n_tokens));
  std::atomic<bool> cancelled = false;
  const OnInterrupt on_interrupt([&] { cancelled = true; });
  return measures::token_story_json(
      *info, measures::tell_token(*recording, {selected.run, selected.layer, selected.kv_head},
                                  *arguments.token, cancelled));
}

void run_inspect(const InspectArguments& arguments) {
  require_writable(arguments.json, arguments.path);
  if (!arguments.token && (!arguments.run.empty() || arguments.layer || arguments.kv_head))
    throw UsageError("--run, --layer and --kv-head choose the head of a --token; there is none");
  const Json found = arguments.token ? inspect_token(arguments) : inspect_path(arguments.path);
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
  command
      ->add_option(
          "--token", arguments->token,
          "The story of one token of a recording, by its position: what it attended to and who to it, "
          "its score and rank after every block, how it went")
      ->check(zero_or_more());
  command->add_option("--run", arguments->run, "Of the token: the run; by default the first that evicts");
  command->add_option("--layer", arguments->layer, "Of the token: the layer")->check(zero_or_more());
  command->add_option("--kv-head", arguments->kv_head, "Of the token: the KV head")->check(zero_or_more());
  command->add_option("--json", arguments->json.path, "Write it as JSON; - for stdout");
  command->add_flag("--force", arguments->json.replace, "Replace an existing --json file");
  command->footer("Example:\n  keyscope inspect assets/demo_model");
  command->callback([arguments] { run_inspect(*arguments); });
}

}  // namespace keyscope::commands
