#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analysis/policies/layer_budgets.hpp"
#include "analysis/policies/policy.hpp"

namespace keyscope::analysis {

// What an eviction method decides beside its score, each by itself and the same for every scorer:
//   protect=      which rows stay whatever they score, counted within N; parts are joined by `+`
//     none
//     sinks:K       those at positions below K
//     recent:R      the last R, a count or a share of N
//     boundaries:p  round(p·N) rows, the greater half at the beginning of the text, the others at the end of
//                   its prompt, or what has been read of it
//   granularity=  what lives and dies together
//     head          every KV head has a set of its own
//     layer         one set for all KV heads of a layer, by the mean of their scores
//     page:16       likewise, in runs of 16 consecutive positions, by the mean over their rows: what an
//     engine
//                   with pages of so many rows can free
//     model         one set for all layers, by the mean over all of them
//   split=        how N is dealt out
//     uniform       N to every KV head
//     adakv         the best of a layer's rows, whichever head has them, a fifth of N to each (AdaKV, arXiv
//                   2407.11550)
//     pyramid       fewer rows from layer to layer (PyramidKV, arXiv 2406.02069)
//     cake          more rows to layers whose attention is spread out and moves, as each block has it (CAKE,
//                   arXiv 2503.12491); cake:TAU1/TAU2 has temperatures of its user's own
//     file:PATH     by weights of its user's own: a number for each layer, or one for each KV head of each
//   critical=     whether values weigh with the score (CriticalKV, arXiv 2502.03805): the best by score stay
//                 until half of what is kept is in, and of the others those with the largest
//                 (s + 1e-4)·‖W_O v‖₁
//     off
//     on            s: the score
//     shift         the score less the least of all, so that of scores below 0, too, large values speak for a
//                   row
// At `none`, `head`, `uniform` and `off` a policy is what its scorer says.
struct Slots {
  struct Protection {
    std::int64_t sinks = 0;
    Budget recent = {};
    double boundaries = 0;

    bool any() const { return sinks > 0 || recent.is_given() || boundaries > 0; }
  };
  enum class Granularity { kHead, kLayer, kPage, kModel };
  enum class Split { kUniform, kAdaKv, kPyramid, kCake, kFile };
  enum class Critical { kOff, kOn, kShift };

  Protection protect = {};
  Granularity granularity = Granularity::kHead;
  std::int64_t page_rows = 1;  // of kPage
  Split split = Split::kUniform;
  std::string split_file = {};  // of kFile
  CakeTemperatures cake = {};   // of kCake
  Critical critical = Critical::kOff;

  // Whether every KV head is cut by its own scores and the scorer's own forced rows alone.
  bool neutral() const {
    return !protect.any() && granularity == Granularity::kHead && split != Split::kAdaKv && !weighs_values();
  }
  // Whether rows are ranked by what the output projection makes of their values, too.
  bool weighs_values() const { return critical != Critical::kOff; }
  // Whether layers have budgets of their own, the same for all blocks.
  bool splits_layers() const { return split == Split::kPyramid || split == Split::kFile; }
  // Whether what goes of a layer depends on what all of them hold, so that they are cut together.
  bool all_layers() const { return granularity == Granularity::kModel || deals_by_block(); }
  // Whether they are dealt one budget anew after every block.
  bool deals_by_block() const { return split == Split::kCake; }
  // Whether the heads of a layer are dealt what all of them may hold.
  bool deals_among_heads() const { return split == Split::kAdaKv; }
  // Rows that are kept and go together.
  std::int64_t unit() const { return granularity == Granularity::kPage ? page_rows : 1; }
  // Whether all KV heads of a layer hold the same rows.
  bool joint() const { return granularity != Granularity::kHead; }

  // Whether a layer that holds so many rows is to be cut; n_rows, budgets: of each KV head.
  bool due(std::span<const std::int64_t> n_rows, std::span<const std::int64_t> budgets) const;
  // Rows that a KV head with this budget holds at most after it was cut; under `adakv` on average.
  std::int64_t most_rows(std::int64_t budget) const;
};

// The options that every scorer takes, as `keyscope capture --help` lists them.
const std::vector<OptionDefinition>& slot_options();

// Reads them of a spec; those that it does not have are neutral.
//   throws UsageError naming policy, key, what was found and what is accepted, and where two exclude each
//   other
Slots read_slots(const PolicySpec& spec);

// Of a policy whose layers or heads are weighed against each other, the option that says so, as its user
// writes it, and what to take instead: {"split=cake", "split=uniform"}.
struct WeighingOption {
  std::string given, instead;
};
WeighingOption weighing_option(const PolicySpec& spec);

}  // namespace keyscope::analysis
