#pragma once

// What the metrics of question answering do to text, as Python's `str` and `re` do it: their reference
// implementations are written in Python. Ill-formed UTF-8 counts as U+FFFD.

#include <string>
#include <string_view>
#include <vector>

namespace keyscope::evaluation {

// The text's code points.
std::u32string code_points(std::string_view text);

// `str.lower()`: by the full mappings of Unicode, of no language in particular.
std::u32string lowered(std::string_view text);

// Whether `str.split()` parts words there: Unicode's White_Space and the four ASCII separators.
bool is_space(char32_t character);

// Whether `\w` of `re` takes it: letters, numbers and the low line.
bool is_word_character(char32_t character);

// `str.split()`: what stands between white space.
std::vector<std::u32string> split_words(std::u32string_view text);

// `re.findall(r"\d+", text)`: the longest runs of decimal digits, of any script.
std::vector<std::u32string> find_numbers(std::u32string_view text);

}  // namespace keyscope::evaluation
