#include "capture/recording/dataset_copy.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "capture/recording/recording_layout.hpp"

namespace keyscope::recording {

using hdf5::Dataset;
using hdf5::Group;
using hdf5::Shape;

namespace {

using hdf5::ElementType;

// Whole rows of one leading index, about a megabyte; matrices in squares, tall ones by many short rows.
Shape chunk_of(Shape chunk) {
  if (chunk.size() == 2 && chunk[0] > chunk[1] && chunk[1] > 0)
    return {std::clamp<hsize_t>(kRowChunkBytes / (4 * chunk[1]), 1, chunk[0]), chunk[1]};
  if (chunk.size() == 3 && chunk[1] == chunk[2])
    return {1, std::min(chunk[1], kMatrixChunk), std::min(chunk[2], kMatrixChunk)};
  const hsize_t row = chunk.size() == 3 ? chunk[2] : 1;
  if (chunk.size() > 1) chunk[0] = 1;
  const std::size_t along = chunk.size() == 1 ? 0 : 1;
  chunk[along] = std::clamp<hsize_t>(kRowChunkBytes / (4 * row), 1, std::max<hsize_t>(chunk[along], 1));
  for (hsize_t& extent : chunk) extent = std::max<hsize_t>(extent, 1);
  return chunk;
}

hdf5::DatasetOptions layout_of(const Dataset& from, const Shape& shape, int gzip) {
  hdf5::DatasetOptions layout;
  if (shape.empty()) return layout;
  layout.chunk = chunk_of(shape);
  layout.max_shape = shape.size() == 1 ? Shape{H5S_UNLIMITED} : shape;
  layout.shuffle = gzip > 0 && from.type() != ElementType::kUInt8;
  layout.gzip = gzip;
  layout.cache_bytes = 2 * kRowChunkBytes;
  return layout;
}

bool is_empty(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](hsize_t extent) { return extent == 0; });
}

}  // namespace

DatasetCopy::DatasetCopy(const Dataset& from, Group& to, const std::string& name,
                         const CopyOptions& options) {
  if (from.type() == ElementType::kOther) throw FileError(from.where() + ": cannot be copied");
  const Shape shape = options.shape.empty() ? from.shape() : options.shape;
  const hdf5::DatasetOptions layout = layout_of(from, shape, options.gzip);
  to_ = to.create_dataset(name, from.type(), shape, layout);
  chunk_ = layout.chunk;
  next_.resize(shape.size(), 0);
  done_ = is_empty(shape);
}

Shape DatasetCopy::next_count() const {
  Shape count = chunk_;
  for (std::size_t axis = 0; axis < count.size(); ++axis)
    count[axis] = std::min(count[axis], to_.shape()[axis] - next_[axis]);
  return count;
}

void DatasetCopy::advance() {
  for (std::size_t axis = next_.size(); axis-- > 0;) {
    next_[axis] += chunk_[axis];
    if (next_[axis] < to_.shape()[axis]) return;
    next_[axis] = 0;
  }
  done_ = true;
}

template <typename T>
void DatasetCopy::copy_chunk(const Dataset& from, const Shape& count) {
  std::vector<T> values(hdf5::n_elements(count, from.where()));
  from.read(std::span<T>(values), next_, count);
  to_.write(std::span<const T>(values), next_, count);
}

void DatasetCopy::step(const Dataset& from) {
  if (done_) return;
  const Shape count = next_count();
  switch (to_.type()) {
    case ElementType::kUInt8:
      copy_chunk<std::uint8_t>(from, count);
      break;
    case ElementType::kInt32:
      copy_chunk<std::int32_t>(from, count);
      break;
    case ElementType::kInt64:
      copy_chunk<std::int64_t>(from, count);
      break;
    case ElementType::kFloat16:
    case ElementType::kFloat32:
      copy_chunk<float>(from, count);
      break;
    case ElementType::kFloat64:
    case ElementType::kOther:  // was refused
      copy_chunk<double>(from, count);
      break;
  }
  advance();
}

Dataset copy_dataset(const Group& from_group, Group& to_group, const std::string& name,
                     const CopyOptions& options, const std::function<void()>& after_chunk) {
  const Dataset from = from_group.open_dataset(name, kRowChunkBytes, options.shape);
  DatasetCopy copying(from, to_group, name, options);
  while (!copying.done()) {
    copying.step(from);
    if (after_chunk) after_chunk();
  }
  return std::move(copying.copy());
}

void copy_attributes(const hdf5::Node& from, hdf5::Node& to, std::string_view but) {
  for (const std::string& name : from.attribute_names()) {
    if (name == but || to.has_attribute(name)) continue;  // NX_class, set with the group
    if (const bool list = from.is_list(name); from.is_text(name))
      list ? to.set_texts(name, from.texts(name)) : to.set_text(name, from.text(name));
    else
      list ? to.set_integers(name, from.integers(name)) : to.set_integer(name, from.integer(name));
  }
}

void copy_members(const Group& from, Group& to, const TakeDataset& take, int n_above) {
  constexpr int kMostAbove = 8;  // twice those of a recording; links may make a group its own
  if (n_above > kMostAbove)
    throw FileError(fmt::format("{}: found groups in groups beyond {}, expected a recording's", from.where(),
                                kMostAbove));
  for (const std::string& name : from.names()) {
    if (name.starts_with("partial_attention")) continue;  // the journal has served
    if (from.has_dataset(name)) {
      Dataset copy = take(from, to, name);
      copy_attributes(from.open_dataset(name), copy);
      continue;
    }
    const Group child = from.open_group(name);
    Group copy = to.has_group(name) ? to.open_group(name) : to.create_group(name, child.text("NX_class"));
    copy_attributes(child, copy);
    copy_members(child, copy, take, n_above + 1);
  }
}

}  // namespace keyscope::recording
