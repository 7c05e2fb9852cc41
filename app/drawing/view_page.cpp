#include "app/drawing/view_page.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/similarity.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/keyspace.hpp"
#include "app/figures/keyspace_data.hpp"
#include "app/figures/labels.hpp"
#include "app/figures/scales.hpp"
#include "app/measures/head_measures.hpp"
#include "app/measures/policy_difference.hpp"
#include "app/measures/token_story.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace keyscope::figures {

namespace {

using Json = nlohmann::ordered_json;
using recording::Recording;
using recording::RecordingInfo;
using recording::RunInfo;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Arrays as the script reads them, by the name of JavaScript's type. What several runs have alike, as keys of
// the first layer are, stands in the page once.
class Arrays {
 public:
  template <typename T>
  Json add(const char* type, const std::vector<T>& values) {
    // As they lie in memory: the processors that the program runs on are little-endian, and so are browsers'.
    return place(type, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  }

  // Numbers in 16 bits between two ends; those that are not finite have a mark of their own.
  Json add_steps(const std::vector<double>& values, const Range& range) {
    std::vector<std::uint16_t> steps;
    steps.reserve(values.size());
    const double width = range.width() > 0 ? range.width() : 1;
    for (const double value : values) {
      const double share = std::clamp((value - range.low) / width, 0.0, 1.0);
      steps.push_back(std::isfinite(value) ? static_cast<std::uint16_t>(std::lround(share * kSteps)) : kNone);
    }
    return {{"array", add("Uint16Array", steps)}, {"low", range.low}, {"step", width / kSteps}};
  }

  // The same between the least and the greatest of them.
  Json add_steps(const std::vector<double>& values) {
    Range range = Range::none();
    for (const double value : values)
      if (std::isfinite(value)) range.include(value);
    return add_steps(values, range.low > range.high ? Range{} : range);
  }

  // -1 for what stays; block numbers rarely need more than 16 bits.
  Json add_blocks(const std::vector<std::int32_t>& blocks) {
    const auto fits = [](std::int32_t block) { return block <= std::numeric_limits<std::int16_t>::max(); };
    if (!std::ranges::all_of(blocks, fits)) return add("Int32Array", blocks);
    return add("Int16Array", std::vector<std::int16_t>(blocks.begin(), blocks.end()));
  }

  const Json& all() const { return all_; }

 private:
  static constexpr double kSteps = 65534;
  static constexpr std::uint16_t kNone = 65535;

  Json place(const char* type, std::string_view bytes) {
    std::string base64 = base64_text(bytes);
    const auto [found, is_new] = places_.try_emplace(type + base64, all_.size());
    if (is_new) all_.push_back({{"type", type}, {"base64", std::move(base64)}});
    return found->second;
  }

  std::map<std::string, std::size_t> places_;
  Json all_ = Json::array();
};

// A run as far as it had gone.
struct ReadRun {
  std::string name;
  std::shared_ptr<const RecordingInfo> info;
  int index = 0;
  std::int64_t n_tokens = 0;
  recording::HeadTrace trace;
  RowMatrixF coordinates;  // (n_tokens, 2)
  RowMatrixF keys;         // (n_tokens, head_dim)
  // (n_tokens + 1, 2) sums of the first 0, 1, 2 … tokens' queries, mean over the group, where they lie; no
  // rows: not recorded
  RowMatrixD query_sums;
  Panel panel;  // of the key space after the last block: axes, looks, and what the axes must cover

  const RunInfo& run() const { return info->runs[index]; }
  std::int64_t last_block() const { return run().blocks_done - 1; }
};

RowMatrixD sum_queries(const RowMatrixF& placed, std::int64_t n_tokens) {
  const Eigen::Index group = n_tokens > 0 ? placed.rows() / n_tokens : 0;
  RowMatrixD sums = RowMatrixD::Zero(n_tokens + 1, 2);
  for (Eigen::Index token = 0; token < n_tokens; ++token) {
    sums.row(token + 1) = sums.row(token);
    for (Eigen::Index g = 0; g < group; ++g)
      sums.row(token + 1) += placed.row(g * n_tokens + token).cast<double>() / static_cast<double>(group);
  }
  return sums;
}

ReadRun read_run(const PageRun& asked, const ViewPage& page, const KeyspaceBasis& basis) {
  const Recording& recording = *asked.recording;
  ReadRun read;
  read.info = recording.info();
  require_run(*read.info, asked.run);
  read.index = asked.run;
  read.name = asked.name.empty() ? read.run().plan.name : asked.name;
  read.n_tokens = tokens_seen_by(read.run(), read.last_block());
  if (read.n_tokens == 0) {
    read.panel = keyspace_panel(basis, Projection::kPca, RowMatrixF(0, 2), {});
    return read;
  }
  read.keys = recording.keys(asked.run, page.layer, page.kv_head, 0, read.n_tokens);
  read.trace = recording.trace(asked.run, page.layer, page.kv_head);
  read.trace.evicted_at.resize(read.n_tokens, -1);  // a live recording may have gone on meanwhile
  KeyspaceContent content{.n_seen = read.n_tokens};
  content.retained = recording::retained_positions(read.trace.evicted_at, read.n_tokens, read.last_block());
  content.anchor = analysis::mean_row(read.keys);
  read.coordinates = place_rows(Projection::kPca, basis, content.anchor, read.keys);
  if (read.info->queries) {
    const RowMatrixF queries = recording.group_queries(asked.run, page.layer, page.kv_head, 0, read.n_tokens);
    content.mean_query = analysis::mean_row(queries);
    read.query_sums =
        sum_queries(place_rows(Projection::kPca, basis, content.anchor, queries), read.n_tokens);
  }
  read.panel = keyspace_panel(basis, Projection::kPca, read.coordinates, content);
  return read;
}

// What the slider goes through: for every step the block of each run.
std::vector<std::vector<std::int64_t>> plan_steps(const std::vector<ReadRun>& runs) {
  const auto leading = std::ranges::max_element(runs, {}, &ReadRun::last_block);
  std::vector<std::vector<std::int64_t>> steps;
  for (std::int64_t block = std::min<std::int64_t>(0, leading->last_block()); block <= leading->last_block();
       ++block) {
    const std::int64_t n_seen = tokens_seen_by(leading->run(), block);
    std::vector<std::int64_t> blocks;
    blocks.reserve(runs.size());
    for (const ReadRun& run : runs)
      blocks.push_back(&run == &*leading ? block : measures::block_having_seen(run.run(), n_seen));
    steps.push_back(std::move(blocks));
  }
  return steps;
}

// Where the mean query of the tokens seen by each step lies.
void place_mean_queries(const ReadRun& run, std::size_t at,
                        const std::vector<std::vector<std::int64_t>>& steps, std::vector<double>& x,
                        std::vector<double>& y) {
  if (run.query_sums.rows() == 0) return;
  for (const auto& blocks : steps) {
    const std::int64_t n_seen = tokens_seen_by(run.run(), blocks[at]);
    const Eigen::RowVectorXd mean =
        run.query_sums.row(n_seen) / static_cast<double>(std::max<std::int64_t>(1, n_seen));
    x.push_back(n_seen > 0 ? mean[0] : kUnknown);
    y.push_back(n_seen > 0 ? mean[1] : kUnknown);
  }
}

std::string hex(Colour colour) {
  if (colour == kBlack) return "";  // the ink's, light or dark
  return fmt::format("#{:02X}{:02X}{:02X}", colour.r, colour.g, colour.b);
}

// A marker as a character, for words beside it.
std::string_view glyph(Marker marker) {
  switch (marker) {
    case Marker::kDisc:
      return "●";
    case Marker::kRing:
      return "○";
    case Marker::kDiamond:
      return "◆";
    case Marker::kCross:
      return "×";
    case Marker::kTriangle:
      return "▲";
    case Marker::kSquare:
      return "■";
    case Marker::kDownTriangle:
      return "▼";
    case Marker::kPlus:
      return "✚";
    case Marker::kOpenSquare:
      return "□";
    case Marker::kStar:
      return "★";
    case Marker::kOpenDownTriangle:
      return "▽";
    case Marker::kOpenDiamond:
      return "◇";
    case Marker::kCircle:
      return "◯";
  }
  return "●";
}

// Of the series that figures draw, by their ids.
Json looks_json(const std::vector<ReadRun>& runs) {
  Json looks = Json::object();
  for (const ReadRun& run : runs)
    for (const PointSeries& series : run.panel.points)
      if (!looks.contains(series.id))
        looks[series.id] = {{"label", series.label},
                            {"colour", hex(series.colour)},
                            {"glyph", glyph(series.marker)},
                            {"size", series.size_px}};
  return looks;
}

// What a figure's caption says of the run beyond its prompt and name: "N = 64, B = 128, replayed on …".
std::string note_of(const ReadRun& run, const ViewPage& page) {
  const recording::RunPlan& plan = run.run().plan;
  std::string note = describe_run(*run.info, run.run()).substr(describe_prompt(*run.info).size() + 2);
  if (note.starts_with(plan.name + ", ")) note.erase(0, plan.name.size() + 2);
  const std::int64_t own = plan.layer_budgets(page.layer, run.info->model)[page.kv_head];
  if (own != plan.budget) note += fmt::format(", {} in this head", format_count(own));
  return note;
}

// Margins of what was evicted at some time, in order of position.
std::vector<float> margins_of(const recording::HeadTrace& trace) {
  std::vector<float> margins;
  for (std::size_t i = 0; i < trace.evicted_at.size(); ++i)
    if (trace.evicted_at[i] >= 0)
      margins.push_back(i < trace.evicted_margin.size() ? trace.evicted_margin[i]
                                                        : static_cast<float>(kUnknown));
  return margins;
}

// Scores and attention of prompt tokens, as `analyze` correlates them. A replayed run attended to nothing.
void add_prompt_values(const ReadRun& run, Arrays& arrays, Json& json) {
  const auto n = static_cast<Eigen::Index>(std::min(run.n_tokens, run.info->n_prompt()));
  const Eigen::VectorXd mean = analysis::mean_row(run.keys.topRows(n));
  if (n == 0 || !mean.allFinite() || mean.norm() == 0) return;
  const Eigen::VectorXd cosines = analysis::cosines_to(run.keys.topRows(n), mean);
  std::vector<double> scores(n);
  for (Eigen::Index i = 0; i < n; ++i) scores[i] = -cosines[i];
  json["score"] = arrays.add_steps(scores, {-1, 1});
  recording::HeadTrace prompt = run.trace;
  if (run.run().plan.replayed || std::ssize(prompt.attention_received) < n ||
      std::ssize(prompt.attention_queries) < n)
    return;
  prompt.attention_received.resize(n);
  const measures::ScoreAttention pairs = measures::pair_score_attention(cosines, prompt);
  if (pairs.seen.empty()) return;
  std::vector<float> per_query(n, static_cast<float>(kUnknown));
  for (std::size_t i = 0; i < pairs.seen.size(); ++i)
    per_query[pairs.seen[i]] = static_cast<float>(pairs.attention_per_query[i]);
  json["per_query"] = arrays.add("Float32Array", per_query);
}

std::vector<std::string> token_labels(const RecordingInfo& info, int run, std::int64_t first,
                                      std::int64_t count) {
  std::vector<std::string> texts;
  for (std::int64_t token = first; token < first + count; ++token)
    texts.push_back(text_label(measures::token_bytes(info, run, token)));
  return texts;
}

std::vector<double> coordinates_along(const RowMatrixF& matrix, Eigen::Index at) {
  std::vector<double> values(matrix.rows());
  for (Eigen::Index row = 0; row < matrix.rows(); ++row) values[row] = matrix(row, at);
  return values;
}

// The page in the making.
class PageMaker {
 public:
  explicit PageMaker(const ViewPage& page) : page_(page) {
    if (page.runs.empty()) throw UsageError("no run is chosen to show on the page");
    const PageRun& main = page.runs.at(page.main_run);
    require_run(*main.recording->info(), main.run);
    basis_ = fit_keyspace_basis(*main.recording, page.layer, page.kv_head);
    for (const PageRun& run : page.runs) runs_.push_back(read_run(run, page, basis_));
    info_ = runs_[page.main_run].info;
    steps_ = plan_steps(runs_);
    place_in_axes();
  }

  Json make() {
    Json json;
    json["title"] = title();
    json["prompt"] = describe_prompt(*info_);
    json["axes"] = describe_axes(*info_, basis_, Projection::kPca);
    json["variance"] = std::isnan(basis_.explained[1])
                           ? ""
                           : fmt::format("{:.1f} %", 100 * (basis_.explained[0] + basis_.explained[1]));
    const Panel& panel = runs_.front().panel;
    json["x"] = {{"label", panel.x.label}, {"low", ranges_.x.low}, {"high", ranges_.x.high}};
    json["y"] = {{"label", panel.y.label}, {"low", ranges_.y.low}, {"high", ranges_.y.high}};
    json["looks"] = looks_json(runs_);
    add_text(json);
    json["open_at"] = opening_step();
    json["main_run"] = page_.main_run;
    json["selected"] = page_.tokens;
    PolicyLooks looks;
    for (std::size_t at = 0; at < runs_.size(); ++at) json["runs"].push_back(run_json(at, looks));
    json["arrays"] = arrays_.all();
    return json;
  }

  std::string title() const {
    return fmt::format("Key space of layer {}, KV head {}", page_.layer, page_.kv_head);
  }

 private:
  // One pair of axes for all runs and all blocks.
  void place_in_axes() {
    std::vector<Panel> panels;
    mean_x_.resize(runs_.size());
    mean_y_.resize(runs_.size());
    for (std::size_t at = 0; at < runs_.size(); ++at) {
      place_mean_queries(runs_[at], at, steps_, mean_x_[at], mean_y_[at]);
      panels.push_back(runs_[at].panel);
      PointSeries path;
      path.x.assign(mean_x_[at].begin(), mean_x_[at].end());
      path.y.assign(mean_y_[at].begin(), mean_y_[at].end());
      panels.back().points.push_back(std::move(path));
    }
    ranges_ = shared_data_ranges(panels);
  }

  void add_text(Json& json) const {
    const recording::TokenText& prompt = info_->prompt;
    const int run = runs_[page_.main_run].index;
    json["texts"] = token_labels(*info_, run, 0, prompt.size());
    const bool flows = is_hard_wrapped(prompt.text);
    json["breaks"] = Json::array();
    std::string before;
    for (std::int64_t token = 0; token < prompt.size(); ++token) {
      std::string bytes = measures::token_bytes(*info_, run, token);
      if (breaks_line(bytes, before, flows)) json["breaks"].push_back(token);
      before = std::move(bytes);
    }
  }

  // The last step that shows the main run's block: there the others had seen the most of what it had.
  std::size_t opening_step() const {
    const std::int64_t block = resolve_block(runs_[page_.main_run].run(), page_.block);
    std::size_t step = 0;
    for (std::size_t i = 0; i < steps_.size(); ++i)
      if (steps_[i][page_.main_run] == block) step = i;
    return step;
  }

  Json run_json(std::size_t at, PolicyLooks& looks) {
    const ReadRun& read = runs_[at];
    const RecordingInfo& info = *read.info;
    const RunInfo& run = read.run();
    const PolicyLooks::Look look = looks.next(run.plan.policy);
    Json json{{"name", read.name},
              {"note", note_of(read, page_)},
              {"evicts", run.plan.policy != "none"},
              {"replayed", run.plan.replayed},
              {"colour", hex(look.colour)},
              {"glyph", glyph(look.marker)},
              {"n_tokens", read.n_tokens},
              {"last_block", read.last_block()},
              {"generated", token_labels(info, read.index, info.n_prompt(), run.generated.size())}};
    for (const auto& blocks : steps_) {
      json["blocks"].push_back(blocks[at]);
      json["seen"].push_back(tokens_seen_by(run, blocks[at]));
    }
    json["evicted_at"] = arrays_.add_blocks(read.trace.evicted_at);
    json["margins"] = arrays_.add("Float32Array", margins_of(read.trace));
    if (read.n_tokens == 0) return json;
    json["x"] = arrays_.add_steps(coordinates_along(read.coordinates, 0), ranges_.x);
    json["y"] = arrays_.add_steps(coordinates_along(read.coordinates, 1), ranges_.y);
    const Eigen::VectorXd norms = analysis::row_norms(read.keys);
    json["norm"] = arrays_.add_steps(std::vector<double>(norms.begin(), norms.end()));
    add_prompt_values(read, arrays_, json);
    if (mean_x_[at].empty()) return json;
    json["mean_query_x"] = arrays_.add_steps(mean_x_[at], ranges_.x);
    json["mean_query_y"] = arrays_.add_steps(mean_y_[at], ranges_.y);
    return json;
  }

  const ViewPage& page_;
  KeyspaceBasis basis_;
  std::vector<ReadRun> runs_;
  std::shared_ptr<const RecordingInfo> info_;  // of the main run's recording
  std::vector<std::vector<std::int64_t>> steps_;
  std::vector<std::vector<double>> mean_x_, mean_y_;  // [run][step] of the mean query
  PanelRanges ranges_;
  Arrays arrays_;
};

// Puts text where the template has a mark. What stands last goes first: data may hold a mark, too.
void fill_mark(std::string& html, std::string_view mark, std::string_view text) {
  html.replace(html.find(mark), mark.size(), text);
}

}  // namespace

std::string view_page(const ViewPage& page) {
  PageMaker maker(page);
  const Json json = maker.make();
  std::string html = view_page_html;
  fill_mark(html, "@DATA@", json_script(json));
  fill_mark(html, "@TITLE@",
            html_text(fmt::format("{}: {}", maker.title(), json["prompt"].get<std::string>())));
  if (html.size() > kMostPageBytes)
    throw UsageError(
        fmt::format("the page would have {:.1f} MB, and one to send has at most {:.0f} MB: show fewer runs, "
                    "or write .h5, .png or .svg",
                    static_cast<double>(html.size()) / 1e6, static_cast<double>(kMostPageBytes) / 1e6));
  return html;
}

bool is_page_path(const std::filesystem::path& path) {
  return lower_case(path.extension().string()) == ".html";
}

}  // namespace keyscope::figures
