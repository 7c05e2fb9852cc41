#include "app/evaluation/edit_similarity.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "app/evaluation/plain_text.hpp"

namespace keyscope::evaluation {
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

}  // namespace keyscope::evaluation
