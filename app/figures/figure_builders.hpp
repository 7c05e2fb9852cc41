#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "analysis/matrix_view.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/figure.hpp"
#include "app/figures/head_measure.hpp"
#include "app/figures/reduction.hpp"
#include "app/figures/token_order.hpp"
#include "app/measures/head_measures.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

struct AttentionSelection {
  int run = 0;
  int layer = 0;
  int query_head = 0;
  std::int64_t block = -1;  // queries up to the end of this block; -1: the last prompt block
  bool logarithmic = true;
  Reduction reduction = Reduction::kMax;
  int max_size = 1024;
};

// Attention weights of one query head (Fig. 2, right): a row per query, a column per key. What a query could
// not see (later tokens, evicted rows) is NaN. Recorded weights where there are any, else recomputed.
//   throws UsageError on a run, layer, head or block that is not there, FileError where neither attention nor
//   queries and keys were recorded, or where the model's attention is not a plain softmax
Figure attention_figure(const recording::Recording& recording, const AttentionSelection& selection);

inline constexpr int kMaxHeatmapSize = 1024;

// Keys that `keyscope figure` orders by a dendrogram: their distances take 2 GiB, the tree half a minute.
inline constexpr std::int64_t kMostKeysInDendrogram = 32'768;

struct CosineMatrixSelection {
  int run = 0;
  int layer = 0;
  int kv_head = 0;
  std::int64_t block = -1;     // -1: the last prompt block
  bool retained_only = false;  // the keys present after the block, instead of all tokens seen by then
  MatrixOrder order = MatrixOrder::kPosition;
  std::optional<std::int64_t> most_ordered;  // keys that a dendrogram may order; empty: any number
  Reduction reduction = Reduction::kMean;
  int max_size = kMaxHeatmapSize;  // more tokens than this are reduced, and the panel's note says so
};

// Cosines between every two keys of one head (Fig. 2, left), on a scale from -1 to 1. Rows and columns of a
// key without length are 0.
// Cosines alone have an order by dendrogram: they are alike in both directions, as a distance must be.
// Weights of attention are not, and in another order than time's what a query could not see yet would lie
// anywhere.
//   throws UsageError on a run, layer, head or block that is not there, or on more keys than `most_ordered`
//   to be ordered; FileError when keys were not recorded
Figure cosine_matrix_figure(const recording::Recording& recording, const CosineMatrixSelection& selection);

// A measure between -1 and 1 that a map of heads shows, a diverging colour each way.
struct MappedMeasure {
  std::string_view figure;  // the figure's name
  std::string_view title;
  std::string_view label;  // of the colour scale
  std::optional<double> measures::HeadMeasures::*value;
};

// cos(mean key, mean query) (KeyDiff, arXiv 2504.15364, Fig. 14), and cos(top key, mean query), the key that
// KeyDiff scores highest (Fig. 16).
std::span<const MappedMeasure> mapped_measures();

// One measure of every KV head of a run: layers from top to bottom, heads from left to right; layers that
// were not recorded, and heads without a value, are blank.
//   throws UsageError on an unknown run, FileError as the recording does
Figure head_map_figure(const recording::Recording& recording, int run, const MappedMeasure& measure);

// The values of one measure by layer and KV head, NaN where there is none: (last - first layer + 1,
// n_kv_heads).
//   heads: of one run, in any order
RowMatrixF head_grid(const std::vector<measures::HeadMeasures>& heads, int n_kv_heads,
                     std::optional<double> measures::HeadMeasures::*value, int first_layer, int last_layer);

struct HeadComparison {
  int run = 0;         // indices into the recording's runs
  int reference = -1;  // whose values are taken off; -1: none
};

// `head-map`: one measure of every KV head of a run at the end of its prompt, or how much it differs from
// another run's, or what both retained alike: layers from top to bottom, heads from left to right. Layers
// that were not recorded, and heads without a value, are blank. The window's map of heads, in files.
//   throws UsageError on an unknown run, FileError as the recording does
Figure head_comparison_figure(const recording::Recording& recording, const HeadComparison& selection,
                              const HeadMeasure& measure);

// Both: every KV head of a run beside its layer's number, a bar from the 5th to the 95th percentile and the
// median on it; one panel for keys, one for the queries of the group where they were recorded.
//   throws UsageError on an unknown run, FileError where no keys were recorded and as the recording does

// cos(k_i, mean key) and cos(q_i, mean query): KeyDiff (arXiv 2504.15364), Fig. 13.
Figure mean_cosines_figure(const recording::Recording& recording, int run);

// ‖k_i‖ and ‖q_i‖: Fig. 15.
Figure norms_figure(const recording::Recording& recording, int run);

// Whether keys unlike the rest receive the most attention, layer by layer: Spearman's ρ of −cos(k_i, mean
// key) with the attention received, the mean over KV heads and a bar of one standard deviation to either
// side. KeyDiff (arXiv 2504.15364), Table 3, which does not say how attention is aggregated: per query that
// could see the key, the plain sum, and the former with the token's position held fixed.
//   throws UsageError on an unknown run, FileError where no keys were recorded and as the recording does
Figure rank_correlation_figure(const recording::Recording& recording, int run);

struct ScoreAttentionSelection {
  int run = 0;
  int layer = 0;
  int kv_head = 0;
  bool ranks = false;  // both axes as average ranks from 1, which is what Spearman's ρ is about
  bool brief = false;  // a cell of small multiples: ρ alone in the note
};

// KeyDiff's score -cos(k_i, mean key) of every prompt token against the attention that it received per query
// that could see it (its logarithm, unless by ranks): one head of Table 3 of the paper. Retained as discs,
// evicted as rings, by the end of the prompt. The title says Spearman's ρ, also with the token's position
// held fixed; both are those of `analyze`. Tokens that received nothing have no logarithm and are counted in
// the note.
//   throws UsageError on a run, layer or head that is not there, FileError when keys were not recorded
Figure score_attention_figure(const recording::Recording& recording,
                              const ScoreAttentionSelection& selection);

struct AblationSelection {
  std::vector<int> runs;    // indices; `none` is what they are measured against and has no place of its own
  std::int64_t block = -1;  // -1: each run's last prompt block
};

// What evicting costs, by run: attention mass kept and, where values were recorded, the relative error of
// attention's output, over all heads and layers (median, 5 to 95 %); and where logits were, the mean KL
// divergence of the next-token distributions from the full cache's. For runs of one policy under several
// options: KeyDiff (arXiv 2504.15364), Tables 15 and 16, which compare anchors and metrics. The numbers are
// those of `analyze`.
//   throws UsageError on an unknown run or block, FileError where there is no run `none`, or none that evicts
Figure ablation_figure(const recording::Recording& recording, const AblationSelection& selection);

// A measure of a retained set by which policies are compared.
struct ComparedMeasure {
  std::string_view figure;  // the figure's name
  std::string_view title;
  Axis axis;
  std::optional<double> measures::HeadMeasures::*value;
  bool grows_with_size =
      false;  // a sum over the set: only sets of one size can be compared, so no full cache
};

// Log volume (KeyDiff, arXiv 2504.15364, Fig. 12), redundancy, the objective of Eq. A.2, attention mass kept
// and output error.
std::span<const ComparedMeasure> compared_measures();

struct PolicySpreadSelection {
  std::vector<int> runs;    // indices; one place on the axis each
  std::int64_t block = -1;  // the retained sets after this block; -1: after each run's last prompt block
};

// How a measure is spread over all recorded heads and layers, for every run: each head a point, with the
// median and the bar from the 5th to the 95th percentile beside them.
//   throws UsageError on an unknown run or block, FileError where no run has the measure and as the recording
//   does
Figure policy_spread_figure(const recording::Recording& recording, const PolicySpreadSelection& selection,
                            const ComparedMeasure& measure);

struct DiversitySelection {
  std::vector<int> runs;  // indices; one line each
};

// How diverse the retained keys stay while the prompt is read: log volume (KeyDiff, arXiv 2504.15364,
// Fig. 12), mean pairwise cosine and, where there is a run `none`, the share of its attention that they
// receive, after each block of the prompt. The median over all recorded heads and layers, and for up to three
// runs a band from the 5th to the 95th percentile; the numbers are those of `analyze --block`. Of a prompt of
// many blocks, 16 evenly spaced ones, the last among them, and the caption says so.
//   throws UsageError on an unknown run, FileError where no keys were recorded and as the recording does
Figure diversity_figure(const recording::Recording& recording, const DiversitySelection& selection);

struct OverlapSelection {
  std::vector<int> runs;    // indices
  std::int64_t block = -1;  // -1: each run's last prompt block
};

// How alike the retained sets of every two runs are: Jaccard's |A ∩ B| / |A ∪ B|, the mean over KV heads.
// Left run against run, over all layers; right, where there are two evicting runs or more, every pair of
// these layer by layer.
//   throws UsageError on an unknown run or block, FileError as the recording does
Figure overlap_figure(const recording::Recording& recording, const OverlapSelection& selection);

struct RelaxationGapSelection {
  std::vector<int> runs;    // indices; what evicts nothing is passed over
  std::int64_t block = -1;  // -1: each run's last prompt block
};

// How far policies stay from the problem that KeyDiff relaxes (arXiv 2504.15364, Eq. A.2: of all sets of N
// keys, the one with the least sum of cosines). Left, the objective as a mean cosine, divided by N²: of what
// the run retained, of what Eq. 8 retains of the same keys at once, and of the best set that local search
// finds from there. Right, the run's distance from the best. Heads and layers: median, 5 to 95 %.
// The search costs keys × head_dim a sweep: of more than 2·10⁹ such products over all heads and runs, evenly
// spaced heads are measured, and the note says how many.
//   throws UsageError on an unknown run or block, FileError where no keys were recorded or no run evicts
Figure relaxation_gap_figure(const recording::Recording& recording, const RelaxationGapSelection& selection);

struct BlockTimesSelection {
  std::vector<int> runs;  // indices; one line each
};

// Whether any run's blocks were timed: under the layer schedule a block has no time of its own.
bool has_block_times(const recording::RecordingInfo& info);

// Time that each block of the prompt took against its first token's position: flat where eviction bounds the
// cache, rising where nothing is evicted. Tokens generated afterwards are blocks of one token and left out.
//   throws UsageError on an unknown run, FileError where none of the runs was timed
Figure block_times_figure(const recording::Recording& recording, const BlockTimesSelection& selection);

// A token's time in a cache: the blocks whose queries could attend to it, both included, and what it is
// coloured by (NaN: nothing).
struct Life {
  std::int64_t first = 0, last = 0;
  double value = 0;
};

// Lives in order of position as an image that stays small: a row for every `tokens_per_row` tokens, a column
// for every `blocks_per_column` blocks. No token is left out.
struct LifeGrid {
  std::int64_t tokens_per_row = 1, blocks_per_column = 1;
  // (rows, columns) of the tokens and blocks of a cell, counted together:
  RowMatrixF share;  // that were in the cache, of those that had been seen; NaN where none had
  RowMatrixF value;  // mean of those in the cache that have one; NaN where there is none
};

// In O(lives + rows · columns), whatever the number of blocks.
//   lives: 0 <= first <= last < n_blocks each; max_size: of rows and of columns
LifeGrid grid_lives(std::span<const Life> lives, std::int64_t n_blocks, std::int64_t max_size);

// Whether only the rows of a figure's matrices are tokens, its columns being blocks.
constexpr bool has_block_columns(std::string_view figure) { return figure == "lifespans"; }

struct LifespansSelection {
  int run = 0;  // index into the recording's runs
  int layer = 0;
  int kv_head = 0;
  bool margins = false;          // coloured by the margin that a token went by, not by attention
  std::int64_t max_size = 1024;  // rows and columns of the images
};

// The lives of one head's tokens: from the block that each came with to the block at whose end it was
// evicted, or the run's last one.
//   values: (n_tokens) what each is coloured by
std::vector<Life> token_lives(const recording::RunInfo& run, std::span<const std::int32_t> evicted_at,
                              std::span<const double> values);

// `lifespans`: which tokens one head's cache holds during each block, and what they are to it: tokens from
// top to bottom, blocks from left to right. Two panels: the share of a cell's tokens that are in the cache,
// and the mean of their attention received per query (of the run `none` where the run is replayed), or of the
// margin that they went by. Where there are more tokens or blocks than cells, the note says how many a cell
// stands for.
//   throws UsageError on a selection that is not there, FileError as the recording does
Figure lifespans_figure(const recording::Recording& recording, const LifespansSelection& selection);

// KeyDiff's two results (arXiv 2504.15364, Section 3.3, C.3) on the heads of a run. Slack is how far a pair
// of a key and a query keeps from a bound: below zero, it would be violated. Theorem 3.2, over the pairs that
// meet α < 0 < β, with the paper's bound and the exact spherical one; Lemma 3.1 as the paper states it, over
// the visible pairs that its proof covers, and in the form that always holds, over all visible pairs. Of each
// of the two: by layer, heads together, median, 5 to 95 % and the least slack; and a histogram over all
// layers. The caption says how many pairs that is of how many, and counts violations. The numbers are those
// of `analyze` and `validate`; only of 4·10⁹ pairs and more in all are queries sampled, and the caption says
// so.
//   throws UsageError on an unknown run, FileError where keys or queries were not recorded and as the
//   recording does
Figure bounds_figure(const recording::Recording& recording, int run);

// One figure of a head for many heads at once: a cell for every layer (rows) and head (columns) of
// request.grid, each the first panel of what `builder` makes of that head. One run: the one asked for, by
// default `none` or the first, and for the key space the first that evicts. Colour scales are common to all
// cells, and so are axes but those of the key space, where every head has its own.
//   builder: of a figure that understands "layers"
//   throws as check_small_multiples and as the builder does
Figure small_multiples_figure(const recording::Recording& recording, const Builder& builder,
                              const FigureRequest& request);

// All checks of the request, without building anything.
//   throws UsageError on a run, layer, head or block that is not there, on several runs, on three components,
//   and on more than 1,000 cells
void check_small_multiples(const recording::RecordingInfo& info, const Builder& builder,
                           const FigureRequest& request);

}  // namespace keyscope::figures
