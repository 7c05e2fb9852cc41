#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace keyscope::figures {

// What a token looks like in the text. The numbers are values on a colour scale.
enum class TokenClass : std::uint8_t { kLetters, kDigits, kPunctuation, kSpace, kNewline, kSpecial };

std::span<const std::string_view> token_class_names();  // in that order

// The class of a token by its bytes: newline where it has a line break and nothing that can be seen, space
// where it is white only, else by its first character that is not white. Special are tokens of no text,
// tokens in the form of control tokens such as <s>, <|end|> or [SEP], and parts of characters, which are no
// UTF-8.
TokenClass token_class(std::string_view bytes);

}  // namespace keyscope::figures
