#include "app/evaluation/text_scores.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/evaluation/edit_similarity.hpp"
#include "app/evaluation/plain_text.hpp"

namespace keyscope::evaluation {
namespace {

bool is_ascii_punctuation(char32_t c) {
  return (c >= U'!' && c <= U'/') || (c >= U':' && c <= U'@') || (c >= U'[' && c <= U'`') ||
         (c >= U'{' && c <= U'~');
}

bool is_article(std::u32string_view word) { return word == U"a" || word == U"an" || word == U"the"; }

// Articles that stand as words of their own, each replaced by a space.
std::u32string without_articles(std::u32string_view text) {
  std::u32string kept;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_word_character(text[end])) ++end;
    const std::u32string_view word = text.substr(at, end - at);
    if (is_article(word))
      kept.push_back(U' ');
    else
      kept.append(word);
    if (end < text.size()) kept.push_back(text[end++]);
    at = end;
  }
  return kept;
}

double share_of(std::string_view prediction, std::u32string_view number) {
  const auto numbers = find_numbers(code_points(prediction));
  if (numbers.empty()) return 0;
  return static_cast<double>(std::ranges::count(numbers, number)) / static_cast<double>(numbers.size());
}

// N of the first "Paragraph N".
std::optional<std::u32string> named_paragraph(std::u32string_view answer) {
  constexpr std::u32string_view kName = U"Paragraph ";
  for (auto at = answer.find(kName); at != answer.npos; at = answer.find(kName, at + 1)) {
    const std::u32string_view rest = answer.substr(at + kName.size());
    const auto numbers = find_numbers(rest);
    if (!numbers.empty() && rest.starts_with(numbers.front())) return numbers.front();
  }
  return std::nullopt;
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace

std::vector<std::u32string> normalised_words(std::string_view text) {
  std::u32string characters = lowered(text);
  std::erase_if(characters, is_ascii_punctuation);
  return split_words(without_articles(characters));
}

double token_f1(std::string_view prediction, std::string_view answer) {
  const auto predicted = normalised_words(prediction), expected = normalised_words(answer);
  std::map<std::u32string, int> left;
  for (const auto& word : expected) ++left[word];
  int n_common = 0;
  for (const auto& word : predicted)
    if (const auto at = left.find(word); at != left.end() && at->second-- > 0) ++n_common;
  if (n_common == 0) return 0;
  const double precision = n_common / static_cast<double>(predicted.size());
  const double recall = n_common / static_cast<double>(expected.size());
  return 2 * precision * recall / (precision + recall);
}

double number_share(std::string_view prediction, std::string_view answer) {
  return share_of(prediction, code_points(answer));
}

double paragraph_share(std::string_view prediction, std::string_view answer) {
  const auto paragraph = named_paragraph(code_points(answer));
  if (!paragraph)
    throw InvalidInput(fmt::format("the answer '{}' names no paragraph; expected 'Paragraph N'", answer));
  return share_of(prediction, *paragraph);
}

double class_share(std::string_view prediction, std::string_view answer,
                   std::span<const std::string> classes) {
  std::vector<std::string> named;
  for (const std::string& name : classes)
    if (has(prediction, name)) named.push_back(name);
  // The reference takes names out of the list that it walks along, and so skips the one behind each.
  for (std::size_t at = 0; at < named.size(); ++at) {
    const std::string name = named[at];
    if (has(answer, name) && name != answer) named.erase(std::ranges::find(named, name));
  }
  if (std::ranges::find(named, answer) == named.end()) return 0;
  return 1 / static_cast<double>(named.size());
}

double code_similarity(std::string_view prediction, std::string_view answer) {
  prediction.remove_prefix(std::min(prediction.find_first_not_of('\n'), prediction.size()));
  std::string_view first;
  while (true) {
    const std::size_t end = prediction.find('\n');
    const std::string_view line = prediction.substr(0, end);
    if (!has(line, "`") && !has(line, "#") && !has(line, "//")) {
      first = line;
      break;
    }
    if (end == prediction.npos) break;
    prediction.remove_prefix(end + 1);
  }
  return edit_similarity(first, answer) / 100.0;
}

}  // namespace keyscope::evaluation
