#include "capture/recording/hdf5_dataset.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include <Eigen/Core>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace keyscope::recording::hdf5 {

namespace {

// The bits of an IEEE float: a type of the right size may still lay them out in its own way.
bool has_ieee_bits(hid_t type, std::size_t exponent_bits, std::size_t mantissa_bits) {
  std::size_t sign = 0, exponent = 0, exponent_size = 0, mantissa = 0, mantissa_size = 0;
  if (H5Tget_fields(type, &sign, &exponent, &exponent_size, &mantissa, &mantissa_size) < 0) return false;
  return sign == exponent_bits + mantissa_bits && exponent == mantissa_bits &&
         exponent_size == exponent_bits && mantissa == 0 && mantissa_size == mantissa_bits &&
         H5Tget_norm(type) == H5T_NORM_IMPLIED &&
         H5Tget_ebias(type) == (std::size_t{1} << (exponent_bits - 1)) - 1;
}

ElementType float_type(hid_t type) {
  switch (H5Tget_size(type)) {
    case 2:
      return has_ieee_bits(type, 5, 10) ? ElementType::kFloat16 : ElementType::kOther;
    case 4:
      return has_ieee_bits(type, 8, 23) ? ElementType::kFloat32 : ElementType::kOther;
    case 8:
      return has_ieee_bits(type, 11, 52) ? ElementType::kFloat64 : ElementType::kOther;
    default:
      return ElementType::kOther;
  }
}

ElementType integer_type(hid_t type) {
  const std::size_t size = H5Tget_size(type);
  const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
  if (H5Tget_precision(type) != 8 * size) return ElementType::kOther;
  if (size == 1 && !is_signed) return ElementType::kUInt8;
  if (size == 4 && is_signed) return ElementType::kInt32;
  if (size == 8 && is_signed) return ElementType::kInt64;
  return ElementType::kOther;
}

}  // namespace

Handle make_float16() {
  Handle type = own(H5Tcopy(H5T_IEEE_F32LE), H5Tclose, "float16", "make the type");
  // Fields first: the size cannot shrink below them.
  check(H5Tset_fields(type.id(), 15, 10, 5, 0, 10), "float16", "make the type");
  check(H5Tset_size(type.id(), 2), "float16", "make the type");
  check(H5Tset_ebias(type.id(), 15), "float16", "make the type");
  return type;
}

Handle file_type(ElementType type) {
  const auto copy = [](hid_t id) { return own(H5Tcopy(id), H5Tclose, "HDF5", "copy a type"); };
  switch (type) {
    case ElementType::kUInt8:
      return copy(H5T_STD_U8LE);
    case ElementType::kInt32:
      return copy(H5T_STD_I32LE);
    case ElementType::kInt64:
      return copy(H5T_STD_I64LE);
    case ElementType::kFloat16:
      return make_float16();
    case ElementType::kFloat32:
      return copy(H5T_IEEE_F32LE);
    case ElementType::kFloat64:
      return copy(H5T_IEEE_F64LE);
    case ElementType::kOther:
      break;
  }
  throw InvalidInput("HDF5: no such element type to create");
}

ElementType element_type(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return integer_type(type);
    case H5T_FLOAT:
      return float_type(type);
    default:
      return ElementType::kOther;
  }
}

namespace {

template <typename T>
hid_t memory_type() {
  if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
  if constexpr (std::is_same_v<T, double>) return H5T_NATIVE_DOUBLE;
  if constexpr (std::is_same_v<T, std::int32_t>) return H5T_NATIVE_INT32;
  if constexpr (std::is_same_v<T, std::int64_t>) return H5T_NATIVE_INT64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return H5T_NATIVE_UINT8;
}

// Values in memory with the shape that they have in the file: where the two differ, HDF5 maps element by
// element.
Handle memory_space(const Shape& shape, const std::string& where) {
  if (shape.empty()) return own(H5Screate(H5S_SCALAR), H5Sclose, where, "make a dataspace");
  return own(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose, where,
             "make a dataspace");
}

}  // namespace

std::string format_shape(const Shape& shape) { return fmt::format("({})", shown_list(shape)); }

std::uint64_t n_elements(const Shape& shape, std::string_view where) {
  std::uint64_t n = 1;
  for (const hsize_t extent : shape) {
    if (extent != 0 && n > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / extent)
      throw FileError(fmt::format("{}: shape {} is too large", where, format_shape(shape)));
    n *= extent;
  }
  return n;
}

std::string_view name_of(ElementType type) {
  switch (type) {
    case ElementType::kUInt8:
      return "uint8";
    case ElementType::kInt32:
      return "int32";
    case ElementType::kInt64:
      return "int64";
    case ElementType::kFloat16:
      return "float16";
    case ElementType::kFloat32:
      return "float32";
    case ElementType::kFloat64:
      return "float64";
    case ElementType::kOther:
      break;
  }
  return "another type";
}

Dataset::Dataset(Handle handle, std::string where) : Node(std::move(handle), std::move(where)) {
  const Lock lock(where_);
  const Handle space = own(H5Dget_space(id()), H5Sclose, where_, "read its shape");
  if (H5Sget_simple_extent_type(space.id()) == H5S_NULL) throw FileError(where_ + ": the dataset is empty");
  const int rank = check(H5Sget_simple_extent_ndims(space.id()), where_, "read its shape");
  shape_.resize(rank);
  check(H5Sget_simple_extent_dims(space.id(), shape_.data(), nullptr), where_, "read its shape");
  const Handle type = own(H5Dget_type(id()), H5Tclose, where_, "read its type");
  type_ = element_type(type.id());
}

std::uint64_t Dataset::stored_bytes() const {
  const Lock lock(where_);
  return H5Dget_storage_size(id());
}

bool Dataset::compressed() const {
  const Lock lock(where_);
  const Handle properties = own(H5Dget_create_plist(id()), H5Pclose, where_, "read its layout");
  return check(H5Pget_nfilters(properties.id()), where_, "read its filters") > 0;
}

std::string Dataset::identity() const {
  const Lock lock(where_);
  H5O_info_t info;
#if H5_VERSION_GE(1, 12, 0)
  check(H5Oget_info(id(), &info, H5O_INFO_BASIC), where_, "find where it lies");
  return {reinterpret_cast<const char*>(&info.token), sizeof info.token};
#else
  check(H5Oget_info(id(), &info), where_, "find where it lies");
  return {reinterpret_cast<const char*>(&info.addr), sizeof info.addr};
#endif
}

void Dataset::check_fit(const Shape& start, const Shape& count, std::size_t n_values) const {
  if (start.size() != shape_.size() || count.size() != shape_.size() || n_elements(count, where_) != n_values)
    throw InvalidInput(fmt::format("{}: {} values do not fill rows {} of {}", where_, n_values,
                                   format_shape(count), format_shape(shape_)));
}

Handle Dataset::select(const Shape& start, const Shape& count) const {
  Handle space = own(H5Dget_space(id()), H5Sclose, where_, "read its shape");
  if (!shape_.empty())
    check(H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
          where_, "select rows");
  return space;
}

template <typename T>
void Dataset::write(std::span<const T> values, const Shape& start, const Shape& count) {
  if (values.empty()) return;
  check_fit(start, count, values.size());
  const Lock lock;
  const Handle space = select(start, count);
  const Handle memory = memory_space(count, where_);
  if constexpr (std::is_same_v<T, float>) {
    // HDF5's own conversion to half precision is ten times slower.
    if (type_ == ElementType::kFloat16) {
      std::vector<Eigen::half> halves(values.begin(), values.end());
      const Handle type = make_float16();
      check(H5Dwrite(id(), type.id(), memory.id(), space.id(), H5P_DEFAULT, halves.data()), where_, "write");
      return;
    }
  }
  check(H5Dwrite(id(), memory_type<T>(), memory.id(), space.id(), H5P_DEFAULT, values.data()), where_,
        "write");
}

template <typename T>
void Dataset::write_points(std::span<const T> values, std::span<const hsize_t> coordinates) {
  if (values.empty()) return;
  if (coordinates.size() != values.size() * shape_.size())
    throw InvalidInput(
        fmt::format("{}: {} values at {} coordinates", where_, values.size(), coordinates.size()));
  const Lock lock;
  const Handle space = own(H5Dget_space(id()), H5Sclose, where_, "read its shape");
  check(H5Sselect_elements(space.id(), H5S_SELECT_SET, values.size(), coordinates.data()), where_,
        "select elements");
  const Handle memory = memory_space({values.size()}, where_);
  check(H5Dwrite(id(), memory_type<T>(), memory.id(), space.id(), H5P_DEFAULT, values.data()), where_,
        "write");
}

void Dataset::write_texts(std::span<const std::string> texts, hsize_t first) {
  if (texts.empty()) return;
  const Lock lock;
  const Handle type = own(H5Dget_type(id()), H5Tclose, where_, "read its type");
  const std::size_t width = H5Tget_size(type.id());
  std::string bytes(width * texts.size(), '\0');
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() > width || texts[i].find('\0') != std::string::npos)
      throw InvalidInput(fmt::format("{}: no text of up to {} bytes without a zero byte: {}", where_, width,
                                     shown(texts[i])));
    texts[i].copy(&bytes[i * width], width);
  }
  const Shape count{texts.size()};
  const Handle space = select({first}, count);
  const Handle memory = memory_space(count, where_);
  check(H5Dwrite(id(), type.id(), memory.id(), space.id(), H5P_DEFAULT, bytes.data()), where_, "write");
}

// As many rows as a megabyte holds, and whole chunks of them, so that none is decompressed twice.
hsize_t Dataset::rows_at_once(std::size_t along, std::uint64_t bytes_per_row) const {
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 20U;
  const hsize_t n_rows = std::max<hsize_t>(1, kBytes / bytes_per_row);
  const Lock lock(where_);
  const Handle properties = own(H5Dget_create_plist(id()), H5Pclose, where_, "read its layout");
  if (H5Pget_layout(properties.id()) != H5D_CHUNKED) return n_rows;
  Shape chunk(shape_.size());
  check(H5Pget_chunk(properties.id(), static_cast<int>(chunk.size()), chunk.data()), where_,
        "read its layout");
  return (n_rows + chunk[along] - 1) / chunk[along] * chunk[along];
}

template <typename T>
void Dataset::read(std::span<T> values, const Shape& start, const Shape& count) const {
  if (values.empty()) return;
  check_fit(start, count, values.size());
  std::size_t along = 0;  // the first dimension that has anything to divide
  while (along < count.size() && count[along] == 1) ++along;
  if (along == count.size()) return read_at_once(values, start, count);
  const std::uint64_t row_size = values.size() / count[along];
  const hsize_t step = rows_at_once(along, row_size * sizeof(T));
  Shape part_start = start;
  Shape part_count = count;
  for (hsize_t done = 0; done < count[along]; done += part_count[along]) {
    part_start[along] = start[along] + done;
    part_count[along] = std::min(count[along] - done, step - part_start[along] % step);
    read_at_once(values.subspan(done * row_size, part_count[along] * row_size), part_start, part_count);
  }
}

template <typename T>
void Dataset::read_at_once(std::span<T> values, const Shape& start, const Shape& count) const {
  const Lock lock(where_);
  const Handle space = select(start, count);
  const Handle memory = memory_space(count, where_);
  if constexpr (std::is_same_v<T, float>) {
    if (type_ == ElementType::kFloat16) {
      std::vector<Eigen::half> halves(values.size());
      const Handle type = make_float16();
      check(H5Dread(id(), type.id(), memory.id(), space.id(), H5P_DEFAULT, halves.data()), where_, "read");
      std::copy(halves.begin(), halves.end(), values.begin());
      return;
    }
  }
  check(H5Dread(id(), memory_type<T>(), memory.id(), space.id(), H5P_DEFAULT, values.data()), where_, "read");
}

void Dataset::resize(const Shape& shape) {
  if (shape == shape_) return;
  const Lock lock;
  check(H5Dset_extent(id(), shape.data()), where_, "resize to " + format_shape(shape));
  shape_ = shape;
}

#define KEYSCOPE_INSTANTIATE(T)                                                         \
  template void Dataset::write<T>(std::span<const T>, const Shape&, const Shape&);      \
  template void Dataset::write_points<T>(std::span<const T>, std::span<const hsize_t>); \
  template void Dataset::read<T>(std::span<T>, const Shape&, const Shape&) const;
KEYSCOPE_INSTANTIATE(float)
KEYSCOPE_INSTANTIATE(double)
KEYSCOPE_INSTANTIATE(std::int32_t)
KEYSCOPE_INSTANTIATE(std::int64_t)
KEYSCOPE_INSTANTIATE(std::uint8_t)
#undef KEYSCOPE_INSTANTIATE

}  // namespace keyscope::recording::hdf5
