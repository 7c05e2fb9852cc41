#include "capture/recording/dataset_copy.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "analysis/errors.hpp"

namespace keyscope::recording {
namespace {

using hdf5::Dataset;
using hdf5::ElementType;
using hdf5::Group;
using hdf5::Shape;

constexpr hsize_t kChunkBytes = 1 << 20;
constexpr hsize_t kMatrixChunk = 256;

// Whole rows of one leading index, about a megabyte; matrices in squares.
Shape chunk_of(Shape chunk) {
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
void copy_values(const Dataset& from, Dataset& to, const CopyOptions& options) {
  const Shape& shape = to.shape();
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
      if (options.on_slice) options.on_slice(values.size() * sizeof(T));
    }
  }
}

}  // namespace

Dataset copy_dataset(const Group& from_group, Group& to_group, const std::string& name,
                     const CopyOptions& options) {
  const Dataset from = from_group.open_dataset(name, kChunkBytes, options.shape);
  const Shape shape = options.shape.empty() ? from.shape() : options.shape;
  hdf5::DatasetOptions layout;
  if (!shape.empty()) {
    layout.chunk = chunk_of(shape);
    layout.max_shape = shape.size() == 1 ? Shape{H5S_UNLIMITED} : shape;
    layout.shuffle = options.gzip > 0 && from.type() != ElementType::kUInt8;
    layout.gzip = options.gzip;
    layout.cache_bytes = 2 * kChunkBytes;
  }
  Dataset to = to_group.create_dataset(name, from.type(), shape, layout);
  switch (from.type()) {
    case ElementType::kUInt8:
      copy_values<std::uint8_t>(from, to, options);
      break;
    case ElementType::kInt32:
      copy_values<std::int32_t>(from, to, options);
      break;
    case ElementType::kInt64:
      copy_values<std::int64_t>(from, to, options);
      break;
    case ElementType::kFloat16:
    case ElementType::kFloat32:
      copy_values<float>(from, to, options);
      break;
    case ElementType::kFloat64:
      copy_values<double>(from, to, options);
      break;
    case ElementType::kOther:
      throw FileError(from.where() + ": cannot be copied");
  }
  return to;
}

}  // namespace keyscope::recording
