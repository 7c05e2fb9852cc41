#include "app/evaluation/math_match.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "app/evaluation/math_answer.hpp"
#include "app/evaluation/math_normal.hpp"
#include "app/evaluation/math_value.hpp"
#include "app/evaluation/plain_text.hpp"
#include "app/evaluation/substitution.hpp"

namespace keyscope::evaluation {
namespace {

bool equal_as_math_scores(std::string_view first, std::string_view second) {
  const auto a = hendrycks_normal(first), b = hendrycks_normal(second);
  return a && b ? *a == *b : first == second;
}

// An answer as it is compared: \left and \right, percent signs and what ends a sentence taken away. An empty
// group keeps "\cdot x" from becoming "\cdotx" where spaces are dropped.
std::string compared(std::string_view answer) {
  static const Substitution kCommandBeforeLetter(R"((\\[a-zA-Z]+)\s+(?=[a-zA-Z]))", "$1{}");
  std::string text = minerva_normal(kCommandBeforeLetter.apply(answer));
  for (const char* nothing : {"\\left", "\\right", "\\%", "%", "\\!", "\\,"})
    text = replace_all(std::move(text), nothing, "");
  while (text.ends_with('.') || text.ends_with(',')) text.pop_back();
  return text;
}

// Entries between commas that stand in no brackets of their own.
std::vector<std::string_view> entries(std::string_view text) {
  std::vector<std::string_view> found;
  int depth = 0;
  std::size_t first = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (std::string_view("([{").find(text[at]) != std::string_view::npos) ++depth;
    if (std::string_view(")]}").find(text[at]) != std::string_view::npos) --depth;
    if (text[at] != ',' || depth != 0) continue;
    found.push_back(text.substr(first, at - first));
    first = at + 1;
  }
  found.push_back(text.substr(first));
  return found;
}

struct List {
  std::string_view open, close;  // empty without brackets
  std::vector<std::string_view> entries;
};

List as_list(std::string_view text) {
  for (const std::string_view open : {"(", "[", "\\{"})
    for (const std::string_view close : {")", "]", "\\}"}) {
      if (text.size() <= open.size() + close.size() || !text.starts_with(open) || !text.ends_with(close))
        continue;
      const auto inside = text.substr(open.size(), text.size() - open.size() - close.size());
      return {open, close, entries(inside)};
    }
  return {"", "", entries(text)};
}

bool same_entry(std::string_view first, std::string_view second) {
  if (first == second) return true;
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
  return same_entry(a, b) || same_list(as_list(a), as_list(b)) || same_word(a, b);
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
