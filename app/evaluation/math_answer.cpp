#include "app/evaluation/math_answer.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace keyscope::evaluation {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
// Of an announced answer. The stars are of Markdown: "**Answer:** 5".
constexpr std::string_view kAround = " \t\r\n:*";

std::string_view stripped(std::string_view text, std::string_view characters = kSpace) {
  const std::size_t first = text.find_first_not_of(characters);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(characters) - first + 1);
}

// What stands between a brace at the beginning of the text and the one that closes it.
std::optional<std::string_view> in_braces(std::string_view text) {
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '{') ++depth;
    if (text[at] == '}' && --depth == 0) return text.substr(1, at - 1);
  }
  return std::nullopt;
}

// What follows the last of `name`.
std::optional<std::string_view> behind_last(std::string_view text, std::string_view name) {
  const std::size_t at = text.rfind(name);
  if (at == text.npos) return std::nullopt;
  return text.substr(at + name.size());
}

// Behind the later of "answer is" and "answer:", whatever their case.
std::optional<std::string_view> behind_announcement(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  std::size_t begin = text.npos;
  for (const std::string_view words : {"answer is", "answer:"})
    if (const std::size_t at = lower.rfind(words); at != lower.npos)
      begin = std::max(begin == text.npos ? 0 : begin, at + words.size());
  if (begin == text.npos) return std::nullopt;
  return text.substr(begin);
}

// Without new lines in front of a formula, and what announces it.
std::string_view from_formula(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kAround);
  return first != text.npos && text[first] == '$' ? text.substr(first) : text;
}

// Up to a new line, or to a full stop that ends a sentence rather than standing in a number.
std::string_view sentence(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  for (std::size_t at = 0; (at = text.find('.', at)) != text.npos; ++at)
    if (at + 1 == text.size() || kSpace.find(text[at + 1]) != kSpace.npos) return text.substr(0, at);
  return text;
}

// The first of `part` that no backslash escapes: "\\[2pt]" in a formula opens nothing, "\$" is no end of it.
std::size_t find_unescaped(std::string_view text, std::string_view part, std::size_t at) {
  for (; at < text.size(); ++at) {
    if (text.substr(at).starts_with(part)) return at;
    if (text[at] == '\\') ++at;
  }
  return text.npos;
}

// What opens a formula at the beginning of the text and what closes it; empty where none begins.
std::pair<std::string_view, std::string_view> delimiters(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kDelimiters{
      {{"$$", "$$"}, {"$", "$"}, {"\\(", "\\)"}, {"\\[", "\\]"}}};
  for (const auto& pair : kDelimiters)
    if (text.starts_with(pair.first)) return pair;
  return {};
}

// The text with every formula on one line between single dollar signs, without space at its ends. Dollar
// signs that open none are the currency's, and escaped.
std::string with_plain_dollars(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size();) {
    const auto [open, close] = delimiters(text.substr(at));
    const std::size_t end = open.empty() ? text.npos : find_unescaped(text, close, at + open.size());
    if (end == text.npos) {
      const std::size_t n = text[at] == '\\' ? 2 : 1;
      if (text[at] == '$') plain += '\\';
      plain += text.substr(at, n);
      at += n;
      continue;
    }
    std::string formula(stripped(text.substr(at + open.size(), end - at - open.size())));
    std::ranges::replace(formula, '\n', ' ');
    plain.append("$").append(formula).append("$");
    at = end + close.size();
  }
  return plain;
}

// Between the last two dollar signs of those that stand in pairs.
std::optional<std::string_view> last_formula(std::string_view text) {
  std::optional<std::string_view> found;
  for (std::size_t open = 0; (open = find_unescaped(text, "$", open)) != text.npos;) {
    const std::size_t close = find_unescaped(text, "$", open + 1);
    if (close == text.npos) break;
    if (!stripped(text.substr(open + 1, close - open - 1)).empty())
      found = text.substr(open + 1, close - open - 1);
    open = close + 1;
  }
  return found;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_numeric(char c) { return is_digit(c) || c == '$' || c == '.' || c == ','; }

std::optional<std::string_view> last_number(std::string_view text) {
  std::optional<std::string_view> found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t first = text[at] == '-' ? at + 1 : at;
    std::size_t end = first;
    while (end < text.size() && is_numeric(text[end])) ++end;
    if (std::ranges::any_of(text.substr(first, end - first), is_digit)) found = text.substr(at, end - at);
    at = std::max(end, at + 1);
  }
  return found;
}

}  // namespace

std::optional<std::string> boxed_answer(std::string_view text) {
  auto rest = behind_last(text, "\\boxed");
  if (!rest) rest = behind_last(text, "\\fbox");
  if (!rest) return std::nullopt;
  const std::size_t first = rest->find_first_not_of(' ');
  if (first == rest->npos) return std::nullopt;
  const std::string_view content = rest->substr(first);
  if (content.starts_with('{')) {
    const auto answer = in_braces(content);
    return answer ? std::optional(std::string(*answer)) : std::nullopt;
  }
  return std::string(stripped(content.substr(0, content.find_first_of("$\n"))));
}

std::optional<std::string> stated_answer(std::string_view text) {
  if (auto boxed = boxed_answer(text)) return boxed;
  const std::string plain = with_plain_dollars(text);
  if (const auto rest = behind_announcement(plain))
    if (const auto answer = stripped(sentence(from_formula(*rest)), kAround); !answer.empty())
      return std::string(answer);
  if (const auto formula = last_formula(plain)) return std::string(stripped(*formula));
  if (const auto number = last_number(text)) return std::string(*number);
  return std::nullopt;
}

}  // namespace keyscope::evaluation
