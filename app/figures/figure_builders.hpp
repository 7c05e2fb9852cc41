#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "analysis/matrix_view.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/figure.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

// The builders of the catalogue's figures. Of a request each takes what its figure understands; what is left
// open is filled in as FigureRequest says. Runs, blocks, layers and heads that are not there throw
// UsageError, what was not recorded FileError, and reading throws as the recording does.

// Keys in the plane (or space) of their principal components, or against the anchor: retained as filled
// discs, evicted as rings, at the end of a block, with the anchor (mean key) and the mean query of the tokens
// seen by then, and circles about the ten keys that KeyDiff scores highest among these: a panel for each run,
// all in one basis. With two or more evicting runs a last panel shows the retained keys of all of them
// together (Fig. 5 d).
//   throws as fit_keyspace_basis and key_values, and FileError on queries where none were recorded
Figure keyspace_figure(const recording::Recording& recording, const FigureRequest& request);

// Attention weights of one query head (Fig. 2, right): a row per query, a column per key. What a query could
// not see (later tokens, evicted rows) is NaN. Recorded weights where there are any, else recomputed.
//   throws FileError where neither attention nor queries and keys were recorded, or where the model's
//   attention is not a plain softmax
Figure attention_figure(const recording::Recording& recording, const FigureRequest& request);

// Keys that `keyscope figure` orders by a dendrogram: their distances take 2 GiB, the tree half a minute.
inline constexpr std::int64_t kMostKeysInDendrogram = 32'768;

// Cosines between every two keys of one head (Fig. 2, left), on a scale from -1 to 1. Rows and columns of a
// key without length are 0.
// Cosines alone have an order by dendrogram: they are alike in both directions, as a distance must be.
// Weights of attention are not, and in another order than time's what a query could not see yet would lie
// anywhere.
//   throws UsageError on more keys than `most_ordered` to be ordered
Figure cosine_matrix_figure(const recording::Recording& recording, const FigureRequest& request);

// The matrices of one head side by side.
Figure cosine_and_attention_figure(const recording::Recording& recording, const FigureRequest& request);

// cos(mean key, mean query) (KeyDiff, arXiv 2504.15364, Fig. 14) or cos(top key, mean query), the key that
// KeyDiff scores highest (Fig. 16), of every KV head of a run, a diverging colour each way: layers from top
// to bottom, heads from left to right; layers that were not recorded, and heads without a value, are blank.
//   request.name: "mean-key-query-cosine" or "top-key-query-cosine"
Figure key_query_cosine_figure(const measures::MeasuredHeads& heads, const FigureRequest& request);

// `head-map`: one measure of every KV head of a run at the end of its prompt, or how much it differs from
// another run's, or what both retained alike: layers from top to bottom, heads from left to right. Layers
// that were not recorded, and heads without a value, are blank. The window's map of heads, in files.
//   throws UsageError on an unknown measure, and on one of two runs without a reference
Figure head_map_figure(const measures::MeasuredHeads& heads, const FigureRequest& request);

// Both: every KV head of a run beside its layer's number, a bar from the 5th to the 95th percentile and the
// median on it; one panel for keys, one for the queries of the group where they were recorded.

// cos(k_i, mean key) and cos(q_i, mean query): KeyDiff (arXiv 2504.15364), Fig. 13.
Figure mean_cosines_figure(const measures::MeasuredHeads& heads, const FigureRequest& request);

// ‖k_i‖ and ‖q_i‖: Fig. 15.
Figure norms_figure(const measures::MeasuredHeads& heads, const FigureRequest& request);

// Whether keys unlike the rest receive the most attention, layer by layer: Spearman's ρ of −cos(k_i, mean
// key) with the attention received, the mean over KV heads and a bar of one standard deviation to either
// side. KeyDiff (arXiv 2504.15364), Table 3, which does not say how attention is aggregated: per query that
// could see the key, the plain sum, and the former with the token's position held fixed.
Figure rank_correlation_figure(const measures::MeasuredHeads& heads, const FigureRequest& request);

// KeyDiff's score -cos(k_i, mean key) of every prompt token against the attention that it received per query
// that could see it (its logarithm, unless by ranks, which is what Spearman's ρ is about): one head of Table
// 3 of the paper. Retained as discs, evicted as rings, by the end of the prompt. The title says Spearman's ρ,
// also with the token's position held fixed; both are those of `analyze`. Tokens that received nothing have
// no logarithm and are counted in the note.
Figure score_attention_figure(const recording::Recording& recording, const FigureRequest& request);

// What evicting costs, by run: attention mass kept and, where values were recorded, the relative error of
// attention's output, over all heads and layers (median, 5 to 95 %); and where logits were, the mean KL
// divergence of the next-token distributions from the full cache's. For runs of one policy under several
// options: KeyDiff (arXiv 2504.15364), Tables 15 and 16, which compare anchors and metrics. The numbers are
// those of `analyze`. `none` is what runs are measured against and has no place of its own.
//   throws FileError where there is no run `none`, or none that evicts
Figure ablation_figure(const measures::MeasuredHeads& heads, const FigureRequest& request);

// How a measure of the retained set is spread over all recorded heads and layers, for every run: each head a
// point, with the median and the bar from the 5th to the 95th percentile beside them. Log volume (KeyDiff,
// arXiv 2504.15364, Fig. 12), redundancy, the objective of Eq. A.2, attention mass kept or output error.
//   request.name: "log-volume", "redundancy", "cosine-objective", "attention-mass" or "output-error"
//   throws FileError where no run has the measure
Figure policy_spread_figure(const measures::MeasuredHeads& heads, const FigureRequest& request);

// How diverse the retained keys stay while the prompt is read: log volume (KeyDiff, arXiv 2504.15364,
// Fig. 12), mean pairwise cosine and, where there is a run `none`, the share of its attention that they
// receive, after each block of the prompt. The median over all recorded heads and layers, and for up to three
// runs a band from the 5th to the 95th percentile of the measures of `analyze`. Of a prompt of
// many blocks, 16 evenly spaced ones, the last among them, and the caption says so.
Figure diversity_figure(const measures::MeasuredHeads& heads, const FigureRequest& request);

// How alike the retained sets of every two runs are: Jaccard's |A ∩ B| / |A ∪ B|, the mean over KV heads.
// Left run against run, over all layers; right, where there are two evicting runs or more, every pair of
// these layer by layer.
Figure overlap_figure(const recording::Recording& recording, const FigureRequest& request);

// How far policies stay from the problem that KeyDiff relaxes (arXiv 2504.15364, Eq. A.2: of all sets of N
// keys, the one with the least sum of cosines). Left, the objective as a mean cosine, divided by N²: of what
// the run retained, of what Eq. 8 retains of the same keys at once, and of the best set that local search
// finds from there. Right, the run's distance from the best. Heads and layers: median, 5 to 95 %. What evicts
// nothing is passed over.
// The search costs keys × head_dim a sweep: of more than 2·10⁹ such products over all heads and runs, evenly
// spaced heads are measured, and the note says how many.
//   throws FileError where no run evicts
Figure relaxation_gap_figure(const recording::Recording& recording, const FigureRequest& request);

// Whether any run's blocks were timed: under the layer schedule a block has no time of its own.
bool has_block_times(const recording::RecordingInfo& info);

// Time that each block of the prompt took against its first token's position: flat where eviction bounds the
// cache, rising where nothing is evicted. Tokens generated afterwards are blocks of one token and left out.
//   throws FileError where none of the runs was timed
Figure block_times_figure(const recording::Recording& recording, const FigureRequest& request);

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
constexpr bool has_block_columns(std::string_view figure) {
  return figure == "lifespans" || figure == "token-lives";
}

// The lives of one head's tokens: from the block that each came with to the block at whose end it was
// evicted, or the run's last one.
//   values: (n_tokens) what each is coloured by
std::vector<Life> token_lives(const recording::RunInfo& run, std::span<const std::int32_t> evicted_at,
                              std::span<const double> values);

// `lifespans`: which tokens one head's cache holds during each block, and what they are to it: tokens from
// top to bottom, blocks from left to right. Two panels: the share of a cell's tokens that are in the cache,
// and the mean of their attention received per query (of the run `none` where the run is replayed), or of the
// margin that they went by. Where there are more tokens or blocks than cells, the note says how many a cell
// stands for. By default of the first run that evicts.
Figure lifespans_figure(const recording::Recording& recording, const FigureRequest& request);

// `token-lives`: what every token is to one head's cache at the end of each block: in it by its score, kept
// by the policy's rule, evicted, or past a sliding window (measures::token_lives). A lane a token, by
// position, or with request.order the evicted ones by what they would still have received
// (measures::policy_difference with the run `none`); with request.token a lane for each head, of that token
// alone. Where there are more tokens or blocks than cells, every so many are shown, so that shares stay what
// they are; ordered by loss, the first ones are. By default of the first run that evicts.
//   throws UsageError on an order by loss where nothing tells it
Figure token_lives_figure(const recording::Recording& recording, const FigureRequest& request);

// KeyDiff's two results (arXiv 2504.15364, Section 3.3, C.3) on the heads of a run. Slack is how far a pair
// of a key and a query keeps from a bound: below zero, it would be violated. Theorem 3.2, over the pairs that
// meet α < 0 < β, with the paper's bound and the exact spherical one; Lemma 3.1 as the paper states it, over
// the visible pairs that its proof covers, and in the form that always holds, over all visible pairs. Of each
// of the two: by layer, heads together, median, 5 to 95 % and the least slack; and a histogram over all
// layers. The caption says how many pairs that is of how many, and counts violations. The numbers are those
// of `analyze` and `validate`; only of 4·10⁹ pairs and more in all are queries sampled, and the caption says
// so.
Figure bounds_figure(const recording::Recording& recording, const FigureRequest& request);

// One figure of a head for many heads at once: a cell for every layer (rows) and head (columns) of
// request.grid, each the first panel of what `builder` makes of that head. One run: the one asked for, by
// default `none` or the first, and for the key space the first that evicts. Colour scales are common to all
// cells, and so are axes but those of the key space, where every head has its own.
//   builder: of a figure that understands kLayers
//   throws as check_small_multiples and as the builder does
Figure small_multiples_figure(const recording::Recording& recording, const Builder& builder,
                              const FigureRequest& request);

// All checks of the request, without building anything.
//   throws UsageError on a run, layer, head or block that is not there, on several runs, on three components,
//   and on more than 1,000 cells
void check_small_multiples(const recording::RecordingInfo& info, const Builder& builder,
                           const FigureRequest& request);

}  // namespace keyscope::figures
