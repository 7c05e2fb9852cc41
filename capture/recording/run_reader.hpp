#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "capture/recording/hdf5.hpp"
#include "capture/recording/recording.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::recording {

// What a recording says of one run; its layers' datasets are held to it and not read.
//   group: of the run; info: of the recording, but for its runs
//   layer_done: called after every layer
//   throws FileError naming the file and the object where anything is missing, has another type or shape than
//   it should, or contradicts the rest
RunInfo read_run(const hdf5::Group& group, const std::string& name, const RecordingInfo& info,
                 const std::function<void()>& layer_done);

// What a layer's group says of its rows, from a file that may come from elsewhere: its keys, queries, values
// and attention weights. All throw FileError naming file and dataset, what was found and what was expected.

// The heads that the rows are of: those of `kv_heads`, else all.
RecordedHeads read_recorded_heads(const hdf5::Group& layer, int n_kv_heads);

// Whether the layer's mixer is recurrent, so that it has no keys.
bool is_keyless(const hdf5::Group& layer);

// Of a layer with experts: how many it has, and to how many each token goes.
struct ExpertCounts {
  int n = 0, per_token = 0;
  bool operator==(const ExpertCounts&) const = default;
};
ExpertCounts read_expert_counts(const hdf5::Group& layer);

// How keys, queries and values are stored: the coarsest of them.
StoreType read_store(const hdf5::Group& layer);

// The shapes of what `info` says was recorded, for the tokens of `run`.
void check_layer_rows(int index, const hdf5::Group& layer, const RecordingInfo& info, const RunInfo& run);

// Axes along which a dataset may be longer than what is read of it. A recording that was not completed has
// room for blocks that never came; and a capture killed while it cut that room away has it in some datasets
// only.
using Roomy = std::vector<std::size_t>;

// Opens a dataset that must have one of `types` and this shape, but for its roomy axes.
//   throws FileError naming file and dataset, what was found and what was expected
hdf5::Dataset open_dataset(const hdf5::Group& group, const std::string& name,
                           std::initializer_list<hdf5::ElementType> types, const hdf5::Shape& shape,
                           const Roomy& roomy = {});

// The same for a 1-D dataset of any length.
hdf5::Dataset open_list(const hdf5::Group& group, const std::string& name, hdf5::ElementType type);

// An integer attribute that lies in [low, high].
std::int64_t integer_in(const hdf5::Group& group, const std::string& name, std::int64_t low,
                        std::int64_t high);

// A text attribute that holds JSON.
std::string json_in(const hdf5::Group& group, const std::string& name);

// Tokens of the datasets `text_name` (bytes) and `text_name`_offset: ids that are not negative, offsets that
// ascend over the text.
TokenText read_tokens(const hdf5::Group& group, std::vector<std::int32_t> ids, const std::string& text_name);

inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;

}  // namespace keyscope::recording
