#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace keyscope::tokenizer {

// GPT-2's alphabet: every byte as one printable character, so that a vocabulary is text. Printable Latin-1
// stands for itself; the other 68 bytes follow from U+0100 in order ("Ġ" is the space).
//   source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019 (encoder.py)

// The characters of all bytes of a text.
void append_byte_characters(std::string_view bytes, std::string& characters);

// The byte that a character stands for.
std::optional<unsigned char> byte_of_character(char32_t character);

// The bytes that a text in this alphabet stands for; nullopt if it has a character outside of it.
std::optional<std::string> bytes_of_characters(std::string_view characters);

}  // namespace keyscope::tokenizer
