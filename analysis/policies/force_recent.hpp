#pragma once

#include <cstdint>
#include <span>

namespace keyscope::analysis {

// Marks the `n_recent` last rows, but never more than the budget or than there are.
void force_recent(std::int64_t n_recent, std::int64_t budget, std::span<std::uint8_t> forced);

}  // namespace keyscope::analysis
