#include "capture/recording/recorded_heads.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace keyscope::recording {

std::vector<int> RecordedHeads::list(int n_kv_heads) const {
  if (!all()) return kv_heads;
  std::vector<int> every(static_cast<std::size_t>(n_kv_heads));
  std::iota(every.begin(), every.end(), 0);
  return every;
}

int RecordedHeads::place(int kv_head) const {
  if (all()) return kv_head;
  const auto found = std::ranges::lower_bound(kv_heads, kv_head);
  return found == kv_heads.end() || *found != kv_head ? -1 : static_cast<int>(found - kv_heads.begin());
}

int RecordedHeads::query_place(int query_head, int group_size) const {
  const int group = place(query_head / group_size);
  return group < 0 ? -1 : group * group_size + query_head % group_size;
}

std::string RecordedHeads::refusal(int kv_head) const {
  return fmt::format("KV head {} was not recorded; recorded are {}", kv_head, fmt::join(kv_heads, ", "));
}

}  // namespace keyscope::recording
