#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "app/figures/figure.hpp"
#include "app/figures/token_order.hpp"
#include "capture/recording/hdf5.hpp"
#include "capture/recording/recording_layout.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::figures {

struct FigureFile {
  recording::Origin origin;
  std::vector<Figure> figures;     // as they were written
  std::size_t default_figure = 0;  // the one that NeXus viewers open on
};

// Writes figures as NeXus NXdata groups that open as plots in H5Web, silx and HDFView. Layout below /entry:
//   a figure of one panel is an NXdata group, one of several an NXcollection of NXdata groups;
//   scatter: `x`, `y`, `z`, `token`, `retained` (uint8, the signal), `<series>_x` … for the rest;
//   heatmap: the matrix (signal) with `x`, `y` (cell centres) and `x_edges`, `y_edges`;
//   attribute `keyscope_figure` (JSON): name, view, looks, place in the file, so that read_figures gives the
//   same figures back.
// The file appears under its name when it is complete, not before.
//   replace: whether an existing file may be replaced
//   throws FileError where it exists and may not be replaced, or cannot be written
void write_nexus(const std::filesystem::path& path, const std::vector<Figure>& figures,
                 const recording::Origin& origin, bool replace = false);

// A figure's group in an entry of a file that is being written, beside others.
//   order: its place among them; the first one is what NeXus viewers open on
void add_figure(recording::hdf5::Group& entry, const Figure& figure, std::int64_t order);

// Marks a file as one that read_figures reads: its default entry has figures.
void mark_figure_file(recording::hdf5::Group& root);

// Writes figures one by one, for many of them: at no time is more than one in memory.
class NexusWriter {
 public:
  NexusWriter(const std::filesystem::path& path, const recording::Origin& origin, bool replace);
  ~NexusWriter();  // what was not finished is removed
  NexusWriter(const NexusWriter&) = delete;
  NexusWriter& operator=(const NexusWriter&) = delete;

  void add(const Figure& figure);
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Reads a figure file back: the figures of its default entry, or of "FILE::ENTRY".
//   throws FileError where it is no figure file of this project, or damaged
FigureFile read_figures(const std::filesystem::path& path);

// Whether a path's extension asks for HDF5: .h5, .hdf5 or .nxs.
bool is_nexus_path(const std::filesystem::path& path);

// Whether a readable HDF5 file holds figures of this project and is no recording, or an entry of it was asked
// for that has figures: "FILE::ENTRY".
bool is_figure_file(const std::filesystem::path& path);

// Where a folder of results has its recordings.
inline constexpr const char* kRecordingsFolder = "recordings";

// What a file holds that can be opened by itself, each as "FILE::ENTRY": its recordings, then the figures of
// its default entry. Of a folder, or of one of results, the files of recordings.
//   path: the file, or an entry of it
//   throws FileError where it is no readable HDF5 file, and where a folder has no recording
std::vector<std::string> documents_of(const std::filesystem::path& path);

// The order of a matrix beside it: `token` and `retained`, an entry per row and column, and `linkage`, its
// tree as scipy.cluster.hierarchy has it: a row per merge, of both clusters, height and number of rows.
void write_order(recording::hdf5::Group& group, const TokenOrder& order);

//   n_places: of the matrix
//   throws FileError where a list has another length, or the tree is none, naming the dataset
TokenOrder read_order(const recording::hdf5::Group& group, std::int64_t n_places);

// Gives the places their texts, as far as they are tokens of the prompt.
void name_tokens(TokenOrder& order, const recording::TokenText& prompt);

}  // namespace keyscope::figures
