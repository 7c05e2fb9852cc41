#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/callback_ref.hpp"
#include "base/json.hpp"

namespace keyscope::tokenizer {

// Receives one stretch [begin, end) of a text and whether the pattern matched it.
using StretchSink = CallbackRef<void(std::size_t begin, std::size_t end, bool is_match)>;

// Something that finds its non-overlapping matches in a text, from left to right.
class SplitPattern {
 public:
  virtual ~SplitPattern() = default;

  // Hands out the whole text in order: matches, and the gaps between them.
  //   text: valid UTF-8
  //   throws InvalidInput where a regular expression exceeds its limits on this text
  virtual void find_all(std::string_view text, StretchSink sink) const = 0;
};

// The `pattern` field of Split and Replace: {"String": …} or {"Regex": …}. A known regular expression gets
// its linear-time scanner, another one PCRE2.
//   throws FileError on another shape, an empty string, and an expression that PCRE2 does not understand
std::unique_ptr<SplitPattern> read_split_pattern(const JsonField& pattern);

// Every character that fulfils `predicate` is a match by itself.
std::unique_ptr<SplitPattern> character_pattern(bool (*predicate)(char32_t));

// Every occurrence of a non-empty text is a match.
std::unique_ptr<SplitPattern> literal_pattern(std::string text);

}  // namespace keyscope::tokenizer
