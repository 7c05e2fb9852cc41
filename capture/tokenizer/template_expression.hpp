#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace keyscope::tokenizer {

// The tokens of a Jinja expression or statement in one spelling, whatever its author's: names, numbers and
// marks as they are; a string as ' and its characters; x['name'] as x.name; the reason in
// raise_exception('…') left out.
//   returns nullopt on a string that is not closed or holds an escape of another kind than \n \t \r \\ \' \"
std::optional<std::vector<std::string>> expression_tokens(std::string_view text);

// The tokens in one line, a space between any two: equal exactly for equal tokens.
std::string join_tokens(const std::vector<std::string>& tokens);

// Takes away brackets that enclose all of the tokens from `first` on.
void strip_brackets(std::vector<std::string>& tokens, std::size_t first);

// The operands of a + b + …, which print one after the other what the whole prints; the expression itself
// where it is no plain sum.
std::vector<std::vector<std::string>> sum_operands(const std::vector<std::string>& tokens);

}  // namespace keyscope::tokenizer
