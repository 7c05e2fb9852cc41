#include "capture/tokenizer/split_behavior.hpp"

#include <cstddef>
#include <vector>

namespace keyscope::tokenizer {
namespace {

struct Stretch {
  std::size_t begin, end;
  bool delimiter;
};

// A delimiter joins the piece before it, unless that ends with a delimiter already.
void merge_with_previous(const std::vector<Stretch>& stretches, RangeSink sink) {
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const bool joins = !stretches[i].delimiter && i + 1 < stretches.size() && stretches[i + 1].delimiter;
    const std::size_t begin = stretches[i].begin;
    if (joins) ++i;
    sink(begin, stretches[i].end);
  }
}

void merge_with_next(const std::vector<Stretch>& stretches, RangeSink sink) {
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const bool joins = stretches[i].delimiter && i + 1 < stretches.size() && !stretches[i + 1].delimiter;
    const std::size_t begin = stretches[i].begin;
    if (joins) ++i;
    sink(begin, stretches[i].end);
  }
}

void join_rows(const std::vector<Stretch>& stretches, RangeSink sink) {
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const std::size_t begin = stretches[i].begin;
    while (i + 1 < stretches.size() && stretches[i + 1].delimiter == stretches[i].delimiter) ++i;
    sink(begin, stretches[i].end);
  }
}

}  // namespace

SplitBehavior read_split_behavior(const JsonField& field) {
  const std::string name = field.string();
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  field.fail(in_quotes(name), "Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous");
}

void split_at(const SplitPattern& pattern, SplitBehavior behavior, bool invert, std::string_view text,
              RangeSink sink) {
  if (behavior == SplitBehavior::kIsolated || behavior == SplitBehavior::kRemoved) {
    const bool keep_delimiters = behavior == SplitBehavior::kIsolated;
    pattern.find_all(text, [&](std::size_t begin, std::size_t end, bool is_match) {
      if (keep_delimiters || is_match == invert) sink(begin, end);
    });
    return;
  }
  std::vector<Stretch> stretches;
  pattern.find_all(text, [&](std::size_t begin, std::size_t end, bool is_match) {
    stretches.push_back({begin, end, is_match != invert});
  });
  if (behavior == SplitBehavior::kMergedWithPrevious) merge_with_previous(stretches, sink);
  if (behavior == SplitBehavior::kMergedWithNext) merge_with_next(stretches, sink);
  if (behavior == SplitBehavior::kContiguous) join_rows(stretches, sink);
}

}  // namespace keyscope::tokenizer
