#include "app/figures/keyspace_look.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.hpp"

namespace keyscope::figures {
namespace {

constexpr std::array kProjections{
    ProjectionChoice{Projection::kPca, "pca", "PCA", "the plane of the first two principal components"},
    ProjectionChoice{Projection::kPca3d, "pca3d", "PCA, 3D",
                     "the space of the first three principal components"},
    ProjectionChoice{Projection::kAnchor, "anchor", "Anchor",
                     "cosine to the mean of the keys seen so far, against the key's norm"},
};

constexpr std::array kColours{
    KeyColourChoice{KeyColour::kDecision, "decision", "Decision", "retained or evicted"},
    KeyColourChoice{KeyColour::kPosition, "position", "Position", "the token's place in the text"},
    KeyColourChoice{KeyColour::kAttention, "attention", "Attention received",
                    "sum of weights over the prompt's queries, mean over the group"},
    KeyColourChoice{KeyColour::kScore, "score", "Policy's score",
                    "what the run's policy ranks the rows by at the end of this block"},
    KeyColourChoice{KeyColour::kMargin, "margin", "Margin at eviction",
                    "the lowest score that was kept, minus this row's, when it was evicted"},
    KeyColourChoice{KeyColour::kTokenClass, "class", "Token class",
                    "letters, digits, punctuation, space, newline or special, by the token's text"},
};

template <typename Choices>
const auto& find_choice(const Choices& choices, std::string_view name, const char* what) {
  const auto found = std::ranges::find_if(choices, [&](const auto& choice) { return choice.id == name; });
  if (found != choices.end()) return *found;
  std::vector<std::string_view> ids;
  for (const auto& choice : choices) ids.push_back(choice.id);
  throw UsageError(fmt::format("there is no {} '{}'; expected one of {}", what, name, fmt::join(ids, ", ")));
}

}  // namespace

std::span<const ProjectionChoice> projection_choices() { return kProjections; }
std::span<const KeyColourChoice> key_colour_choices() { return kColours; }

std::string_view id_of(Projection projection) {
  return std::ranges::find(kProjections, projection, &ProjectionChoice::projection)->id;
}
std::string_view id_of(KeyColour colour) {
  return std::ranges::find(kColours, colour, &KeyColourChoice::colour)->id;
}

Projection parse_projection(std::string_view name) {
  return find_choice(kProjections, name, "projection").projection;
}
KeyColour parse_key_colour(std::string_view name) { return find_choice(kColours, name, "colour").colour; }

}  // namespace keyscope::figures
