#include "capture/recording/checked_read.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"

namespace keyscope::recording {
namespace {

[[noreturn]] void refuse(const hdf5::Dataset& found, const std::string& expected) {
  throw FileError(fmt::format("{}: found {} {}; expected {}", found.where(), hdf5::name_of(found.type()),
                              hdf5::format_shape(found.shape()), expected));
}

}  // namespace

hdf5::Dataset open_dataset(const hdf5::Group& group, const std::string& name,
                           std::initializer_list<hdf5::ElementType> types, const hdf5::Shape& shape,
                           const Roomy& roomy) {
  hdf5::Dataset dataset = group.open_dataset(name, 0, shape);
  hdf5::Shape found = dataset.shape();
  for (const std::size_t axis : roomy)
    if (axis < std::min(found.size(), shape.size())) found[axis] = std::min(found[axis], shape[axis]);
  if (std::find(types.begin(), types.end(), dataset.type()) == types.end() || found != shape)
    refuse(dataset, fmt::format("{} {}{}", hdf5::name_of(*types.begin()), hdf5::format_shape(shape),
                                roomy.empty() ? "" : " or more tokens"));
  return dataset;
}

hdf5::Dataset open_list(const hdf5::Group& group, const std::string& name, hdf5::ElementType type) {
  hdf5::Dataset dataset = group.open_dataset(name);
  if (dataset.type() != type || dataset.shape().size() != 1)
    refuse(dataset, fmt::format("{} in one dimension", hdf5::name_of(type)));
  return dataset;
}

std::int64_t integer_in(const hdf5::Group& group, const std::string& name, std::int64_t low,
                        std::int64_t high) {
  const std::int64_t value = group.integer(name);
  if (value < low || value > high)
    throw FileError(
        fmt::format("{}: attribute '{}' is {}; expected {} to {}", group.where(), name, value, low, high));
  return value;
}

std::string json_text(const hdf5::Group& group, const std::string& name) {
  std::string text = group.text(name);
  if (!nlohmann::json::accept(text))
    throw FileError(fmt::format("{}: attribute '{}' is no JSON", group.where(), name));
  return text;
}

TokenText read_tokens(const hdf5::Group& group, std::vector<std::int32_t> ids, const std::string& text_name) {
  const hdf5::Dataset text = open_list(group, text_name, hdf5::ElementType::kUInt8);
  const hdf5::Dataset offset =
      open_dataset(group, text_name + "_offset", {hdf5::ElementType::kInt64}, {ids.size() + 1});
  const auto bytes = text.read<std::uint8_t>();
  TokenText tokens{std::move(ids), std::string(bytes.begin(), bytes.end()), offset.read<std::int64_t>()};
  const auto negative =
      std::find_if(tokens.id.begin(), tokens.id.end(), [](std::int32_t id) { return id < 0; });
  if (negative != tokens.id.end())
    throw FileError(fmt::format("{}: token {} has id {}; ids are not negative", group.where(),
                                negative - tokens.id.begin(), *negative));
  if (tokens.offset.front() != 0 || tokens.offset.back() != static_cast<std::int64_t>(tokens.text.size()) ||
      !std::is_sorted(tokens.offset.begin(), tokens.offset.end()))
    throw FileError(fmt::format("{}: offsets must ascend from 0 to {}", offset.where(), tokens.text.size()));
  return tokens;
}

}  // namespace keyscope::recording
