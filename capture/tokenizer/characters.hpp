#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.hpp"

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

// The major version of Unicode that assigned it; 0 where none has. The tokenizers library's tables are of
// several.
unsigned unicode_age(char32_t code_point);

// \w: alphabetic, mark, decimal number, connector punctuation, join control.
bool is_word_character(char32_t code_point);

// GPT-2's alphabet: every byte as one printable character, so that a vocabulary is text. Printable Latin-1
// stands for itself; the other 68 bytes follow from U+0100 in order ("Ġ" is the space).
//   source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019 (encoder.py)

// The characters of all bytes of a text.
void append_byte_characters(std::string_view bytes, std::string& characters);

// The byte that a character stands for.
std::optional<unsigned char> byte_of_character(char32_t character);

// The bytes that a text in this alphabet stands for; nullopt if it has a character outside of it.
std::optional<std::string> bytes_of_characters(std::string_view characters);

// What Metaspace's pre-tokenizer and decoder share: the character that stands for a space, and where one is
// put in front. Files before 2024 say `add_prefix_space` instead of `prepend_scheme`.
struct Metaspace {
  enum class Prepend { kAlways, kFirst, kNever };

  std::string replacement;  // one character, "▁"
  Prepend prepend = Prepend::kAlways;
  bool split = true;  // at every replacement, which begins the next piece
};

//   throws FileError on a replacement that is not one character and on an unknown scheme
Metaspace read_metaspace(const JsonField& field);

}  // namespace keyscope::tokenizer
