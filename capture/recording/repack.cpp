#include "capture/recording/repack.hpp"

#include <algorithm>
#include <cstdio>
#include <system_error>

#include <fmt/format.h>

#include "analysis/errors.hpp"
#include "capture/recording/hdf5.hpp"
#include "capture/recording/part_file.hpp"

namespace keyscope::recording {
namespace {

using hdf5::Dataset;
using hdf5::ElementType;
using hdf5::Group;
using hdf5::Shape;

constexpr int kGzip = 4;
constexpr hsize_t kChunkBytes = 1 << 20;
constexpr hsize_t kMatrixChunk = 256;

void copy_attributes(const hdf5::Node& from, hdf5::Node& to) {
  for (const std::string& name : from.attribute_names()) {
    if (to.has_attribute(name)) continue;  // NX_class, set with the group
    if (from.is_text(name))
      to.set_text(name, from.text(name));
    else
      to.set_integer(name, from.integer(name));
  }
}

// Whole rows of one leading index, about a megabyte; matrices in squares.
Shape chunk_of(const Dataset& dataset) {
  Shape chunk = dataset.shape();
  if (chunk.size() == 3 && chunk[1] == chunk[2])
    return {1, std::min(chunk[1], kMatrixChunk), std::min(chunk[2], kMatrixChunk)};
  const hsize_t row = chunk.size() == 3 ? chunk[2] : 1;
  if (chunk.size() > 1) chunk[0] = 1;
  const std::size_t along = chunk.size() == 1 ? 0 : 1;
  chunk[along] = std::clamp<hsize_t>(kChunkBytes / (4 * row), 1, std::max<hsize_t>(chunk[along], 1));
  for (hsize_t& extent : chunk) extent = std::max<hsize_t>(extent, 1);
  return chunk;
}

template <typename T>
void copy_values(const Dataset& from, Dataset& to) {
  const Shape& shape = from.shape();
  if (shape.empty() || shape[0] == 0) {
    if (shape.empty()) to.write(std::span<const T>(from.read<T>()));
    return;
  }
  // One leading index at a time, in slices of some chunks: memory stays bounded.
  const bool list = shape.size() == 1;
  const std::size_t along = list ? 0 : 1;
  const hsize_t row = shape.size() == 3 ? shape[2] : 1;
  const hsize_t step = std::max<hsize_t>(16 * kChunkBytes / sizeof(T) / row, 1);
  for (hsize_t head = 0; head < (list ? 1 : shape[0]); ++head) {
    for (hsize_t first = 0; first < shape[along]; first += step) {
      Shape start(shape.size(), 0), count = shape;
      if (!list) start[0] = head, count[0] = 1;
      start[along] = first;
      count[along] = std::min(step, shape[along] - first);
      std::vector<T> values(hdf5::n_elements(count, from.where()));
      from.read(std::span<T>(values), start, count);
      to.write(std::span<const T>(values), start, count);
    }
  }
}

void copy_dataset(const Group& from_group, Group& to_group, const std::string& name) {
  const Dataset from = from_group.open_dataset(name, kChunkBytes);
  hdf5::DatasetOptions options;
  if (!from.shape().empty()) {
    options.chunk = chunk_of(from);
    options.max_shape = from.shape().size() == 1 ? Shape{H5S_UNLIMITED} : from.shape();
    options.shuffle = from.type() != ElementType::kUInt8;
    options.gzip = kGzip;
    options.cache_bytes = 2 * kChunkBytes;
  }
  Dataset to = to_group.create_dataset(name, from.type(), from.shape(), options);
  copy_attributes(from, to);
  switch (from.type()) {
    case ElementType::kUInt8:
      return copy_values<std::uint8_t>(from, to);
    case ElementType::kInt32:
      return copy_values<std::int32_t>(from, to);
    case ElementType::kInt64:
      return copy_values<std::int64_t>(from, to);
    case ElementType::kFloat16:
    case ElementType::kFloat32:
      return copy_values<float>(from, to);
    case ElementType::kFloat64:
      return copy_values<double>(from, to);
    case ElementType::kOther:
      break;
  }
  throw FileError(from.where() + ": cannot be copied");
}

void copy_members(const Group& from, Group& to) {
  for (const std::string& name : from.names()) {
    if (name.starts_with("partial_attention")) continue;  // the journal has served
    if (from.has_dataset(name)) {
      copy_dataset(from, to, name);
      continue;
    }
    const Group child = from.open_group(name);
    Group copy = to.create_group(name, child.text("NX_class"));
    copy_attributes(child, copy);
    copy_members(child, copy);
  }
}

void write_copy(const std::filesystem::path& from_path, const std::filesystem::path& to_path) {
  const hdf5::File from = hdf5::File::open(from_path);
  hdf5::File to = hdf5::File::create(to_path);
  hdf5::Group root = to.root();
  copy_attributes(from.root(), root);
  copy_members(from.root(), root);
  to.flush();
  to.close();
}

}  // namespace

void repack(const std::filesystem::path& path) {
  const std::filesystem::path packed = path.string() + ".packing";
  std::error_code error;
  std::filesystem::remove(packed, error);
  try {
    write_copy(path, packed);
    sync_path(packed);
    std::filesystem::rename(packed, path);
  } catch (const std::filesystem::filesystem_error& failure) {
    std::filesystem::remove(packed, error);
    throw FileError(
        fmt::format("{}: cannot replace it by its compressed copy: {}", path.string(), failure.what()));
  } catch (...) {
    std::filesystem::remove(packed, error);
    throw;
  }
}

}  // namespace keyscope::recording
