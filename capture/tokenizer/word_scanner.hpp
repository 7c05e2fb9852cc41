#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "capture/tokenizer/pre_tokenizer.hpp"

namespace keyscope::tokenizer {

// What distinguishes the split patterns of the GPT family. All are alternatives, in this order: contractions,
// words, numbers, punctuation, line ends, other white space; together they cover every text.
struct WordRules {
  enum class Contractions {
    kNone,
    kExact,    // 's|'t|'re|'ve|'m|'ll|'d
    kAnyCase,  // (?i:'s|'t|'re|'ve|'m|'ll|'d)
    kSuffix,   // the same, but as the end of a word
  };
  enum class Words {
    kAfterSpace,  // ` ?\p{L}+`
    kAfterAny,    // [^\r\n\p{L}\p{N}]?\p{L}+
    kWithMarks,   // [^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+
    kCased,       // ends where a capital follows a small letter
  };
  Contractions contractions = Contractions::kExact;
  Words words = Words::kAfterSpace;
  int most_digits = 0;                 // \p{N}{1,most}; 0: ` ?\p{N}+`
  std::string_view after_punctuation;  // characters that a run of punctuation takes with it
  bool line_ends = false;              // \s*[\r\n]+
};

// The end of the piece that starts at `at`. Linear over a whole text: what a rule looks at and does not take,
// the next piece takes.
//   text: valid UTF-8; at < text.size(), where a piece starts
std::size_t find_piece_end(const WordRules& rules, std::string_view text, std::size_t at);

// GPT-2's rules, which ByteLevel's `use_regex` stands for.
extern const WordRules kGpt2Rules;

// The scanner of a regular expression that is known to the letter; nullptr for any other.
std::unique_ptr<SplitPattern> word_scanner_for(std::string_view expression);

}  // namespace keyscope::tokenizer
