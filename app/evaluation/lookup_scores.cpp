#include "app/evaluation/lookup_scores.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "app/evaluation/text_scores.hpp"

namespace keyscope::evaluation {
namespace {

std::u32string joined(const std::vector<std::u32string>& words) {
  std::u32string text;
  for (const std::u32string& word : words) {
    if (!text.empty()) text.push_back(U' ');
    text += word;
  }
  return text;
}

}  // namespace

double lookup_recall(std::string_view output, std::string_view answer) {
  const auto words = normalised_words(answer), found = normalised_words(output);
  if (words.empty() || joined(found).find(joined(words)) != std::u32string::npos) return 1;
  const auto n = std::ranges::count_if(
      words, [&](const std::u32string& word) { return std::ranges::find(found, word) != found.end(); });
  return static_cast<double>(n) / static_cast<double>(words.size());
}

double lookup_exact(std::string_view output, std::string_view answer) {
  const auto words = normalised_words(answer);
  while (!output.empty()) {
    const std::size_t end = std::min(output.find('\n'), output.size());
    const auto line = normalised_words(output.substr(0, end));
    if (!line.empty()) return std::ranges::mismatch(words, line).in1 == words.end() ? 1 : 0;
    output.remove_prefix(std::min(output.size(), end + 1));
  }
  return words.empty() ? 1 : 0;
}

}  // namespace keyscope::evaluation
