#pragma once

#include <span>
#include <string_view>

namespace keyscope::figures {

// Where a key's point lies in a picture of the key space.
enum class Projection {
  kPca,    // in the plane of the first two principal components
  kPca3d,  // in the space of the first three
  kAnchor  // cosine to the anchor along x, norm along y
};

// What the colour of a key's point says.
enum class KeyColour { kDecision, kPosition, kAttention, kScore, kMargin, kTokenClass };

// How the key space is shown: the same choice in the window and on the command line.
struct KeyspaceLook {
  Projection projection = Projection::kPca;
  KeyColour colour = KeyColour::kDecision;
  bool queries = false;  // all queries of the group as well
  bool operator==(const KeyspaceLook&) const = default;
};

// A choice by its name on the command line, in words, and what it means in one line.
struct ProjectionChoice {
  Projection projection;
  std::string_view id, label, meaning;
};
struct KeyColourChoice {
  KeyColour colour;
  std::string_view id, label, meaning;
};
std::span<const ProjectionChoice> projection_choices();
std::span<const KeyColourChoice> key_colour_choices();
std::string_view id_of(Projection projection);
std::string_view id_of(KeyColour colour);

//   throws UsageError on another name, listing those that there are
Projection parse_projection(std::string_view name);
KeyColour parse_key_colour(std::string_view name);

}  // namespace keyscope::figures
