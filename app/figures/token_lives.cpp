#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/figures/reduction.hpp"
#include "app/measures/policy_difference.hpp"
#include "app/measures/token_life.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::figures {

namespace {

using measures::LifeState;
using measures::TokenLife;
using recording::RecordingInfo;
using recording::RunInfo;

constexpr std::int64_t kMostLanes = 1024;  // rows and columns of the image

// As measures::LifeState has them.
const std::vector<std::string> kStates{"in the cache", "kept by rule", "evicted by score", "past a window"};
const std::vector<Colour> kStateColours{kBlue, kGreen, kOrange, kPurple};

// A lane for a life, or where there are more than `most`, for one in so many; likewise blocks.
Heatmap lane_map(const std::vector<const TokenLife*>& lives, std::int64_t n_blocks, std::int64_t most) {
  const auto step = [&](std::int64_t n) { return std::max<std::int64_t>(1, (n + most - 1) / most); };
  const std::int64_t n = std::ssize(lives), per_row = step(n), per_column = step(n_blocks);
  Heatmap map;
  map.id = "state";
  map.long_name = "state at the end of a block";
  map.reduction = reduction_name(Reduction::kFirst);
  map.categories = kStates;
  map.category_colours = kStateColours;
  map.high = static_cast<float>(kStates.size() - 1);
  map.values.resize((n + per_row - 1) / per_row, (n_blocks + per_column - 1) / per_column);
  for (Eigen::Index row = 0; row < map.values.rows(); ++row)
    for (Eigen::Index column = 0; column < map.values.cols(); ++column) {
      const auto state = lives[row * per_row]->at(column * per_column);
      map.values(row, column) = state ? static_cast<float>(*state) : std::numeric_limits<float>::quiet_NaN();
    }
  map.x_step = static_cast<double>(per_column);
  map.x_end = static_cast<double>(n_blocks);
  map.y_step = static_cast<double>(per_row);
  map.y_end = static_cast<double>(n);
  return map;
}

// "one token of 5 and one block of 2 are shown"; empty where all are.
std::string step_note(const Heatmap& map) {
  std::string text;
  for (const auto& [what, step] : {std::pair{"token", map.y_step}, {"block", map.x_step}})
    if (step > 1) text += fmt::format("{}one {} of {}", text.empty() ? "" : " and ", what, step);
  return text.empty() ? text : text + " shown";
}

Panel lane_panel(Heatmap map, std::string rows) {
  Panel panel;
  panel.id = map.id;
  panel.x = {"block", ""};
  panel.x.counted = true;
  panel.y = {std::move(rows), ""};
  panel.y.counted = true;
  panel.note = step_note(map);
  panel.heatmap = std::move(map);
  return panel;
}

// Positions of the tokens that the run lost, those first that would still have received most.
std::vector<std::int32_t> by_loss(const recording::Recording& recording, const RecordingInfo& info,
                                  const measures::HeadSelection& head) {
  const int full = measures::full_cache_run(info);
  if (full < 0 || full == head.run)
    throw UsageError(
        "--order loss: what tokens would still have received is known from a run none beside one that "
        "evicts");
  const std::atomic<bool> cancelled = false;
  const auto difference = measures::policy_difference(
      recording, full, head.run, {{full, head.layer, head.kv_head}}, -1, true, nullptr, cancelled);
  if (!difference.missing.empty()) throw UsageError("--order loss: " + difference.missing);
  std::vector<std::int32_t> positions;
  for (const measures::DifferingToken& token : difference.tokens)
    if (token.kept_by == measures::KeptBy::kOnlyA) positions.push_back(token.position);
  return positions;
}

Figure lives_of_tokens(const recording::Recording& recording, const RecordingInfo& info,
                       const measures::HeadSelection& head, const FigureRequest& request) {
  const RunInfo& run = info.runs[head.run];
  const auto lives = measures::token_lives(recording, head, std::atomic<bool>(false));
  const std::int64_t most = request.max_size.value_or(kMostLanes);
  const bool lost_only = request.order == MatrixOrder::kLoss;
  std::vector<std::int32_t> tokens(lives.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  std::string note;
  if (lost_only) {
    tokens = by_loss(recording, info, head);
    const auto n_lost = std::ssize(tokens);
    if (n_lost == 0)
      throw UsageError(fmt::format("--order loss: {} has lost nothing in this head", run.plan.name));
    if (n_lost > most) tokens.resize(most);
    note = n_lost > most ? fmt::format("the {} of {} evicted tokens that would have received most",
                                       format_count(most), format_count(n_lost))
                         : fmt::format("the {} that were evicted", counted(n_lost, "token"));
  }
  std::vector<const TokenLife*> lanes;
  for (const std::int32_t token : tokens) lanes.push_back(&lives[token]);
  Figure figure;
  Panel panel = lane_panel(lane_map(lanes, run.blocks_done, most),
                           lost_only ? "token, most attention lost first" : "token position");
  if (lost_only) {
    TokenOrder& order = panel.order.emplace();
    order.rows_only = true;
    order.token = std::move(tokens);
    for (const std::int32_t token : order.token)
      order.text.push_back(token < info.n_prompt() ? info.prompt.token(token) : std::string());
    panel.note = note;
  }
  figure.title =
      fmt::format("Lives of tokens, {}, layer {}, KV head {}", run.plan.name, head.layer, head.kv_head);
  figure.panels.push_back(std::move(panel));
  return figure;
}

// One token's lane in every head.
Figure lives_in_heads(const recording::Recording& recording, const RecordingInfo& info,
                      const measures::HeadSelection& head, std::int64_t token) {
  const RunInfo& run = info.runs[head.run];
  if (token < 0 || token >= run.n_tokens)
    throw UsageError(fmt::format("--token {}: {} has seen {} tokens", token, run.plan.name, run.n_tokens));
  std::vector<TokenLife> lives;
  Panel panel;
  std::vector<std::string> names;
  for (const auto& [layer, kv_head] : info.all_heads()) {
    lives.push_back(
        measures::token_lives(recording, {head.run, layer, kv_head}, std::atomic<bool>(false)).at(token));
    names.push_back(fmt::format("layer {}, KV head {}", layer, kv_head));
  }
  std::vector<const TokenLife*> lanes;
  for (const TokenLife& life : lives) lanes.push_back(&life);
  Figure figure;
  panel = lane_panel(lane_map(lanes, run.blocks_done, std::max(kMostLanes, std::ssize(lanes))), "head");
  panel.y.categories = std::move(names);
  // Categories stand at whole numbers.
  panel.heatmap->y_first = -0.5;
  panel.heatmap->y_end -= 0.5;
  const auto n_kept = std::ranges::count_if(lives, [](const TokenLife& life) { return !life.gone; });
  panel.note = fmt::format("{} of {} heads still hold it", n_kept, lives.size());
  figure.title = fmt::format("Lives of token {}, {}", format_count(token), run.plan.name);
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace

Figure token_lives_figure(const recording::Recording& recording, const FigureRequest& request) {
  const auto info = recording.info();
  measures::HeadSelection head = chosen_head(*info, request);
  // By default of a run that evicts: in the others every life is the same.
  if (const int evicting = first_evicting_run(*info); request.runs.empty() && evicting >= 0)
    head.run = evicting;
  const RunInfo& run = info->runs[head.run];
  if (request.order == MatrixOrder::kDendrogram)
    throw UsageError("--order dendrogram: lives are ordered by position or by loss");
  Figure figure = request.token ? lives_in_heads(recording, *info, head, *request.token)
                                : lives_of_tokens(recording, *info, head, request);
  figure.name = "token-lives";
  figure.columns = 1;
  figure.view = {{run.plan.name}, head.layer, head.kv_head, -1, -1, 0};
  figure.caption = fmt::format(
      "{}. What a token is to the cache at the end of every block. Kept by rule: others went, and the policy "
      "keeps "
      "it whatever it scores. Grey: not seen yet.",
      describe_run(*info, run));
  return figure;
}

}  // namespace keyscope::figures
