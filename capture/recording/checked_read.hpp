#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "capture/recording/hdf5.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::recording {

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
std::string json_text(const hdf5::Group& group, const std::string& name);

// Tokens of the datasets `text_name` (bytes) and `text_name`_offset: ids that are not negative, offsets that
// ascend over the text.
TokenText read_tokens(const hdf5::Group& group, std::vector<std::int32_t> ids, const std::string& text_name);

inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;

}  // namespace keyscope::recording
