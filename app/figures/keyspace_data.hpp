#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <Eigen/Core>

#include "analysis/matrix_view.hpp"
#include "app/figures/figure.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

inline constexpr std::string_view kTopKeysSeries =
    "top_keys";  // the series of circles about what scores highest

// The principal axes that one head's keys are shown in.
struct KeyspaceBasis {
  int run = 0;  // whose keys and queries it was fitted on
  int layer = 0;
  int kv_head = 0;
  bool with_queries = false;      // false: queries were not recorded, keys alone
  std::int64_t n_tokens = 0;      // of the prompt, that it was fitted on
  Eigen::VectorXd mean;           // (head_dim) joint mean
  RowMatrixD axes;                // (head_dim, 3) orthonormal columns, largest variance first; zero past rank
  std::vector<double> explained;  // (3) share of the total variance along each axis; NaN without variance
};

// Fits the axes on the prompt's keys, and all queries of the KV head's group if recorded, of the `none` run
// (else of the first run), so that points stand still when block or policy changes: Fig. 4, 5, 8-11 of the
// paper. Over no tokens at all the axes are zero.
//   throws UsageError on a layer or head that is not there, FileError when keys were not recorded
KeyspaceBasis fit_keyspace_basis(const recording::Recording& recording, int layer, int kv_head);

// Prompt tokens that axes can be fitted on now: fewer than there are while a recording grows.
std::int64_t tokens_to_fit(const recording::RecordingInfo& info);

// Nearly the same axes from a sixteenth of the keys and queries, spread over the prompt in stretches: in a
// fraction of the time, where all of them are many.
//   throws as fit_keyspace_basis
KeyspaceBasis sketch_keyspace_basis(const recording::Recording& recording, int layer, int kv_head);

// Coordinates of rows in the basis: (n, components), components 1 to 3.
//   rows: (n, head_dim)
RowMatrixF project_rows(const KeyspaceBasis& basis, const MatrixView& rows, int components);

// "PC 1 (43.2 %)", with the share of the variance; component from 0.
std::string component_label(const KeyspaceBasis& basis, int component);

// Where a key's point lies in a picture of the key space.
enum class Projection {
  kPca,    // in the plane of the first two principal components
  kPca13,  // of the first and the third
  kPca23,  // of the second and the third
  kPca3d,  // in the space of the first three
  kAnchor  // cosine to the anchor along x, norm along y
};

// What the colour of a key's point says.
enum class KeyColour { kDecision, kPosition, kAttention, kScore, kMargin, kTokenClass, kKept };

// How keys are drawn: one by one, or counted in hexagons; by default these where there are many.
enum class KeyDensity { kAuto, kPoints, kHexagons };
inline constexpr std::int64_t kManyKeys = 5000;

// How the key space is shown: the same choice in the window and on the command line.
struct KeyspaceLook {
  Projection projection = Projection::kPca;
  KeyColour colour = KeyColour::kDecision;
  bool queries = false;  // all queries of the group as well
  int reference = -1;    // for kKept: the other run, an index; -1: as other_run has it
  KeyDensity density = KeyDensity::kAuto;
  bool counts(std::int64_t n_keys) const;  // them in hexagons
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
KeyDensity parse_density(std::string_view name);
std::string_view id_of(KeyDensity density);

// How many coordinates a point has: 3 in space, else 2. Which columns of placed rows they are, and how many
// columns these have at least.
int dimensions_of(Projection projection);
std::span<const int> axes_of(Projection projection);
int columns_of(Projection projection);

// Where rows lie against an anchor: (n_rows, 2) of cosine and norm. A row or anchor of norm zero has cosine
// 0.
//   rows: (n_rows, head_dim); anchor: (head_dim)
//   source: KeyDiff (arXiv 2504.15364), Section 4: a key's score is the first coordinate, turned round
RowMatrixF anchor_coordinates(const MatrixView& rows, const Eigen::VectorXd& anchor);

// Coordinates of rows of one head, keys or queries: (n_rows, columns_of(projection)).
//   anchor: (head_dim) the mean of the keys seen by the end of the block. Principal components do not ask
//   for it, so there points stand still from block to block; in the view against the anchor they move with
//   it.
RowMatrixF place_rows(Projection projection, const KeyspaceBasis& basis, const Eigen::VectorXd& anchor,
                      const MatrixView& rows);

// Names the axes, and says whether a unit is as long on all of them.
void set_axes(Panel& panel, Projection projection, const KeyspaceBasis& basis);

// One head of one run at the end of a block.
struct HeadAtBlock {
  int run = 0;
  int layer = 0;
  int kv_head = 0;
  std::int64_t block = -1;
  std::int64_t n_seen = 0;
  int reference = -1;  // the run that kKept compares with
};

// The run that another one is compared with: `wanted` where it is one, else the last other run that evicts,
// else any other; -1 where there is none.
int other_run(const recording::RecordingInfo& info, int run, int wanted = -1);

// What keys are coloured by, and the scale to read it on.
struct KeyValues {
  std::vector<float> values;  // (n_seen); NaN where a key has none; empty: the colour is the decision's
  ColourScale scale;
};

// Why keys of a run cannot be coloured so: what the recording does not hold for it. Empty where they can.
std::string colour_refusal(const recording::RecordingInfo& info, int run, KeyColour colour);

// Values to colour keys by.
//   position: of the token. attention: received, of prompt tokens, in units of one query's attention.
//   score: what the run's policy gives the rows that it had before it evicted at the end of this block; of
//   `none`, which ranks nothing, KeyDiff's. margin: of those evicted by then. class: a TokenClass each. kept:
//   by both runs, by this one alone, by the reference alone, or by neither, where each had seen as many
//   tokens. keys: (n_seen, head_dim); trace: of the same head throws UsageError as colour_refusal says, and
//   FileError as the recording does
KeyValues key_values(const recording::Recording& recording, const recording::RecordingInfo& info,
                     const HeadAtBlock& head, KeyColour colour, const MatrixView& keys,
                     const recording::HeadTrace& trace);

// "12 of 40 keys have a value, the others are grey"; empty where all have one or the colour is the
// decision's.
std::string values_note(const KeyValues& colours);

}  // namespace keyscope::figures
