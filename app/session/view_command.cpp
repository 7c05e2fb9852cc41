#include "app/session/view_command.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "app/session/shell_words.hpp"

namespace keyscope::session {
namespace {

std::string absolute(const std::string& path) {
  std::error_code error;
  const auto full = std::filesystem::absolute(path, error);
  return quote_word(error ? path : full.lexically_normal().string());
}

// What of the view is chosen besides head and moment, where it is not as `view` begins.
std::string view_options(const SessionState& state) {
  std::string options;
  const auto& info = *state.info;
  if (state.measure != 0) options += fmt::format(" --measure {}", measure_choices()[state.measure].id);
  if (const int reference = state.map_choice().reference; reference >= 0)
    options +=
        fmt::format(" --reference {}", quote_word(info.runs[static_cast<std::size_t>(reference)].plan.name));
  if (state.locked) options += fmt::format(" --token {}", *state.locked);
  const figures::KeyspaceLook usual;
  if (state.look.projection != usual.projection)
    options += fmt::format(" --projection {}", figures::id_of(state.look.projection));
  if (state.look.colour != usual.colour)
    options += fmt::format(" --colour {}", figures::id_of(state.look.colour));
  if (state.look.queries) options += " --queries";
  for (const RunId& id : state.beside)
    options += " --beside " + quote_word(info.runs[static_cast<std::size_t>(id.run)].plan.name);
  if (is_figure_view(state.view)) options += settings_options(settings_of(state.view, state.figure_settings));
  return options;
}

}  // namespace

std::string_view view_command_refusal(const SessionState& state) {
  if (state.figure_file) return {};
  if (!state.loaded()) return "nothing is open";
  if (state.path.empty()) return "this run is kept in memory only, no file can be named";
  if (std::ranges::any_of(state.beside, [](const RunId& id) { return id.source > 0; }))
    return "a run beside it is kept in memory only, no file can be named";
  return {};
}

std::string view_command(const SessionState& state) {
  if (state.figure_file) return fmt::format("keyscope view {}", absolute(state.figure_path));
  const std::string file = absolute(state.path);
  if (!is_figure_view(state.view) || state.comparing())
    return fmt::format("keyscope view {} {} --view {}{}", file,
                       selection_options(*state.info, state.selection), quote_word(state.view),
                       view_options(state));
  const FigureKey key =
      figure_key(*state.info, state.selection, state.view, state.map_choice(), state.figure_settings);
  return fmt::format("keyscope figure {} {}{} --out {}.svg", file, key.name, figure_options(*state.info, key),
                     key.name);
}

std::string keyspace_command(const SessionState& state) {
  const auto& info = *state.info;
  std::string runs;
  for (const RunTile& tile : state.tiles)
    if (!tile.selected)
      runs += " --run " + quote_word(info.runs[static_cast<std::size_t>(tile.id.run)].plan.name);
  return fmt::format("keyscope figure {} keyspace {}{}{} --out keyspace.svg", absolute(state.path),
                     selection_options(info, state.selection), runs, look_options(state.look));
}

}  // namespace keyscope::session
