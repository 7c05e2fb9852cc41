#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <hdf5.h>

namespace keyscope::recording {

// A recursive mutex that threads get in the order in which they came. With std::recursive_mutex a thread that
// locks again at once mostly gets it again, and another one waits for the whole of what it does.
class FairMutex {
 public:
  void lock();
  void unlock();

 private:
  std::mutex gate_;
  std::condition_variable next_turn_;
  std::uint64_t n_came_ = 0;
  std::uint64_t n_left_ = 0;
  std::atomic<std::thread::id> owner_;
  int depth_ = 0;  // the owner's
};

}  // namespace keyscope::recording

namespace keyscope::recording::hdf5 {

// The floor under every HDF5 call: one lock, owned identifiers, and errors as exceptions.
// Held around every HDF5 call: the library is not safe for concurrent use, and a thread-safe build of it
// serialises in the same way. Recursive, so that a caller may hold it over several calls that belong
// together; threads get it in turn, so that one that reads a little does not wait for one that reads a lot.
// The first lock a thread takes also silences the library's own printing on that thread.
class Lock {
 public:
  Lock();

 private:
  std::unique_lock<FairMutex> lock_;
};

// An HDF5 identifier with the call that releases it. Releasing in the destructor ignores errors: a
// writer closes its file with `File::close`, which does not.
class Handle {
 public:
  using Release = herr_t (*)(hid_t);

  Handle() = default;
  Handle(hid_t id, Release release) : id_(id), release_(release) {}
  Handle(Handle&& other) noexcept;
  Handle& operator=(Handle&& other) noexcept;
  ~Handle() { reset(); }

  hid_t id() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }
  void reset() noexcept;

 private:
  hid_t id_ = H5I_INVALID_HID;
  Release release_ = nullptr;
};

// Throws FileError: "WHERE: cannot ACTION: what HDF5 or the operating system says". Call under a Lock.
//   where: the file, or "file: /path/in/it"
[[noreturn]] void fail(std::string_view where, std::string_view action);

// Passes a result of an HDF5 call through, or fails if it is negative.
template <typename Result>
Result check(Result result, std::string_view where, std::string_view action) {
  if (result < 0) fail(where, action);
  return result;
}

// Takes ownership of a freshly made identifier, or fails if there is none.
inline Handle own(hid_t id, Handle::Release release, std::string_view where, std::string_view action) {
  return {check(id, where, action), release};
}

// Something that carries attributes: a group or a dataset. Text attributes are variable-length UTF-8,
// integers are int64. Getters accept fixed-length text and any integer width too, as other writers produce
// them, and
//   throw FileError naming file, object and attribute if it is missing or of another kind
class Node {
 public:
  void set_text(const std::string& name, const std::string& text);
  void set_texts(const std::string& name, const std::vector<std::string>& texts);  // 1-D
  void set_integer(const std::string& name, std::int64_t value);  // overwritten in place if it exists
  void set_integers(const std::string& name, const std::vector<std::int64_t>& values);  // 1-D

  bool has_attribute(const std::string& name) const;
  std::vector<std::string> attribute_names() const;
  bool is_text(const std::string& name) const;
  std::string text(const std::string& name) const;
  std::vector<std::string> texts(const std::string& name) const;
  std::int64_t integer(const std::string& name) const;

  const std::string& where() const { return where_; }  // "file: /path/in/it"
  hid_t id() const { return handle_.id(); }

 protected:
  Node() = default;
  Node(Handle handle, std::string where) : handle_(std::move(handle)), where_(std::move(where)) {}

  Handle handle_;
  std::string where_;

 private:
  Handle open_attribute(const std::string& name) const;
};

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

// A dataset of numbers. T is float, double, std::int32_t, std::int64_t or std::uint8_t; floats convert to and
// from float16 where the file has that.
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
