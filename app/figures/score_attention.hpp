#pragma once

#include "app/figures/figure.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

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

}  // namespace keyscope::figures
