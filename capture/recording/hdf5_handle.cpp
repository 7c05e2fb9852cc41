#include "capture/recording/hdf5_handle.hpp"

#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"

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

}  // namespace keyscope::recording::hdf5
