#include "app/figures/keyspace_data.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "analysis/pca.hpp"
#include "analysis/policies/registry.hpp"
#include "analysis/policies/slots.hpp"
#include "analysis/similarity.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/labels.hpp"
#include "app/measures/policy_difference.hpp"
#include "app/measures/token_story.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace keyscope::figures {

namespace {

using recording::Recording;

constexpr int kMaxComponents = 3;
constexpr std::int64_t kSketchStretch = 32, kSketchStep = 16 * kSketchStretch;

// What the rows cannot be fitted for is said of the head that they are of.
analysis::Pca axes_of(const recording::RecordingInfo& info, const KeyspaceBasis& basis,
                      std::span<const MatrixView> rows, int n_components) {
  try {
    return analysis::fit_pca(rows, n_components);
  } catch (const InvalidInput& error) {
    throw FileError(fmt::format("{}: run {}, layer {}, KV head {}: keys{}: {}", info.source,
                                info.runs[basis.run].plan.name, basis.layer, basis.kv_head,
                                basis.with_queries ? " and queries" : "", error.what()));
  }
}

// Fits the axes on the rows that `read(basis, n)` gives of the prompt's first n tokens.
template <typename Read>
KeyspaceBasis fit(const Recording& recording, int layer, int kv_head, const Read& read) {
  const auto info = recording.info();
  require_layer(*info, layer);
  require_kv_head(*info, layer, kv_head);
  require_keys(*info);
  KeyspaceBasis basis;
  basis.run = reference_run(*info);
  basis.layer = layer;
  basis.kv_head = kv_head;
  const Eigen::Index d = info->model.heads(layer).head_dim;
  basis.mean.setZero(d);
  basis.axes.setZero(d, kMaxComponents);
  basis.explained.assign(kMaxComponents, std::nan(""));
  if (basis.run < 0) return basis;
  const std::int64_t n = basis.n_tokens = tokens_to_fit(*info);
  if (n == 0) return basis;
  basis.with_queries = info->queries;
  const std::vector<RowMatrixF> rows = read(basis, n);
  const std::vector<MatrixView> blocks(rows.begin(), rows.end());
  const int n_components = std::min<int>(kMaxComponents, info->model.heads(layer).head_dim);
  const analysis::Pca pca = axes_of(*info, basis, blocks, n_components);
  basis.mean = pca.mean;
  basis.axes.leftCols(n_components) = pca.axes;
  std::copy_n(pca.explained_ratio.data(), n_components, basis.explained.begin());
  return basis;
}

}  // namespace

std::int64_t tokens_to_fit(const recording::RecordingInfo& info) {
  const int reference = reference_run(info);
  return reference < 0 ? 0 : info.n_prompt_read(reference);
}

KeyspaceBasis fit_keyspace_basis(const Recording& recording, int layer, int kv_head) {
  return fit(recording, layer, kv_head, [&](const KeyspaceBasis& basis, std::int64_t n) {
    std::vector<RowMatrixF> rows{recording.keys(basis.run, layer, kv_head, 0, n)};
    if (basis.with_queries) rows.push_back(recording.group_queries(basis.run, layer, kv_head, 0, n));
    return rows;
  });
}

KeyspaceBasis sketch_keyspace_basis(const Recording& recording, int layer, int kv_head) {
  return fit(recording, layer, kv_head, [&](const KeyspaceBasis& basis, std::int64_t n) {
    std::vector<RowMatrixF> rows;
    for (std::int64_t first = 0; first < n; first += kSketchStep) {
      const std::int64_t count = std::min(kSketchStretch, n - first);
      rows.push_back(recording.keys(basis.run, layer, kv_head, first, count));
      if (basis.with_queries)
        rows.push_back(recording.group_queries(basis.run, layer, kv_head, first, count));
    }
    return rows;
  });
}

RowMatrixF project_rows(const KeyspaceBasis& basis, const MatrixView& rows, int components) {
  if (components < 1 || components > kMaxComponents)
    throw InvalidInput(
        fmt::format("{} components are asked for; expected 1 to {}", components, kMaxComponents));
  if (rows.cols() != basis.mean.size())
    throw InvalidInput(
        fmt::format("rows of {} coordinates do not fit a basis of {}", rows.cols(), basis.mean.size()));
  analysis::Pca pca;
  pca.mean = basis.mean;
  pca.axes = basis.axes.leftCols(components);
  return analysis::project(pca, rows).cast<float>();
}

std::string component_label(const KeyspaceBasis& basis, int component) {
  const double share = basis.explained.at(component);
  if (std::isnan(share)) return fmt::format("PC {}", component + 1);
  return fmt::format("PC {} ({:.1f} %)", component + 1, 100 * share);
}

int dimensions_of(Projection projection) { return projection == Projection::kPca3d ? 3 : 2; }

std::span<const int> axes_of(Projection projection) {
  static constexpr std::array kFirst{0, 1, 2};
  static constexpr std::array kFirstAndThird{0, 2};
  if (projection == Projection::kPca13) return kFirstAndThird;
  if (projection == Projection::kPca23) return std::span<const int>(kFirst).subspan(1);
  return std::span<const int>(kFirst).first(dimensions_of(projection));
}

int columns_of(Projection projection) { return axes_of(projection).back() + 1; }

bool KeyspaceLook::counts(std::int64_t n_keys) const {
  if (dimensions_of(projection) > 2) return false;
  return density == KeyDensity::kHexagons || (density == KeyDensity::kAuto && n_keys > kManyKeys);
}

RowMatrixF anchor_coordinates(const MatrixView& rows, const Eigen::VectorXd& anchor) {
  RowMatrixF coordinates(rows.rows(), 2);
  coordinates.col(0) = analysis::cosines_to(rows, anchor).cast<float>();
  coordinates.col(1) = analysis::row_norms(rows).cast<float>();
  return coordinates;
}

RowMatrixF place_rows(Projection projection, const KeyspaceBasis& basis, const Eigen::VectorXd& anchor,
                      const MatrixView& rows) {
  return projection == Projection::kAnchor ? anchor_coordinates(rows, anchor)
                                           : project_rows(basis, rows, columns_of(projection));
}

void set_axes(Panel& panel, Projection projection, const KeyspaceBasis& basis) {
  panel.equal_aspect = projection != Projection::kAnchor;
  if (projection == Projection::kAnchor) {
    panel.x.label = "cosine to the anchor";
    panel.y.label = "norm";
    return;
  }
  const std::array labels{&panel.x.label, &panel.y.label, &panel.z.label};
  for (std::size_t i = 0; const int axis : axes_of(projection)) {
    *labels[i++] = component_label(basis, axis);
    panel.explained_variance.push_back(basis.explained.at(axis));
  }
}

namespace {

using recording::HeadTrace;
using recording::RecordingInfo;
using recording::RunInfo;

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
constexpr float kDecades = 1e-4F;  // of the largest attention: what a logarithmic scale goes down to

const RunInfo& run_of(const RecordingInfo& info, int run) { return info.runs.at(run); }

// The policy as it ran, by the options that the recording keeps.
std::unique_ptr<analysis::Policy> policy_of(const RecordingInfo& info, int run) {
  const recording::RunPlan& plan = run_of(info, run).plan;
  const analysis::PolicySpec spec = plan.policy == "none"
                                        ? analysis::PolicySpec{"keydiff", {}}
                                        : analysis::PolicySpec{plan.policy, recording::policy_options(plan)};
  return analysis::make_policy(spec, static_cast<std::uint64_t>(info.provenance.seed));
}

std::string score_refusal(const RecordingInfo& info, int run) {
  const recording::RunPlan& plan = run_of(info, run).plan;
  if (plan.cache_positions)
    return fmt::format(
        "{} rotated its rows by their place in the cache, so its scores are not those of keys "
        "as recorded",
        plan.name);
  try {
    const auto policy = policy_of(info, run);
    if (policy->slots().joint())
      return fmt::format("{} weighed this head's rows with those of others", plan.name);
    if (policy->slots().weighs_values())
      return fmt::format("{} weighed values by the model's output projection as well", plan.name);
    if (policy->head_file() == analysis::HeadFile::kVectors ||
        policy->head_file() == analysis::HeadFile::kQueryMeans)
      return fmt::format("{} scores by a file of its own, which the recording only names", plan.name);
    const analysis::PolicyNeeds needs = policy->needs();
    if (needs.attention())
      return fmt::format("{} scores by attention weights, of which a recording holds only sums", plan.name);
    if (needs.values && !info.values)
      return fmt::format("{} scores by values, and these were not recorded", plan.name);
  } catch (const UsageError& error) {
    return fmt::format("the policy of {} is not known here: {}", plan.name, error.what());
  }
  return {};
}

// Rows that were there when the block had come, before its eviction.
std::vector<std::int32_t> rows_before_eviction(const HeadTrace& trace, const HeadAtBlock& head) {
  return recording::retained_positions(trace.evicted_at, head.n_seen, head.block - 1);
}

RowMatrixF rows_at(const MatrixView& all, const std::vector<std::int32_t>& positions) {
  RowMatrixF rows(static_cast<Eigen::Index>(positions.size()), all.cols());
  for (std::size_t i = 0; i < positions.size(); ++i)
    rows.row(static_cast<Eigen::Index>(i)) = all.row(positions[i]);
  return rows;
}

std::vector<float> scores(const Recording& recording, const RecordingInfo& info, const HeadAtBlock& head,
                          const MatrixView& keys, const HeadTrace& trace) {
  std::vector<float> values(head.n_seen, kNone);
  const auto policy = policy_of(info, head.run);
  const std::vector<std::int32_t> positions = rows_before_eviction(trace, head);
  if (positions.empty()) return values;
  const RowMatrixF rows = rows_at(keys, positions);
  RowMatrixF value_rows(0, keys.cols());
  if (policy->needs().values)
    value_rows = rows_at(recording.values(head.run, head.layer, head.kv_head, 0, head.n_seen), positions);
  const std::int64_t before =
      head.block > 0 ? recording::tokens_seen(run_of(info, head.run), head.block - 1) : 0;
  const analysis::PolicyInput input{.keys = rows,
                                    .values = value_rows,
                                    .positions = positions,
                                    .n_new_rows = head.n_seen - before,
                                    .layer = head.layer,
                                    .kv_head = head.kv_head};
  std::vector<double> found(positions.size());
  policy->score(input, found);
  for (std::size_t i = 0; i < positions.size(); ++i) values[positions[i]] = static_cast<float>(found[i]);
  return values;
}

std::vector<float> attention(const RecordingInfo& info, const HeadAtBlock& head, const HeadTrace& trace) {
  std::vector<float> values(head.n_seen, kNone);
  const auto n =
      std::min({values.size(), static_cast<std::size_t>(info.n_prompt()), trace.attention_received.size()});
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(trace.attention_received[i]);
  return values;
}

std::vector<float> margins(const HeadAtBlock& head, const HeadTrace& trace) {
  std::vector<float> values(head.n_seen, kNone);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int32_t gone = trace.evicted_at[i];
    if (gone >= 0 && gone <= head.block && i < trace.evicted_margin.size())
      values[i] = trace.evicted_margin[i];
  }
  return values;
}

std::vector<float> classes(const RecordingInfo& info, const HeadAtBlock& head) {
  std::vector<float> values;
  const recording::TokenText& generated = run_of(info, head.run).generated;
  for (std::int64_t i = 0; i < head.n_seen; ++i) {
    const std::int64_t after = i - info.n_prompt();
    const bool known = after < generated.size();
    const std::string bytes = known ? measures::token_bytes(info, head.run, i) : std::string();
    values.push_back(known ? static_cast<float>(token_class(bytes)) : kNone);
  }
  return values;
}

// From the least value to the greatest; attention, so unequal, over decades.
void fit_scale(ColourScale& scale, const std::vector<float>& values) {
  float low = std::numeric_limits<float>::infinity(), high = -low;
  for (const float value : values) {
    if (!std::isfinite(value) || (scale.logarithmic && value <= 0)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (low > high) low = scale.logarithmic ? kDecades : 0, high = 1;
  if (scale.logarithmic) low = std::max(low, high * kDecades);
  scale.low = low;
  scale.high = high;
}

ColourScale scale_of(const RecordingInfo& info, int run, KeyColour colour) {
  ColourScale scale;
  scale.id = std::string(id_of(colour));
  const std::string policy = run_of(info, run).plan.policy;
  switch (colour) {
    case KeyColour::kDecision:
      break;
    case KeyColour::kPosition:
      scale.long_name = "token position";
      break;
    case KeyColour::kAttention:
      scale.long_name = "attention received";
      scale.logarithmic = true;
      break;
    case KeyColour::kScore:
      scale.long_name = policy == "none" ? "score by KeyDiff (nothing is evicted)" : "score by " + policy;
      break;
    case KeyColour::kMargin:
      scale.long_name = "margin at eviction by " + policy;
      break;
    case KeyColour::kKept:
      scale.long_name = "kept by";
      break;
    case KeyColour::kTokenClass:
      scale.long_name = "token class";
      scale.categories.assign(token_class_names().begin(), token_class_names().end());
      break;
  }
  return scale;
}

}  // namespace

namespace {

void compare_with_reference(const Recording& recording, const RecordingInfo& info, const HeadAtBlock& head,
                            const HeadTrace& trace, KeyValues& result) {
  const int other = other_run(info, head.run, head.reference);
  const std::string &here = run_of(info, head.run).plan.name, &there = run_of(info, other).plan.name;
  PolicyLooks looks;
  const Colour mine_alone = looks.next(run_of(info, head.run).plan.policy).colour;
  const Colour theirs_alone = looks.next(run_of(info, other).plan.policy).colour;
  result.scale.categories = {"both", "only " + here, "only " + there, "neither"};
  result.scale.category_colours = {kBlue, mine_alone, theirs_alone == mine_alone ? kYellow : theirs_alone,
                                   kOrange};
  const std::int64_t block = measures::block_having_seen(run_of(info, other), head.n_seen);
  const HeadTrace others = recording.trace(other, head.layer, head.kv_head);
  for (std::int64_t i = 0; i < head.n_seen; ++i) {
    const bool mine = measures::is_kept(trace, i, head.block), theirs = measures::is_kept(others, i, block);
    result.values.push_back(mine ? (theirs ? 0.0F : 1.0F) : theirs ? 2.0F : 3.0F);
  }
}

}  // namespace

int other_run(const RecordingInfo& info, int run, int wanted) {
  const int n_runs = static_cast<int>(info.runs.size());
  if (wanted >= 0 && wanted < n_runs && wanted != run) return wanted;
  int found = -1;
  const auto evicts = [&](int r) { return info.runs[r].plan.policy != "none"; };
  for (int other = n_runs - 1; other >= 0; --other)
    if (other != run && (found < 0 || evicts(other) || !evicts(found))) found = other;
  return found;
}

std::string colour_refusal(const RecordingInfo& info, int run, KeyColour colour) {
  const recording::RunPlan& plan = run_of(info, run).plan;
  if (colour == KeyColour::kAttention && plan.replayed)
    return fmt::format("{} was replayed on recorded keys: nothing attended", plan.name);
  if (colour == KeyColour::kKept && info.runs.size() < 2) return "there is no other run to compare with";
  if (colour == KeyColour::kMargin && plan.policy == "none")
    return fmt::format("{} evicts nothing, so there are no margins", plan.name);
  return colour == KeyColour::kScore ? score_refusal(info, run) : std::string();
}

KeyValues key_values(const Recording& recording, const RecordingInfo& info, const HeadAtBlock& head,
                     KeyColour colour, const MatrixView& keys, const HeadTrace& trace) {
  if (const std::string why = colour_refusal(info, head.run, colour); !why.empty())
    throw UsageError(fmt::format("no colours by {}: {}", id_of(colour), why));
  KeyValues result{{}, scale_of(info, head.run, colour)};
  if (colour == KeyColour::kPosition)
    for (std::int64_t i = 0; i < head.n_seen; ++i) result.values.push_back(static_cast<float>(i));
  if (colour == KeyColour::kAttention) result.values = attention(info, head, trace);
  if (colour == KeyColour::kScore) result.values = scores(recording, info, head, keys, trace);
  if (colour == KeyColour::kMargin) result.values = margins(head, trace);
  if (colour == KeyColour::kTokenClass) result.values = classes(info, head);
  if (colour == KeyColour::kKept) compare_with_reference(recording, info, head, trace, result);
  if (result.scale.categories.empty()) fit_scale(result.scale, result.values);
  return result;
}

std::string values_note(const KeyValues& colours) {
  const auto n = std::ssize(colours.values);
  const auto n_without = std::ranges::count_if(colours.values, [](float value) { return std::isnan(value); });
  if (n_without == 0) return "";
  return fmt::format("{} of {} keys have a value, the others are grey", format_count(n - n_without),
                     format_count(n));
}

namespace {

constexpr std::array kProjections{
    ProjectionChoice{Projection::kPca, "pca", "PCA", "the plane of the first two principal components"},
    ProjectionChoice{Projection::kPca13, "pca13", "PCA 1, 3",
                     "the plane of the first and the third principal component"},
    ProjectionChoice{Projection::kPca23, "pca23", "PCA 2, 3",
                     "the plane of the second and the third principal component"},
    ProjectionChoice{Projection::kPca3d, "pca3d", "PCA, 3D",
                     "the space of the first three principal components"},
    ProjectionChoice{Projection::kAnchor, "anchor", "Anchor",
                     "cosine to the mean of the keys seen so far, against the key's norm"},
};

constexpr std::array kColours{
    KeyColourChoice{KeyColour::kDecision, "decision", "Decision", "retained or evicted"},
    KeyColourChoice{KeyColour::kPosition, "position", "Position", "the token's place in the text"},
    KeyColourChoice{KeyColour::kAttention, "attention", "Attention received",
                    "sum of weights over the prompt's queries, mean over the group"},
    KeyColourChoice{KeyColour::kScore, "score", "Policy's score",
                    "what the run's policy ranks the rows by at the end of this block"},
    KeyColourChoice{KeyColour::kMargin, "margin", "Margin at eviction",
                    "the lowest score that was kept, minus this row's, when it was evicted"},
    KeyColourChoice{KeyColour::kTokenClass, "class", "Token class",
                    "letters, digits, punctuation, space, newline or special, by the token's text"},
    KeyColourChoice{KeyColour::kKept, "kept", "Kept by whom",
                    "both runs, this one alone, the one that it is compared with alone, or neither"},
};

template <typename Choices>
const auto& find_choice(const Choices& choices, std::string_view name, const char* what) {
  const auto found = std::ranges::find_if(choices, [&](const auto& choice) { return choice.id == name; });
  if (found != choices.end()) return *found;
  std::vector<std::string_view> ids;
  ids.reserve(choices.size());
  for (const auto& choice : choices) ids.push_back(choice.id);
  throw UsageError(fmt::format("there is no {} '{}'; expected one of {}", what, name, fmt::join(ids, ", ")));
}

}  // namespace

std::span<const ProjectionChoice> projection_choices() { return kProjections; }
std::span<const KeyColourChoice> key_colour_choices() { return kColours; }

std::string_view id_of(Projection projection) {
  return std::ranges::find(kProjections, projection, &ProjectionChoice::projection)->id;
}
std::string_view id_of(KeyColour colour) {
  return std::ranges::find(kColours, colour, &KeyColourChoice::colour)->id;
}

Projection parse_projection(std::string_view name) {
  return find_choice(kProjections, name, "projection").projection;
}

namespace {

struct DensityChoice {
  KeyDensity density;
  std::string_view id;
};
constexpr std::array kDensities{DensityChoice{KeyDensity::kAuto, "auto"},
                                DensityChoice{KeyDensity::kPoints, "points"},
                                DensityChoice{KeyDensity::kHexagons, "hexagons"}};

}  // namespace

std::string_view id_of(KeyDensity density) {
  return std::ranges::find(kDensities, density, &DensityChoice::density)->id;
}
KeyDensity parse_density(std::string_view name) { return find_choice(kDensities, name, "density").density; }

KeyColour parse_key_colour(std::string_view name) { return find_choice(kColours, name, "colour").colour; }

}  // namespace keyscope::figures
