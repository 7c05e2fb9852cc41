#pragma once

// The floor under every HDF5 call: one lock, owned identifiers, and errors as exceptions.

#include <mutex>
#include <string>
#include <string_view>

#include <hdf5.h>

#include "capture/recording/fair_mutex.hpp"

namespace keyscope::recording::hdf5 {

// Held around every HDF5 call: the library is not safe for concurrent use, and a thread-safe build of it
// serialises in the same way. Recursive, so that a caller may hold it over several calls that belong
// together; threads get it in turn, so that whoever reads a little does not wait for one who reads a lot. The
// first lock a thread takes also silences the library's own printing on that thread.
class Lock {
 public:
  Lock();

 private:
  std::unique_lock<FairMutex> lock_;
};

// An HDF5 identifier with the call that releases it. Releasing in the destructor ignores errors: whoever
// writes closes its file with `File::close`, which does not.
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

}  // namespace keyscope::recording::hdf5
