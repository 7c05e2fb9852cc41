#include "app/session/fuzzy_match.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace keyscope::session {
namespace {

constexpr int kNone = std::numeric_limits<int>::min() / 2;
// What a letter counts, alone and where it stands, and a word that the text begins with.
constexpr int kLetter = 4, kTogether = 6, kWordStart = 8, kTextStart = 16;
constexpr int kPerSkipped = 1;  // off for every letter of the text that is not used

bool is_letter(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || byte >= 0x80U;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

// The best score of one word: ending[j] is that of its first letters with the last of them at text[j].
int word_score(std::string_view word, const std::string& text) {
  std::vector<int> ending(text.size(), kNone);
  for (std::size_t i = 0; i < word.size(); ++i) {
    std::vector<int> next(text.size(), kNone);
    int before = i == 0 ? 0 : kNone;  // the best of ending[0 … j - 2], or an empty word
    for (std::size_t j = 0; j < text.size(); ++j) {
      if (i > 0 && j > 1) before = std::max(before, ending[j - 2]);
      if (text[j] != word[i]) continue;
      const bool starts = j == 0 || !is_letter(text[j - 1]);
      int best = before + (starts ? kWordStart : 0);
      if (i > 0 && j > 0) best = std::max(best, ending[j - 1] + kTogether);
      if (best > kNone / 2) next[j] = best + kLetter;
    }
    ending = std::move(next);
  }
  return ending.empty() ? kNone : *std::ranges::max_element(ending);
}

}  // namespace

std::optional<int> fuzzy_score(std::string_view wanted, std::string_view text) {
  const std::string where = lower(text);
  const std::string what = lower(wanted);
  int score = -kPerSkipped * static_cast<int>(where.size());
  for (std::size_t at = 0; at < what.size();) {
    const std::size_t first = what.find_first_not_of(' ', at);
    if (first == std::string::npos) break;
    const std::size_t end = std::min(what.find(' ', first), what.size());
    const std::string_view word = std::string_view(what).substr(first, end - first);
    const int fit = word_score(word, where);
    if (fit <= kNone / 2) return std::nullopt;
    score += fit + (where.starts_with(word) ? kTextStart : 0);
    at = end;
  }
  return score;
}

}  // namespace keyscope::session
