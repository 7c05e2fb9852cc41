#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "capture/recording/hdf5.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::recording {

inline constexpr std::int64_t kFormat = 1;  // attribute `keyscope_format` of the root
inline constexpr std::int64_t kTopLogits = 10;

inline constexpr hsize_t kRowChunkBytes =
    1 << 20;                                  // of a dataset of rows, and what is kept of it while it is read
inline constexpr hsize_t kMatrixChunk = 256;  // edge of a matrix' chunks
inline constexpr hsize_t kListChunk = 4096;   // elements of a list's
inline constexpr hsize_t kTraceChunk = 8192;  // tokens of a trace's
inline constexpr int kGzip = 4;               // level at which what changes no more is compressed

// A count as HDF5 takes it.
inline hsize_t size(std::int64_t n) { return static_cast<hsize_t>(n); }

// "layer_07"
std::string layer_group_name(int layer);

// Attributes of a layer's group: 1 where the layer's mixer is recurrent, so that it has no keys; and how many
// experts it has, where it has some.
inline constexpr const char* kKeyless = "keyless";
inline constexpr const char* kNExperts = "n_experts";
// The layer whose keys and values a layer attends to, where these are not its own: of its group, whose keys
// and values are then those of the first recorded layer that shares them; and by layer, of the model's. Of
// the model's too are the numbers and sizes of its layers' heads, where they differ.
inline constexpr const char* kKeysOf = "keys_of";
inline constexpr const char* kLayerKvHeads = "layer_n_kv_heads";
inline constexpr const char* kLayerHeadDim = "layer_head_dim";

// Lays out everything a recording will ever hold, at its full size: groups, attributes, datasets. From then
// on a capture only overwrites raw data, which moves no metadata, so that a kill at any moment leaves a file
// that opens. For this, what a capture overwrites is not compressed (a compressed chunk that changes its size
// is allocated anew), and all its space is assigned here; only the prompt's tokens, which never change, are.
//   the file must read as zeros where nothing was written: see `reserve_space`
void create_layout(hdf5::File& file, const RecordPlan& plan);

// The sizes of a run.
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

// The part of a layer's dataset that belongs to its first n_tokens.
//   shape: the dataset's, which may have room for more
hdf5::Shape shape_of_tokens(const std::string& dataset, hdf5::Shape shape, std::int64_t n_tokens);

// Cuts a run's datasets to its final sizes: that generation ends early is known only when it has. This moves
// metadata, and is done for all runs together when everything recorded lies on the disk.
void cut_run(hdf5::Group& run, const RecordPlan& plan, const RunExtent& extent);

// Bytes kept free for the text of each generated id.
inline constexpr std::int64_t kTextBytesPerToken = 256;

// Which model read which prompt, and how: what recordings and figure files both say.
struct Origin {
  Provenance provenance;
  ModelInfo model;
  TokenText prompt;
};

// Creates `provenance`, `model` and `tokens` below `entry`.
void write_origin(hdf5::Group& entry, const Origin& origin);

// The prompt may be empty: figures of benchmarks on random keys have none.
//   throws FileError naming file and attribute or dataset, what was found and what was expected
Origin read_origin(const hdf5::Group& entry);

// Datasets of keys, queries and values as a StoreType has them. Of bfloat16 the file says so: such a dataset
// is of float32 and has the text attribute `rounded_to`, "bfloat16".

hdf5::Dataset create_row_dataset(hdf5::Group& group, const std::string& name, StoreType store,
                                 const hdf5::Shape& shape, const hdf5::DatasetOptions& options);

// Marks a float32 dataset whose values are rounded already, a copy say; nothing to do for other types.
void mark_store(hdf5::Dataset& dataset, StoreType store);

// How a dataset from anywhere lies in its file.
//   throws FileError on a `rounded_to` that is not known, or on another type than float32
StoreType store_of(const hdf5::Dataset& dataset);

// The hyperslab of `count` rows from `start` on, rounded to nearest, ties to even.
void store_rows(hdf5::Dataset& dataset, StoreType store, std::span<const float> rows,
                const hdf5::Shape& start, const hdf5::Shape& count);

// Values read from a dataset against what it says of itself.
//   throws FileError where one of them is no bfloat16
void check_rounded(const hdf5::Dataset& dataset, std::span<const float> values);

}  // namespace keyscope::recording
