#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "app/measures/head_data.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// What a token is to one KV head's cache at the end of a block.
enum class LifeState : std::uint8_t {
  kInCache,  // nothing had to go, or its score was high enough
  kForced,   // others went, and the policy keeps it whatever it scores
  kEvicted,  // by its score
  kPassed    // dropped because the layer's sliding window had passed it
};

// One token's life in one KV head of a run.
struct TokenLife {
  std::int64_t arrived = 0;                                   // the block that it came with
  std::optional<std::int64_t> gone;                           // the block at whose end it went
  bool passed = false;                                        // it went because a window had passed it
  std::vector<std::pair<std::int64_t, std::int64_t>> forced;  // first and last blocks, both included

  // Empty before it arrived.
  std::optional<LifeState> at(std::int64_t block) const;
};

// Of every token that the run has seen, (n_tokens). Which rows were forced follows from the policy's options
// and the rows that its cache held, block by block.
//   cancelled: checked at every block; throws Cancelled once it is true
//   throws FileError as the recording does, and on a policy that is not known here
std::vector<TokenLife> token_lives(const recording::Recording& recording, const HeadSelection& selection,
                                   const std::atomic<bool>& cancelled);

}  // namespace keyscope::measures
