#include "capture/recording/hdf5_dataset.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include <Eigen/Core>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.hpp"

namespace keyscope::recording {

void FairMutex::lock() {
  const std::thread::id me = std::this_thread::get_id();
  if (owner_ != me) {
    std::unique_lock gate(gate_);
    const std::uint64_t turn = n_came_++;
    next_turn_.wait(gate, [&] { return n_left_ == turn; });
    owner_ = me;
  }
  ++depth_;
}

void FairMutex::unlock() {
  if (--depth_ > 0) return;
  {
    const std::lock_guard gate(gate_);
    owner_ = std::thread::id();
    ++n_left_;
  }
  next_turn_.notify_all();
}

}  // namespace keyscope::recording

namespace keyscope::recording::hdf5 {

namespace {

FairMutex& library_mutex() {
  // Never destroyed: HDF5 identifiers held by static objects are released after it would have been.
  static auto* mutex = new FairMutex;
  return *mutex;
}

herr_t keep_innermost(unsigned depth, const H5E_error2_t* error, void* text) {
  if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(text) = error->desc;
  return 0;
}

// What went wrong at the bottom of the error stack; where the operating system has spoken, its words alone.
std::string last_error() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &text);
  H5Eclear2(H5E_DEFAULT);
  constexpr std::string_view kSystem = "error message = '";
  if (const auto begin = text.find(kSystem); begin != std::string::npos) {
    const auto first = begin + kSystem.size();
    return text.substr(first, text.find('\'', first) - first);
  }
  return text.empty() ? "unknown HDF5 error" : text;
}

}  // namespace

Lock::Lock() : lock_(library_mutex()) {
  thread_local const bool silenced = [] {
    // The error stack, and with it the switch for printing it, belongs to the thread.
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    // No file may make this process load a filter plug-in.
    H5PLset_loading_state(0);
    return true;
  }();
  static_cast<void>(silenced);
}

Handle::Handle(Handle&& other) noexcept
    : id_(std::exchange(other.id_, H5I_INVALID_HID)), release_(std::exchange(other.release_, nullptr)) {}

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this != &other) {
    reset();
    id_ = std::exchange(other.id_, H5I_INVALID_HID);
    release_ = std::exchange(other.release_, nullptr);
  }
  return *this;
}

void Handle::reset() noexcept {
  if (id_ < 0) return;
  const Lock lock;
  // A file that was closed has taken its objects along; their identifiers are then no longer valid.
  if (release_ != nullptr && H5Iis_valid(id_) > 0 && release_(id_) < 0) H5Eclear2(H5E_DEFAULT);
  id_ = H5I_INVALID_HID;
}

void fail(std::string_view where, std::string_view action) {
  throw FileError(fmt::format("{}: cannot {}: {}", where, action, last_error()));
}

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

constexpr hssize_t kMostTexts = 1 << 20;

Handle variable_text_type(H5T_cset_t character_set, const std::string& where) {
  Handle type = own(H5Tcopy(H5T_C_S1), H5Tclose, where, "make a text type");
  check(H5Tset_size(type.id(), H5T_VARIABLE), where, "make a text type");
  check(H5Tset_cset(type.id(), character_set), where, "make a text type");
  return type;
}

Handle simple_space(std::size_t n, const std::string& where) {
  const hsize_t extent = n;
  return own(H5Screate_simple(1, &extent, nullptr), H5Sclose, where, "make a dataspace");
}

Handle create_attribute(hid_t node, const std::string& name, hid_t type, hid_t space,
                        const std::string& where) {
  return own(H5Acreate2(node, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose, where,
             "create attribute '" + name + "'");
}

// Variable-length texts, copied out and given back to the library.
std::vector<std::string> read_variable(hid_t attribute, hid_t space, H5T_cset_t character_set, std::size_t n,
                                       const std::string& where) {
  const Handle type = variable_text_type(character_set, where);
  std::vector<char*> raw(n, nullptr);
  check(H5Aread(attribute, type.id(), raw.data()), where, "read an attribute");
  std::vector<std::string> texts;
  for (const char* text : raw) texts.emplace_back(text == nullptr ? "" : text);
  H5Dvlen_reclaim(type.id(), space, H5P_DEFAULT, raw.data());
  return texts;
}

std::vector<std::string> read_fixed(hid_t attribute, hid_t type, std::size_t n, const std::string& where) {
  const std::size_t size = H5Tget_size(type);
  if (size == 0 || H5Aget_storage_size(attribute) < size * n)
    throw FileError(where + ": an attribute declares more text than it stores");
  std::vector<char> raw(size * n);
  check(H5Aread(attribute, type, raw.data()), where, "read an attribute");
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < n; ++i) {
    const char* first = raw.data() + i * size;
    std::string text(first, std::find(first, first + size, '\0'));
    if (H5Tget_strpad(type) == H5T_STR_SPACEPAD) text.erase(text.find_last_not_of(' ') + 1);
    texts.push_back(std::move(text));
  }
  return texts;
}

herr_t collect_name(hid_t, const char* name, const H5A_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

// The library trusts an attribute's own word on how long an element is, and reads beyond what it holds.
void require_stored(hid_t attribute, std::size_t n, std::size_t element_bytes, const std::string& where) {
  const hsize_t stored = H5Aget_storage_size(attribute);
  if (stored != n * element_bytes)
    throw FileError(
        fmt::format("{}: stores {} bytes; expected {} elements of {}", where, stored, n, element_bytes));
}

// A text of variable length is stored as its length, and the address (8 bytes) and index of an object in a
// heap.
constexpr std::size_t kVariableTextBytes = 16;

}  // namespace

void Node::set_text(const std::string& name, const std::string& text) {
  const Lock lock;
  const Handle type = variable_text_type(H5T_CSET_UTF8, where_);
  const Handle space = own(H5Screate(H5S_SCALAR), H5Sclose, where_, "make a dataspace");
  const Handle attribute = create_attribute(id(), name, type.id(), space.id(), where_);
  const char* pointer = text.c_str();
  check(H5Awrite(attribute.id(), type.id(), &pointer), where_, "write attribute '" + name + "'");
}

void Node::set_texts(const std::string& name, const std::vector<std::string>& texts) {
  const Lock lock;
  const Handle type = variable_text_type(H5T_CSET_UTF8, where_);
  const Handle space = simple_space(texts.size(), where_);
  const Handle attribute = create_attribute(id(), name, type.id(), space.id(), where_);
  std::vector<const char*> pointers;
  for (const auto& text : texts) pointers.push_back(text.c_str());
  check(H5Awrite(attribute.id(), type.id(), pointers.data()), where_, "write attribute '" + name + "'");
}

void Node::set_integer(const std::string& name, std::int64_t value) {
  const Lock lock;
  Handle attribute;
  if (has_attribute(name)) {
    attribute = open_attribute(name);
  } else {
    const Handle space = own(H5Screate(H5S_SCALAR), H5Sclose, where_, "make a dataspace");
    attribute = create_attribute(id(), name, H5T_STD_I64LE, space.id(), where_);
  }
  check(H5Awrite(attribute.id(), H5T_NATIVE_INT64, &value), where_, "write attribute '" + name + "'");
}

void Node::set_integers(const std::string& name, const std::vector<std::int64_t>& values) {
  const Lock lock;
  const Handle space = simple_space(values.size(), where_);
  const Handle attribute = create_attribute(id(), name, H5T_STD_I64LE, space.id(), where_);
  check(H5Awrite(attribute.id(), H5T_NATIVE_INT64, values.data()), where_, "write attribute '" + name + "'");
}

bool Node::has_attribute(const std::string& name) const {
  const Lock lock;
  return check(H5Aexists(id(), name.c_str()), where_, "look for attribute '" + name + "'") > 0;
}

std::vector<std::string> Node::attribute_names() const {
  const Lock lock;
  std::vector<std::string> names;
  check(H5Aiterate2(id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, collect_name, &names), where_,
        "list attributes");
  return names;
}

bool Node::is_text(const std::string& name) const {
  const Lock lock;
  const Handle attribute = open_attribute(name);
  const Handle type = own(H5Aget_type(attribute.id()), H5Tclose, where_, "read the type of '" + name + "'");
  return H5Tget_class(type.id()) == H5T_STRING;
}

Handle Node::open_attribute(const std::string& name) const {
  if (!has_attribute(name)) throw FileError(fmt::format("{}: attribute '{}' is missing", where_, name));
  return own(H5Aopen(id(), name.c_str(), H5P_DEFAULT), H5Aclose, where_, "open attribute '" + name + "'");
}

std::vector<std::string> Node::texts(const std::string& name) const {
  const Lock lock;
  const Handle attribute = open_attribute(name);
  const std::string where = fmt::format("{}: attribute '{}'", where_, name);
  const Handle type = own(H5Aget_type(attribute.id()), H5Tclose, where, "read its type");
  if (H5Tget_class(type.id()) != H5T_STRING) throw FileError(where + " is no text; expected UTF-8 text");
  const Handle space = own(H5Aget_space(attribute.id()), H5Sclose, where, "read its extent");
  const hssize_t n = check(H5Sget_simple_extent_npoints(space.id()), where, "read its extent");
  if (n > kMostTexts) throw FileError(fmt::format("{} declares {} texts", where, n));
  if (n == 0) return {};
  const auto count = static_cast<std::size_t>(n);
  const bool variable = check(H5Tis_variable_str(type.id()), where, "read its type") > 0;
  require_stored(attribute.id(), count, variable ? kVariableTextBytes : H5Tget_size(type.id()), where);
  if (variable) return read_variable(attribute.id(), space.id(), H5Tget_cset(type.id()), count, where);
  return read_fixed(attribute.id(), type.id(), count, where);
}

std::string Node::text(const std::string& name) const {
  std::vector<std::string> found = texts(name);
  if (found.size() != 1)
    throw FileError(
        fmt::format("{}: attribute '{}' holds {} texts; expected one", where_, name, found.size()));
  return std::move(found.front());
}

std::int64_t Node::integer(const std::string& name) const {
  const Lock lock;
  const Handle attribute = open_attribute(name);
  const std::string where = fmt::format("{}: attribute '{}'", where_, name);
  const Handle type = own(H5Aget_type(attribute.id()), H5Tclose, where, "read its type");
  const Handle space = own(H5Aget_space(attribute.id()), H5Sclose, where, "read its extent");
  if (H5Tget_class(type.id()) != H5T_INTEGER || H5Tget_size(type.id()) > sizeof(std::int64_t) ||
      H5Sget_simple_extent_npoints(space.id()) != 1)
    throw FileError(where + " is no single integer; expected an int64 scalar");
  require_stored(attribute.id(), 1, H5Tget_size(type.id()), where);
  std::int64_t value = 0;
  check(H5Aread(attribute.id(), H5T_NATIVE_INT64, &value), where, "read it");
  return value;
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

std::string format_shape(const Shape& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

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
  const Lock lock;
  const Handle space = own(H5Dget_space(id()), H5Sclose, where_, "read its shape");
  if (H5Sget_simple_extent_type(space.id()) == H5S_NULL) throw FileError(where_ + ": the dataset is empty");
  const int rank = check(H5Sget_simple_extent_ndims(space.id()), where_, "read its shape");
  shape_.resize(static_cast<std::size_t>(rank));
  check(H5Sget_simple_extent_dims(space.id(), shape_.data(), nullptr), where_, "read its shape");
  const Handle type = own(H5Dget_type(id()), H5Tclose, where_, "read its type");
  type_ = element_type(type.id());
}

std::uint64_t Dataset::stored_bytes() const {
  const Lock lock;
  return H5Dget_storage_size(id());
}

bool Dataset::compressed() const {
  const Lock lock;
  const Handle properties = own(H5Dget_create_plist(id()), H5Pclose, where_, "read its layout");
  return check(H5Pget_nfilters(properties.id()), where_, "read its filters") > 0;
}

std::string Dataset::identity() const {
  const Lock lock;
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

// As many rows as a megabyte holds, and whole chunks of them, so that none is decompressed twice.
hsize_t Dataset::rows_at_once(std::size_t along, std::uint64_t bytes_per_row) const {
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 20U;
  const hsize_t n_rows = std::max<hsize_t>(1, kBytes / bytes_per_row);
  const Lock lock;
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
  const Lock lock;
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
