#include "app/session/view_command.hpp"

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

}  // namespace

std::string_view view_command_refusal(const SessionState& state) {
  if (state.figure_file) return {};
  if (!state.loaded()) return "nothing is open";
  if (state.path.empty()) return "this run is kept in memory only, no file can be named";
  return {};
}

std::string view_command(const SessionState& state) {
  if (state.figure_file) return fmt::format("keyscope view {}", absolute(state.figure_path));
  const std::string file = absolute(state.path);
  if (!is_figure_view(state.view))
    return fmt::format("keyscope view {} {} --view {}", file, selection_options(*state.info, state.selection),
                       quote_word(state.view));
  const FigureKey key = figure_key(*state.info, state.selection, state.view);
  return fmt::format("keyscope figure {} {}{} --out {}.svg", file, key.name, figure_options(*state.info, key),
                     key.name);
}

}  // namespace keyscope::session
