#include "app/session/figure_choice.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "app/session/measure_choice.hpp"
#include "app/session/shell_words.hpp"

namespace keyscope::session {
namespace {

struct Tab {
  std::string_view name, label;
};

// In the order of the questions that they answer. What a build does not have is left out.
constexpr std::array kTabs{
    Tab{kKeyspaceView, "Key space"},       Tab{kTextView, "Text"},
    Tab{"cosine-matrix", "Cosines"},       Tab{"attention", "Attention"},
    Tab{"score-attention", "Correlation"}, Tab{"lifespans", "Lifespans"},
    Tab{"diversity", "Diversity"},         Tab{"bounds", "Bounds"},
};

// "mean-key-query-cosine" as "Mean key query cosine".
std::string label_of(std::string_view name) {
  std::string label(name);
  std::ranges::replace(label, '-', ' ');
  label.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(label.front())));
  return label;
}

struct Choices {
  std::vector<ViewChoice> views;
  std::size_t n_tabs = 0;

  Choices() {
    const auto& names = figures::figure_names();
    for (const Tab& tab : kTabs)
      if (!is_figure_view(tab.name) || std::ranges::find(names, tab.name) != names.end())
        views.push_back({std::string(tab.name), std::string(tab.label)});
    n_tabs = views.size();
    for (const std::string_view name : names)
      if (std::ranges::find(kTabs, name, &Tab::name) == kTabs.end())
        views.push_back({std::string(name), label_of(name)});
  }
};

const Choices& choices() {
  static const Choices all;
  return all;
}

}  // namespace

const std::vector<ViewChoice>& view_choices() { return choices().views; }
std::size_t n_view_tabs() { return choices().n_tabs; }

bool is_view(std::string_view name) {
  return std::ranges::find(view_choices(), name, &ViewChoice::name) != view_choices().end();
}

bool is_figure_view(std::string_view name) { return name != kKeyspaceView && name != kTextView; }

FigureKey figure_key(const recording::RecordingInfo& info, const Selection& selection, std::string_view name,
                     const MapChoice& map, const FigureSettings& settings) {
  FigureKey key{std::string(name), selection, 0, settings_of(name, settings), {}};
  if (figures::understands(name, "measure")) key.map = map;
  if (figures::scope_of(name) == figures::FigureScope::kRecording)
    key.selection.layer = key.selection.kv_head = -1;
  // The window's key space is of one run, others have theirs beside it.
  if (figures::shows_several_runs(name) && name != kKeyspaceView) key.selection.run = -1;
  if (!figures::understands(name, "block")) key.selection.block = -1;
  for (const recording::RunInfo& run : info.runs) key.blocks_done += run.blocks_done;
  return key;
}

figures::FigureRequest figure_request(const recording::RecordingInfo& info, const FigureKey& key) {
  figures::FigureRequest request;
  request.name = key.name;
  const Selection& about = key.selection;
  if (about.run >= 0) request.runs = {info.runs[static_cast<std::size_t>(about.run)].plan.name};
  if (about.layer >= 0) request.layer = about.layer;
  if (about.kv_head >= 0) request.kv_head = about.kv_head;
  if (about.block >= 0) request.block = about.block;
  apply(key.settings, request);
  if (figures::understands(key.name, "measure")) request.measure = measure_choices()[key.map.measure].id;
  if (key.map.reference >= 0)
    request.reference = info.runs[static_cast<std::size_t>(key.map.reference)].plan.name;
  return request;
}

std::string figure_options(const recording::RecordingInfo& info, const FigureKey& key) {
  const figures::FigureRequest request = figure_request(info, key);
  std::string options;
  for (const std::string& run : request.runs) options += " --run " + quote_word(run);
  if (request.layer) options += fmt::format(" --layer {}", *request.layer);
  if (request.kv_head) options += fmt::format(" --kv-head {}", *request.kv_head);
  if (request.block) options += fmt::format(" --block {}", *request.block);
  if (request.measure) options += fmt::format(" --measure {}", *request.measure);
  if (request.reference) options += fmt::format(" --reference {}", *request.reference);
  return options + settings_options(key.settings);
}

}  // namespace keyscope::session
