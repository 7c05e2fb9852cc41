#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include "app/figures/catalogue.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/figures/scales.hpp"
#include "base/errors.hpp"

namespace keyscope::figures {
namespace {

using recording::Recording;
using recording::RecordingInfo;

// What is said once of all cells.
struct Wording {
  std::string_view figure;
  std::string_view title;
  std::string_view explanation;
};
constexpr std::array kWordings{
    Wording{"keyspace", "Key spaces",
            "Every head along its own principal axes, one unit as long on both; above each cell, the shares "
            "of the variance."},
    Wording{"cosine-matrix", "Cosines between keys", "Axes are token positions."},
    Wording{"attention", "Attention", "Grey: not visible to the query (later, or evicted by then)."},
    Wording{"score-attention", "Score against attention",
            "Above each cell, Spearman's ρ and in brackets the same with the token's position held fixed."},
};

// The layers and heads that make up rows and columns.
struct Cells {
  std::vector<int> layers, heads;
  bool query_heads = false;
  std::size_t size() const { return layers.size() * heads.size(); }
};

// Where layers differ, those that all of them have.
std::vector<int> common_heads(const RecordingInfo& info, const std::vector<int>& layers) {
  std::vector<int> fewest = info.heads.list(info.model.n_kv_heads);
  for (const int layer : layers)
    if (const auto heads = info.kv_heads(layer); heads.size() < fewest.size()) fewest = heads;
  return fewest;
}

Cells choose_cells(const RecordingInfo& info, const Builder& builder, const FigureRequest& request) {
  const HeadGrid& grid = *request.grid;
  Cells cells{grid.layers.empty() ? info.layers : grid.layers, grid.heads,
              builder.scope == FigureScope::kQueryHead};
  const int group = info.model.group_size(cells.layers.empty() ? 0 : cells.layers.front());
  if (!cells.heads.empty() && grid.query_heads == cells.query_heads) return cells;
  if (grid.query_heads && !cells.query_heads)
    throw UsageError(
        fmt::format("figure '{}' is of KV heads, so that query heads choose nothing", builder.name));
  if (cells.heads.empty()) cells.heads = common_heads(info, cells.layers);
  if (!cells.query_heads) return cells;
  // Of each KV head the first query head, or all of them where all query heads are asked for.
  std::vector<int> query_heads;
  for (const int kv_head : cells.heads)
    for (int g = 0; g < (grid.query_heads ? group : 1); ++g) query_heads.push_back(kv_head * group + g);
  cells.heads = std::move(query_heads);
  return cells;
}

int chosen_run(const RecordingInfo& info, const Builder& builder, const FigureRequest& request) {
  const int evicting = builder.several_runs && request.runs.empty() ? first_evicting_run(info) : -1;
  return evicting >= 0 ? evicting : only_run(info, request);
}

FigureRequest request_of(const RecordingInfo& info, const Builder& builder, const FigureRequest& request,
                         const Cells& cells, std::size_t cell) {
  FigureRequest one = request;
  one.grid.reset();
  one.small = true;
  one.runs = {info.runs[chosen_run(info, builder, request)].plan.name};
  one.layer = cells.layers[cell / cells.heads.size()];
  const int head = cells.heads[cell % cells.heads.size()];
  one.kv_head = cells.query_heads ? head / info.model.group_size(*one.layer) : head;
  one.query_head = cells.query_heads ? std::optional(head) : std::nullopt;
  return one;
}

// Principal axes differ from cell to cell: what they have in common is their number.
void use_common_labels(Panel& panel) {
  if (panel.explained_variance.size() < 2) return;
  panel.x.label = "PC 1";
  panel.y.label = "PC 2";
  panel.note =
      fmt::format("{:.0f} + {:.0f} %", 100 * panel.explained_variance[0], 100 * panel.explained_variance[1]);
}

void share_colour_scale(std::vector<Panel>& panels) {
  Range range = Range::none();
  for (const Panel& panel : panels)
    if (const auto& map = panel.heatmap) range.include(map->low), range.include(map->high);
  for (Panel& panel : panels)
    if (auto& map = panel.heatmap)
      map->low = static_cast<float>(range.low), map->high = static_cast<float>(range.high);
}

std::vector<std::string> names_of(const std::vector<int>& indices) {
  std::vector<std::string> names;
  names.reserve(indices.size());
  for (const int index : indices) names.push_back(fmt::format("{}", index));
  return names;
}

const Wording& wording_of(std::string_view figure) {
  return *std::ranges::find(kWordings, figure, &Wording::figure);
}

// Cells show the same tokens, so that what one says of its reduction holds for all.
std::string caption_of(const RecordingInfo& info, const Figure& figure, int run) {
  std::string text = describe_run(info, info.runs[run]);
  const Panel& first = figure.panels.front();
  if (first.heatmap && !first.note.empty()) text += fmt::format(", each cell {}", first.note);
  if (!info.model.layer_heads.empty())
    text += ", heads that every layer shown has, or those that were chosen";
  return text + ". " + std::string(wording_of(figure.name).explanation);
}

}  // namespace

void check_small_multiples(const RecordingInfo& info, const Builder& builder, const FigureRequest& request) {
  if (std::ranges::find(kWordings, builder.name, &Wording::figure) == kWordings.end())
    throw UsageError(
        fmt::format("figure '{}' is not of one head, so that it has no small multiples", builder.name));
  const Cells cells = choose_cells(info, builder, request);
  const KeyspaceLook look = chosen_look(request);
  if (look.projection == Projection::kPca3d)
    throw UsageError("small multiples show 2 principal components, but 3 are asked for");
  if (look.colour != KeyColour::kDecision)
    throw UsageError(
        fmt::format("small multiples have one legend, of decisions, but colours by {} are asked for",
                    id_of(look.colour)));
  if (request.order != MatrixOrder::kPosition)
    throw UsageError(fmt::format(
        "small multiples share their axes, which are token positions, but the order of a {}, each "
        "head's own, is asked for",
        order_name(request.order)));
  if (cells.size() > kMostPanels)
    throw UsageError(
        fmt::format("{} layers x {} heads are asked for; at most {} small multiples are legible: "
                    "choose fewer with --layers or --kv-heads",
                    cells.layers.size(), cells.heads.size(), kMostPanels));
  for (const int layer : cells.layers) {
    require_layer(info, layer);
    for (const int head : cells.heads)
      cells.query_heads ? require_query_head(info, layer, head) : require_kv_head(info, layer, head);
  }
  check_block(info, chosen_run(info, builder, request), request);
}

Figure small_multiples_figure(const Recording& recording, const Builder& builder,
                              const FigureRequest& request) {
  const auto info = recording.info();
  check_small_multiples(*info, builder, request);
  const Cells cells = choose_cells(*info, builder, request);
  const int run = chosen_run(*info, builder, request);
  Figure figure;
  figure.panels.resize(cells.size());
  oneapi::tbb::parallel_for(std::size_t{0}, cells.size(), [&](std::size_t i) {
    const FigureRequest one = request_of(*info, builder, request, cells, i);
    Panel panel = std::move(builder.build(recording, one).panels.front());
    panel.id = fmt::format("layer_{:02}_{}head_{}", *one.layer, cells.query_heads ? "query_" : "kv_",
                           cells.query_heads ? *one.query_head : *one.kv_head);
    panel.title = fmt::format("layer {}, {} head {}", *one.layer, cells.query_heads ? "query" : "KV",
                              cells.query_heads ? *one.query_head : *one.kv_head);
    use_common_labels(panel);
    figure.panels[i] = std::move(panel);
  });
  share_colour_scale(figure.panels);
  figure.name = builder.name;
  figure.title = fmt::format("{} of {} layer{} × {} head{}", wording_of(builder.name).title,
                             cells.layers.size(), cells.layers.size() == 1 ? "" : "s", cells.heads.size(),
                             cells.heads.size() == 1 ? "" : "s");
  figure.view.runs = {info->runs[run].plan.name};
  figure.view.block = request.block.value_or(-1);
  figure.multiples = {"layer", cells.query_heads ? "query head" : "KV head", names_of(cells.layers),
                      names_of(cells.heads)};
  figure.columns = static_cast<int>(cells.heads.size());
  figure.shared_ranges = figure.panels.front().explained_variance.empty();
  figure.caption = caption_of(*info, figure, run);
  if (figure.panels.front().heatmap)
    for (Panel& panel : figure.panels) panel.note.clear();
  return figure;
}

}  // namespace keyscope::figures
