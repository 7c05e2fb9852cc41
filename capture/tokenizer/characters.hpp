#pragma once

namespace keyscope::tokenizer {

// What the split patterns of tokenizers ask of a character. A character may be in several classes.
enum CharacterClass : unsigned {
  kLetter = 1U << 0,       // \p{L}
  kNumber = 1U << 1,       // \p{N}
  kSpace = 1U << 2,        // \s: Unicode's White_Space
  kNewline = 1U << 3,      // [\r\n]
  kMark = 1U << 4,         // \p{M}
  kUpperLike = 1U << 5,    // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
  kLowerLike = 1U << 6,    // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
  kPunctuation = 1U << 7,  // \p{P}, and all ASCII punctuation
};

// The classes of a code point, by ICU's version of Unicode. Code points assigned later are in none of them,
// so they split as symbols do.
unsigned character_classes(char32_t code_point);

// \w: alphabetic, mark, decimal number, connector punctuation, join control.
bool is_word_character(char32_t code_point);

}  // namespace keyscope::tokenizer
