#pragma once

#include <string_view>

#include "base/callback_ref.hpp"
#include "base/json.hpp"
#include "capture/tokenizer/split_pattern.hpp"

namespace keyscope::tokenizer {

// What becomes of the matches ("delimiters") when a text is split: pieces of their own, dropped, joined to
// the neighbouring piece, or one piece for each row of them.
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

// The `behavior` field, as the tokenizers library writes it.
//   throws FileError on another string
SplitBehavior read_split_behavior(const JsonField& field);

// Receives one non-empty piece of a text.
using RangeSink = CallbackRef<void(std::size_t begin, std::size_t end)>;

// Splits a text at a pattern's matches; with `invert`, at the gaps between them.
void split_at(const SplitPattern& pattern, SplitBehavior behavior, bool invert, std::string_view text,
              RangeSink sink);

}  // namespace keyscope::tokenizer
