#include "app/session/shell_words.hpp"

namespace keyscope::session {

std::string quote_word(std::string_view word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV"
                                          "WXYZ0123456789_-+=:,./@%") == std::string_view::npos;
  if (plain) return std::string(word);
  std::string quoted(1, '\'');
  for (const char c : word) {
    if (c == '\'')
      quoted.append("'\\''");
    else
      quoted.push_back(c);
  }
  quoted.push_back('\'');
  return quoted;
}

std::string quote_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text.push_back(' ');
    text.append(quote_word(word));
  }
  return text;
}

}  // namespace keyscope::session
