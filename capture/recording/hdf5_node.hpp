#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
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
  //   where: what is read meanwhile, for whoever tells of a crash; it outlives the lock
  explicit Lock(const std::string& where);
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  // What this thread reads; null: nothing that has a name.
  static const std::string* place();

 private:
  std::unique_lock<FairMutex> lock_;
  const std::string* outer_;  // of a lock around this
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

// Whether a text names a direct member of a group. HDF5 takes any name for a path, "." for the group itself,
// and follows each link on its way: soft ones, and those to other files.
bool is_member_name(std::string_view name);

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

// Texts of variable length, as a process of its own has read them: by the address of the object that has
// them, and the attribute's name. They lie in heaps, where a damaged file may lead HDF5 beyond an array; what
// is there is another thing in every process, so that what one of them has survived may bring down another.
class Texts {
 public:
  void add(haddr_t object, std::string attribute, std::vector<std::string> texts);
  // Null: there are none that could be read.
  const std::vector<std::string>* find(haddr_t object, const std::string& attribute) const;

 private:
  std::map<std::pair<haddr_t, std::string>, std::vector<std::string>> texts_;
};

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
  bool is_list(const std::string& name) const;  // 1-D, of any length
  std::string text(const std::string& name) const;
  std::vector<std::string> texts(const std::string& name) const;
  std::int64_t integer(const std::string& name) const;
  std::vector<std::int64_t> integers(const std::string& name) const;

  // From now on these are the file's texts of variable length; null: HDF5 reads them here.
  void use_texts(std::shared_ptr<const Texts> texts) { texts_ = std::move(texts); }

  const std::string& where() const { return where_; }  // "file: /path/in/it"
  hid_t id() const { return handle_.id(); }

 protected:
  Node() = default;
  Node(Handle handle, std::string where) : handle_(std::move(handle)), where_(std::move(where)) {}

  Handle handle_;
  std::string where_;
  std::shared_ptr<const Texts> texts_;

 private:
  Handle open_attribute(const std::string& name) const;
};

}  // namespace keyscope::recording::hdf5
