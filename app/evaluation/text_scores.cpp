#include "app/evaluation/text_scores.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include "base/errors.hpp"
#include "base/text.hpp"

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

namespace {

std::size_t common_length(const std::u32string& first, const std::u32string& second) {
  std::vector<std::size_t> lengths(second.size() + 1);  // of the first's characters so far with prefixes
  for (const char32_t character : first) {
    std::size_t diagonal = 0;
    for (std::size_t j = 0; j < second.size(); ++j) {
      const std::size_t above = lengths[j + 1];
      lengths[j + 1] = second[j] == character ? diagonal + 1 : std::max(above, lengths[j]);
      diagonal = above;
    }
  }
  return lengths.back();
}

}  // namespace

int edit_similarity(std::string_view first, std::string_view second) {
  if (first == second) return 100;
  const std::u32string a = code_points(first), b = code_points(second);
  const auto total = static_cast<double>(a.size() + b.size());
  // By way of the distance, since 1 - d / total and 2 L / total part at ties: 1 - 46 / 80 is above 0.425.
  const double distance = total - 2 * static_cast<double>(common_length(a, b));
  return static_cast<int>(std::nearbyint(100 * (1 - distance / total)));
}

namespace {

// Words by numbers that both texts share.
using Sentence = std::vector<int>;
using WordNumbers = std::map<std::u32string, int>;

std::vector<Sentence> sentences_of(std::string_view text, WordNumbers& numbers) {
  const auto number_of = [&](const std::u32string& word) {
    return numbers.try_emplace(word, static_cast<int>(numbers.size())).first->second;
  };
  std::vector<Sentence> sentences;
  const std::u32string characters = code_points(text);
  for (std::size_t at = 0; at <= characters.size();) {
    const std::size_t end = std::min(characters.find(U'.', at), characters.size());
    if (end > at) {
      Sentence sentence;
      for (const auto& word : split_words(std::u32string_view(characters).substr(at, end - at)))
        sentence.push_back(number_of(word));
      if (sentence.empty()) sentence.push_back(number_of({}));  // blank, but one word to the reference
      sentences.push_back(std::move(sentence));
    }
    at = end + 1;
  }
  return sentences;
}

std::set<int> words_of(const std::vector<Sentence>& sentences) {
  std::set<int> words;
  for (const Sentence& sentence : sentences) words.insert(sentence.begin(), sentence.end());
  return words;
}

// Lengths of the longest common subsequences of all prefixes: (|x| + 1) · (|y| + 1), row by row.
std::vector<int> common_lengths(const Sentence& x, const Sentence& y) {
  const std::size_t width = y.size() + 1;
  std::vector<int> lengths((x.size() + 1) * width);
  for (std::size_t i = 1; i <= x.size(); ++i)
    for (std::size_t j = 1; j < width; ++j)
      lengths[i * width + j] = x[i - 1] == y[j - 1]
                                   ? lengths[(i - 1) * width + j - 1] + 1
                                   : std::max(lengths[(i - 1) * width + j], lengths[i * width + j - 1]);
  return lengths;
}

// Adds the words of a longest common subsequence. Of several, the one that drops the end of `y` first.
void add_common_words(const Sentence& x, const Sentence& y, std::set<int>& words) {
  const std::vector<int> lengths = common_lengths(x, y);
  const std::size_t width = y.size() + 1;
  std::size_t i = x.size(), j = y.size();
  while (i > 0 && j > 0) {
    if (x[i - 1] == y[j - 1]) {
      words.insert(x[i - 1]);
      --i, --j;
    } else if (lengths[(i - 1) * width + j] > lengths[i * width + j - 1]) {
      --i;
    } else {
      --j;
    }
  }
}

}  // namespace

double rouge_l(std::string_view prediction, std::string_view reference) {
  WordNumbers numbers;
  const auto predicted = sentences_of(prediction, numbers), expected = sentences_of(reference, numbers);
  if (predicted.empty() || expected.empty()) return 0;
  std::set<int> common;
  for (const Sentence& sentence : expected)
    for (const Sentence& other : predicted) add_common_words(sentence, other, common);
  const auto n_common = static_cast<double>(common.size());
  const double recall = n_common / static_cast<double>(words_of(expected).size());
  const double precision = n_common / static_cast<double>(words_of(predicted).size());
  constexpr double kNever0 = 1e-8;  // as in the reference
  return 2 * (precision * recall / (precision + recall + kNever0));
}

namespace {

std::u32string characters_of(const icu::UnicodeString& text) {
  std::u32string characters;
  for (std::int32_t at = 0; at < text.length(); at = text.moveIndex32(at, 1))
    characters.push_back(static_cast<char32_t>(text.char32At(at)));
  return characters;
}

// The longest runs of characters of which `is_inside` is true.
template <typename Predicate>
std::vector<std::u32string> runs(std::u32string_view text, const Predicate& is_inside) {
  std::vector<std::u32string> found;
  std::u32string run;
  for (const char32_t character : text) {
    if (is_inside(character)) {
      run.push_back(character);
    } else if (!run.empty()) {
      found.push_back(std::move(run));
      run.clear();
    }
  }
  if (!run.empty()) found.push_back(std::move(run));
  return found;
}

}  // namespace

std::u32string code_points(std::string_view text) {
  std::string buffer;
  const std::string_view valid = replace_invalid_utf8(text, buffer);
  std::u32string characters;
  for (std::size_t at = 0; at < valid.size();) characters.push_back(next_code_point(valid, at));
  return characters;
}

std::u32string lowered(std::string_view text) {
  std::string buffer;
  const std::string_view valid = replace_invalid_utf8(text, buffer);
  auto characters = icu::UnicodeString::fromUTF8({valid.data(), static_cast<std::int32_t>(valid.size())});
  return characters_of(characters.toLower(icu::Locale::getRoot()));
}

bool is_space(char32_t character) {
  constexpr char32_t kFileSeparator = 0x1C, kUnitSeparator = 0x1F;
  return u_isUWhiteSpace(static_cast<UChar32>(character)) != 0 ||
         (character >= kFileSeparator && character <= kUnitSeparator);
}

bool is_word_character(char32_t character) {
  constexpr std::uint32_t kWord = U_GC_L_MASK | U_GC_N_MASK;
  return character == U'_' || (U_MASK(u_charType(static_cast<UChar32>(character))) & kWord) != 0;
}

std::vector<std::u32string> split_words(std::u32string_view text) {
  return runs(text, [](char32_t character) { return !is_space(character); });
}

std::vector<std::u32string> find_numbers(std::u32string_view text) {
  return runs(text, [](char32_t character) {
    return u_charType(static_cast<UChar32>(character)) == U_DECIMAL_DIGIT_NUMBER;
  });
}

}  // namespace keyscope::evaluation
