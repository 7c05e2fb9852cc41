#include "app/evaluation/rouge_l.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "app/evaluation/plain_text.hpp"

namespace keyscope::evaluation {
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

}  // namespace keyscope::evaluation
