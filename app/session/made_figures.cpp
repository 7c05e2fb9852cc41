#include "app/session/made_figures.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "app/figures/catalogue.hpp"
#include "app/session/selection.hpp"
#include "base/jobs.hpp"
#include "base/text.hpp"

namespace keyscope::session {

namespace {

using figures::FigureOption;

// Of the matrices that are looked at: tokens share cells only in prompts that are longer. What is far away is
// made coarser by the graphics card.
constexpr int kLargestMatrix = 4096;

}  // namespace

MadeFigure make_figure(const recording::Recording& recording, const recording::RecordingInfo& info,
                       FigureKey key, JobWatch& job) {
  MadeFigure made{std::move(key), nullptr, {}};
  guarded(
      [&] {
        auto request = figure_request(info, made.key);
        if (figures::understands(request.name, FigureOption::kReduce)) request.max_size = kLargestMatrix;
        const WatchedRecording watched(recording, heads_of_figure(info, request), job);
        made.figure = std::make_shared<const figures::Figure>(figures::build_figure(watched, request));
      },
      [&](std::string what) { made.error = std::move(what); });
  return made;
}

std::size_t MadeFigure::bytes() const {
  std::size_t n = sizeof(*this);
  if (!figure) return n;
  for (const figures::Panel& panel : figure->panels) {
    for (const auto& series : panel.points)
      n += 4 * (series.x.size() + series.y.size() + series.z.size() + series.token.size());
    for (const auto& series : panel.lines) n += 4 * (series.x.size() + series.y.size());
    if (panel.heatmap) n += 4 * panel.heatmap->values.size();
  }
  return n;
}

namespace {

struct Tab {
  std::string_view name, label;
};

// In the order of the questions that they answer. What a build does not have is left out.
constexpr std::array kTabs{
    Tab{kKeyspaceView, "Key space"}, Tab{kTextView, "Text"},        Tab{kDifferenceView, "Difference"},
    Tab{"cosine-matrix", "Cosines"}, Tab{"attention", "Attention"}, Tab{"score-attention", "Correlation"},
    Tab{"token-lives", "Lives"},     Tab{"diversity", "Diversity"}, Tab{"bounds", "Bounds"},
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

bool has_picture(std::string_view name) { return name != kTextView && name != kDifferenceView; }

bool is_figure_view(std::string_view name) {
  return name != kKeyspaceView && name != kTextView && name != kDifferenceView;
}

bool shows_blocks(std::string_view view) {
  return !is_figure_view(view) || figures::understands(view, FigureOption::kBlock);
}

bool shows_tokens(std::string_view view) {
  return !is_figure_view(view) || figures::scope_of(view) != figures::FigureScope::kRecording;
}

bool can_show(const recording::RecordingInfo& info, std::string_view view) {
  if (view == kDifferenceView) return info.runs.size() > 1;
  return view == kTextView || figures::is_recorded(info, view);
}

FigureKey figure_key(const recording::RecordingInfo& info, const Selection& selection, std::string_view name,
                     const MapChoice& map, const FigureSettings& settings) {
  FigureKey key{std::string(name), selection, 0, settings_of(name, settings), {}};
  if (figures::understands(name, FigureOption::kMeasure)) key.map = map;
  if (figures::scope_of(name) == figures::FigureScope::kRecording)
    key.selection.layer = key.selection.kv_head = -1;
  // The window's key space is of one run, others have theirs beside it.
  if (figures::shows_several_runs(name) && name != kKeyspaceView) key.selection.run = -1;
  if (!figures::understands(name, FigureOption::kBlock)) key.selection.block = -1;
  for (const recording::RunInfo& run : info.runs) key.blocks_done += run.blocks_done;
  return key;
}

figures::FigureRequest figure_request(const recording::RecordingInfo& info, const FigureKey& key) {
  figures::FigureRequest request;
  request.name = key.name;
  const Selection& about = key.selection;
  if (about.run >= 0) request.runs = {info.runs[about.run].plan.name};
  if (about.layer >= 0) request.layer = about.layer;
  if (about.kv_head >= 0) request.kv_head = about.kv_head;
  if (about.block >= 0) request.block = about.block;
  apply(key.settings, request);
  if (figures::understands(key.name, FigureOption::kMeasure))
    request.measure = measure_choices()[key.map.measure].id;
  if (key.map.reference >= 0) request.reference = info.runs[key.map.reference].plan.name;
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

FigureSettings settings_of(std::string_view figure, const FigureSettings& settings) {
  FigureSettings understood;
  if (figures::understands(figure, FigureOption::kRanks)) understood.ranks = settings.ranks;
  if (figures::understands(figure, FigureOption::kLinear)) understood.linear = settings.linear;
  if (figures::understands(figure, FigureOption::kRetained))
    understood.retained_only = settings.retained_only;
  if (const auto orders = figures::orders_of(figure);
      figures::understands(figure, FigureOption::kOrder) &&
      std::ranges::find(orders, settings.order) != orders.end())
    understood.order = settings.order;
  if (figures::understands(figure, FigureOption::kToken)) understood.token = settings.token;
  if (figures::understands(figure, FigureOption::kReduce)) understood.reduction = settings.reduction;
  return understood;
}

void apply(const FigureSettings& settings, figures::FigureRequest& request) {
  request.ranks = settings.ranks;
  request.logarithmic = !settings.linear;
  request.retained_only = settings.retained_only;
  request.order = settings.order;
  request.token = settings.token;
  request.reduction = settings.reduction;
  request.most_ordered = kMostOrdered;
}

std::string settings_options(const FigureSettings& settings) {
  std::string options;
  if (settings.ranks) options += " --ranks";
  if (settings.linear) options += " --linear";
  if (settings.retained_only) options += " --retained";
  if (settings.order != figures::MatrixOrder::kPosition)
    options += " --order " + std::string(figures::order_name(settings.order));
  if (settings.token) options += fmt::format(" --token {}", *settings.token);
  if (settings.reduction) options += " --reduce " + std::string(figures::reduction_name(*settings.reduction));
  return options;
}

std::vector<HeadKey> heads_of_figure(const recording::RecordingInfo& info,
                                     const figures::FigureRequest& request) {
  std::vector<HeadKey> heads;
  if (figures::scope_of(request.name) != figures::FigureScope::kRecording) return heads;
  std::vector<int> runs = figures::shows_several_runs(request.name)
                              ? figures::chosen_runs(info, request)
                              : std::vector<int>{figures::run_of_figure(info, request)};
  if (request.reference) runs.push_back(info.run_index(*request.reference));
  for (const int run : runs)
    for (const auto& [layer, kv_head] : info.all_heads()) heads.push_back({run, layer, kv_head});
  return heads;
}

WatchedRecording::WatchedRecording(const recording::Recording& recording, const std::vector<HeadKey>& heads,
                                   JobWatch& watch)
    : recording_(recording), watch_(watch), unread_(heads.begin(), heads.end()) {
  model_ = recording.info()->model;
  n_heads_ = std::ssize(unread_);
  watch_.note(0, n_heads_);
}

void WatchedRecording::note(const HeadKey& head) const {
  watch_.check();
  const std::lock_guard lock(mutex_);
  if (unread_.erase(head) > 0) watch_.note(n_heads_ - std::ssize(unread_), n_heads_);
}

int WatchedRecording::kv_head_of(int layer, int query_head) const {
  return query_head / model_.group_size(layer);
}

RowMatrixF WatchedRecording::keys(int run, int layer, int kv_head, std::int64_t first,
                                  std::int64_t count) const {
  note({run, layer, kv_head});
  return recording_.keys(run, layer, kv_head, first, count);
}

RowMatrixF WatchedRecording::queries(int run, int layer, int query_head, std::int64_t first,
                                     std::int64_t count) const {
  note({run, layer, kv_head_of(layer, query_head)});
  return recording_.queries(run, layer, query_head, first, count);
}

RowMatrixF WatchedRecording::group_queries(int run, int layer, int kv_head, std::int64_t first,
                                           std::int64_t count) const {
  note({run, layer, kv_head});
  return recording_.group_queries(run, layer, kv_head, first, count);
}

RowMatrixF WatchedRecording::values(int run, int layer, int kv_head, std::int64_t first,
                                    std::int64_t count) const {
  note({run, layer, kv_head});
  return recording_.values(run, layer, kv_head, first, count);
}

recording::HeadTrace WatchedRecording::trace(int run, int layer, int kv_head) const {
  note({run, layer, kv_head});
  return recording_.trace(run, layer, kv_head);
}

recording::AttentionStatistics WatchedRecording::statistics(int run, int layer) const {
  watch_.check();
  return recording_.statistics(run, layer);
}

RowMatrixF WatchedRecording::attention(int run, int layer, int query_head, std::int64_t first,
                                       std::int64_t count) const {
  note({run, layer, kv_head_of(layer, query_head)});
  return recording_.attention(run, layer, query_head, first, count);
}

RowMatrixF WatchedRecording::logits(int run) const {
  watch_.check();
  return recording_.logits(run);
}

}  // namespace keyscope::session
