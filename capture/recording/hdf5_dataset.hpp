#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capture/recording/hdf5_node.hpp"

namespace keyscope::recording::hdf5 {

using Shape = std::vector<hsize_t>;

// "(4, 1000, 32)"
std::string format_shape(const Shape& shape);

// Number of elements.
//   throws FileError if it does not fit into 63 bits; `where` names the dataset in the message
std::uint64_t n_elements(const Shape& shape, std::string_view where);

enum class ElementType { kUInt8, kInt32, kInt64, kFloat16, kFloat32, kFloat64, kOther };
std::string_view name_of(ElementType type);

// How a dataset is laid out when it is created.
struct DatasetOptions {
  Shape chunk;      // empty: contiguous
  Shape max_shape;  // empty: as the shape; H5S_UNLIMITED where it may grow
  bool shuffle = false;
  int gzip = 0;                 // 1 to 9; 0: not compressed
  double fill = 0;              // value of elements that nothing wrote
  bool allocate = false;        // all file space is assigned at creation, so that writing moves no metadata
  bool reserved_zeros = false;  // with `allocate`: the caller sees to it that the file reads as zeros there
  std::size_t cache_bytes = 0;  // chunk cache; 0: uncompressed parts of chunks are written straight through
};

// A dataset of numbers, or a list of texts. T is float, double, std::int32_t, std::int64_t or std::uint8_t;
// floats convert to and from float16 where the file has that.
class Dataset : public Node {
 public:
  Dataset() = default;
  Dataset(Handle handle, std::string where);

  const Shape& shape() const { return shape_; }
  ElementType type() const { return type_; }
  std::uint64_t stored_bytes() const;  // in the file, after compression
  bool compressed() const;             // or filtered in another way
  std::string identity() const;        // the same bytes for all names that one dataset of a file goes by

  template <typename T>
  void write(std::span<const T> values) {
    write(values, Shape(shape_.size(), 0), shape_);
  }
  // The hyperslab of `count` elements from `start` on; values in row-major order.
  template <typename T>
  void write(std::span<const T> values, const Shape& start, const Shape& count);
  // Single elements; coordinates: (values.size(), rank), row-major.
  template <typename T>
  void write_points(std::span<const T> values, std::span<const hsize_t> coordinates);

  // Of a list of texts: those from `first` on.
  //   throws InvalidInput where one has a zero byte, or is longer than the list's texts are
  void write_texts(std::span<const std::string> texts, hsize_t first);

  // Takes the Lock for a part at a time, unless the caller holds it, so that others get their turn.
  template <typename T>
  void read(std::span<T> values, const Shape& start, const Shape& count) const;
  template <typename T>
  std::vector<T> read() const {
    std::vector<T> values(n_elements(shape_, where_));
    read(std::span<T>(values), Shape(shape_.size(), 0), shape_);
    return values;
  }

  // Changes the extent of a chunked dataset within its maximum.
  void resize(const Shape& shape);

 private:
  void check_fit(const Shape& start, const Shape& count, std::size_t n_values) const;
  Handle select(const Shape& start, const Shape& count) const;
  hsize_t rows_at_once(std::size_t along, std::uint64_t bytes_per_row) const;
  template <typename T>
  void read_at_once(std::span<T> values, const Shape& start, const Shape& count) const;

  Shape shape_;
  ElementType type_ = ElementType::kOther;
};

// IEEE half precision, little-endian. h5py reads it as float16. Call under a Lock.
Handle make_float16();

// The type as it lies in a file: little-endian. Call under a Lock.
Handle file_type(ElementType type);

// What an HDF5 type is to this project; byte order does not matter. Call under a Lock.
ElementType element_type(hid_t type);

}  // namespace keyscope::recording::hdf5
