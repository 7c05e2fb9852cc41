#include "app/evaluation/math_answer.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "app/evaluation/math_normal.hpp"
#include "app/evaluation/math_value.hpp"
#include "app/evaluation/text_scores.hpp"
#include "base/text.hpp"

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
  const std::string lower = lower_case(text);
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

namespace {

bool equal_as_math_scores(std::string_view first, std::string_view second) {
  const auto a = hendrycks_normal(first), b = hendrycks_normal(second);
  return a && b ? *a == *b : first == second;
}

// A comma with space behind it, where spaces are dropped: it parts entries, and no thousands.
constexpr std::string_view kSpacedComma = ",{}";

std::string without_marks(std::string text) { return replace_all(std::move(text), kSpacedComma, ","); }

// An answer as it is compared: \left and \right, percent signs and what ends a sentence taken away. An empty
// group keeps "\cdot x" from becoming "\cdotx" where spaces are dropped, and "1, 000" from becoming "1,000".
std::string compared(std::string_view answer) {
  static const Substitution kCommandBeforeLetter(R"((\\[a-zA-Z]+)\s+(?=[a-zA-Z]))", "$1{}");
  static const Substitution kSpaced(
      R"((?:,?(?:\s|\\ |~)*\\(?:text|mbox)\{\s*and\s*\}|,(?=\s|\\ |~))(?:\s|\\ |~)*)", ",{}");
  std::string text = minerva_normal(kSpaced.apply(kCommandBeforeLetter.apply(answer)));
  for (const char* nothing : {"\\left", "\\right", "\\%", "%", "\\!", "\\,"})
    text = replace_all(std::move(text), nothing, "");
  for (;;) {
    if (text.ends_with(kSpacedComma)) text.resize(text.size() - kSpacedComma.size());
    if (!text.ends_with('.') && !text.ends_with(',')) return text;
    text.pop_back();
  }
}

// 1 for a bracket that opens, -1 for one that closes.
int bracket(char c) {
  if (c == '(' || c == '[' || c == '{') return 1;
  return c == ')' || c == ']' || c == '}' ? -1 : 0;
}

// Whether what opens first closes last: of "(1,2)", and not of "(1,2),(3,4)".
bool is_enclosed(std::string_view text) {
  int depth = 0;
  for (std::size_t at = 0; at + 1 < text.size(); ++at) {
    depth += bracket(text[at]);
    if (depth == 0 && bracket(text[at]) != 0) return false;
  }
  return depth == 1;
}

// The commas that stand in no brackets of the text's own.
std::vector<std::size_t> outer_commas(std::string_view text) {
  std::vector<std::size_t> commas;
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    depth += bracket(text[at]);
    if (text[at] == ',' && depth == 0) commas.push_back(at);
  }
  return commas;
}

// Whether a comma has a digit in front and three behind it.
bool parts_thousands(std::string_view text, std::size_t comma) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789", comma + 1), text.size());
  return comma > 0 && is_digit(text[comma - 1]) && end - comma - 1 == 3;
}

// Entries between commas that stand in no brackets of their own. Where space is behind one of them, those
// that part thousands are none of these.
std::vector<std::string> entries(std::string_view text) {
  const std::vector<std::size_t> commas = outer_commas(text);
  const bool spaced =
      std::ranges::any_of(commas, [&](std::size_t at) { return text.substr(at).starts_with(kSpacedComma); });
  std::vector<std::string> found(1);
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool comma = std::ranges::binary_search(commas, at);
    if (!comma) found.back() += text[at];
    if (!comma || (spaced && parts_thousands(text, at))) continue;
    found.emplace_back();
    if (text.substr(at).starts_with(kSpacedComma)) at += kSpacedComma.size() - 1;
  }
  for (std::string& entry : found) entry = without_marks(std::move(entry));
  return found;
}

struct List {
  std::string_view open, close;  // empty without brackets
  std::vector<std::string> entries;
};

List as_list(std::string_view text) {
  if (!is_enclosed(text)) return {"", "", entries(text)};
  for (const std::string_view open : {"(", "[", "\\{"})
    for (const std::string_view close : {")", "]", "\\}"}) {
      if (text.size() <= open.size() + close.size() || !text.starts_with(open) || !text.ends_with(close))
        continue;
      const auto inside = text.substr(open.size(), text.size() - open.size() - close.size());
      return {open, close, entries(inside)};
    }
  return {"", "", entries(text)};
}

// A whole number without what does not count of it; empty where the text is none.
std::string whole_number(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || text.find_first_not_of("0123456789") != text.npos) return {};
  text.remove_prefix(std::min(text.find_first_not_of('0'), text.size() - 1));
  std::string number(negative && text != "0" ? 1 : 0, '-');
  return number.append(text);
}

bool same_entry(std::string_view first, std::string_view second) {
  if (first == second) return true;
  // By their digits, of which a double has no more than fifteen.
  const std::string one = whole_number(first), other = whole_number(second);
  if (!one.empty() && !other.empty()) return one == other;
  const auto a = math_values(first), b = math_values(second);
  return a && b && agree(*a, *b);
}

bool same_list(const List& first, const List& second) {
  if (first.entries.size() != second.entries.size() || first.entries.size() < 2) return false;
  if (first.open != second.open || first.close != second.close) return false;
  if (first.open == "(" || first.open == "[")
    return std::ranges::equal(first.entries, second.entries, same_entry);
  return std::ranges::is_permutation(first.entries, second.entries, same_entry);
}

// "(C)" and "C"; empty where it is no word.
std::u32string word(std::string_view text) {
  if (text.starts_with('(') && text.ends_with(')')) text = text.substr(1, text.size() - 2);
  std::u32string letters = lowered(text);
  const auto is_letter = [](char32_t c) { return is_word_character(c); };
  return std::ranges::all_of(letters, is_letter) ? letters : std::u32string();
}

bool same_word(std::string_view first, std::string_view second) {
  const auto a = word(first);
  return !a.empty() && a == word(second);
}

}  // namespace

bool same_answer(std::string_view first, std::string_view second) {
  if (equal_as_math_scores(first, second)) return true;
  const std::string a = compared(first), b = compared(second);
  if (a.empty() || b.empty()) return false;  // nothing but units
  const std::string plain_a = without_marks(a), plain_b = without_marks(b);
  return same_entry(plain_a, plain_b) || same_list(as_list(a), as_list(b)) || same_word(plain_a, plain_b);
}

bool exact_match(std::string_view solution, std::string_view answer) {
  const auto boxed = boxed_answer(solution);
  return boxed && equal_as_math_scores(*boxed, answer);
}

bool flexible_match(std::string_view solution, std::string_view answer) {
  const auto stated = stated_answer(solution);
  return stated && same_answer(*stated, answer);
}

}  // namespace keyscope::evaluation
