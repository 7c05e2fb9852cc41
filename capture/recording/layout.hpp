#pragma once

#include <cstdint>
#include <string>

#include "capture/recording/hdf5.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::recording {

inline constexpr std::int64_t kFormat = 1;  // attribute `keyscope_format` of the root
inline constexpr std::int64_t kTopLogits = 10;

// "layer_07"
std::string layer_group_name(int layer);

// Lays out everything a recording will ever hold, at its full size: groups, attributes, datasets. From then
// on a capture only overwrites raw data, which moves no metadata, so that a kill at any moment leaves a file
// that opens. For this, what a capture overwrites is not compressed (a compressed chunk that changes its size
// is allocated anew), and all its space is assigned here; only the prompt's tokens, which never change, are.
//   the file must read as zeros where nothing was written: see `reserve_space`
void create_layout(hdf5::File& file, const RecordPlan& plan);

// What a run came to.
struct RunExtent {
  std::int64_t n_tokens = 0;  // that passed through the model, or would have in a prompt read to its end
  std::int64_t n_blocks = 0;
  std::int64_t n_generated = 0;
  std::int64_t n_text_bytes = 0;
  std::int64_t n_top = 0;
  std::int64_t n_scored = 0;
  std::int64_t n_layers = 0;  // read to the prompt's end, where a recording grows layer by layer
  std::string late_text;      // the generated text, if it had no room when it came
};

// Cuts a run's datasets to what it came to: that generation ends early is known only when it has. This moves
// metadata, and is done for all runs together when everything recorded lies on the disk.
void cut_run(hdf5::Group& run, const RecordPlan& plan, const RunExtent& extent);

// Bytes kept free for the text of each generated id.
inline constexpr std::int64_t kTextBytesPerToken = 256;

}  // namespace keyscope::recording
