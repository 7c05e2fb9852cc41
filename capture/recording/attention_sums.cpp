#include "capture/recording/attention_sums.hpp"

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::recording {
namespace {

[[noreturn]] void refuse(std::int32_t position) {
  throw InvalidInput(
      fmt::format("recording: position {} is not in the cache, or was evicted before", position));
}

}  // namespace

void AttentionSums::append(std::int32_t start, std::int32_t n_new) {
  for (std::int32_t i = 0; i < n_new; ++i) rows_.position.push_back(start + i);
  rows_.received.resize(rows_.position.size(), 0);
  rows_.queries.resize(rows_.position.size(), 0);
}

void AttentionSums::add(const HeadAttention& block) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < block.position.size(); ++i) {
    while (at < rows_.position.size() && rows_.position[at] < block.position[i]) ++at;
    if (at == rows_.position.size() || rows_.position[at] != block.position[i]) refuse(block.position[i]);
    rows_.received[at] += block.received[i];
    rows_.queries[at] += block.queries[i];
  }
}

AttentionSums::Rows AttentionSums::evict(const std::vector<std::int32_t>& positions) {
  Rows evicted;
  std::size_t next = 0, kept = 0;
  for (std::size_t at = 0; at < rows_.position.size(); ++at) {
    if (next < positions.size() && rows_.position[at] == positions[next]) {
      evicted.position.push_back(rows_.position[at]);
      evicted.received.push_back(rows_.received[at]);
      evicted.queries.push_back(rows_.queries[at]);
      ++next;
      continue;
    }
    rows_.position[kept] = rows_.position[at];
    rows_.received[kept] = rows_.received[at];
    rows_.queries[kept] = rows_.queries[at];
    ++kept;
  }
  if (next < positions.size()) refuse(positions[next]);
  rows_.position.resize(kept);
  rows_.received.resize(kept);
  rows_.queries.resize(kept);
  return evicted;
}

}  // namespace keyscope::recording
