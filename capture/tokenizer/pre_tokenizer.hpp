#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/callback_ref.hpp"
#include "base/json.hpp"
#include "base/regex.hpp"

namespace keyscope::tokenizer {

// Receives one piece, never empty. `at_start`: it begins where the whole text begins. The view is valid
// during the call only.
using PieceSink = CallbackRef<void(std::string_view piece, bool at_start)>;

// Cuts text into the pieces that byte-pair merges never cross, and may rewrite them (byte alphabet, "▁").
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;

  //   text: valid UTF-8, not empty
  virtual void split(std::string_view text, bool at_start, PieceSink sink) const = 0;
};

// The `pre_tokenizer` field: null (returns nullptr), Split, ByteLevel, Digits, Metaspace, Whitespace,
// WhitespaceSplit, Punctuation, CharDelimiterSplit and Sequence.
//   throws FileError on another type, by name, and on fields of another shape
std::unique_ptr<PreTokenizer> read_pre_tokenizer(const std::optional<JsonField>& field);

// Receives one stretch [begin, end) of a text and whether the pattern matched it. A match may be empty.
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
// its linear-time scanner, another one Oniguruma.
//   throws FileError on another shape, an empty string, and an expression that Oniguruma does not understand
std::unique_ptr<SplitPattern> read_split_pattern(const JsonField& pattern);

// Every character that fulfils `predicate` is a match by itself.
std::unique_ptr<SplitPattern> character_pattern(bool (*predicate)(char32_t));

// Every occurrence of a non-empty text is a match.
std::unique_ptr<SplitPattern> literal_pattern(std::string text);

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

// A regular expression in the tokenizers library's own engine and syntax: the way for split patterns that no
// scanner knows, and the scanners' oracle in tests.
class RegexPattern : public SplitPattern {
 public:
  //   throws InvalidInput, with Oniguruma's words, on an expression that does not compile
  explicit RegexPattern(const std::string& expression) : regex_(expression) {}

  void find_all(std::string_view text, StretchSink sink) const override;

 private:
  Regex regex_;
};

}  // namespace keyscope::tokenizer
