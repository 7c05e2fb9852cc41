#include "capture/recording/hdf5_drivers.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace keyscope::recording::hdf5 {
namespace {

struct DriverInfo {
  OutputState* state = nullptr;
};

// What HDF5 holds of an open file; it fills the first member itself.
struct OutputFile {
  H5FD_t base{};
  OutputState* state = nullptr;
  haddr_t end_of_allocation = 0;
  haddr_t end_of_file = 0;
};

OutputFile& file_of(H5FD_t* file) { return *reinterpret_cast<OutputFile*>(file); }
const OutputFile& file_of(const H5FD_t* file) { return *reinterpret_cast<const OutputFile*>(file); }

void keep_error(OutputState& state, const char* action) {
  state.error = errno;
  state.action = action;
  state.silent = true;
}

H5FD_t* open_output(const char* name, unsigned flags, hid_t file_access, haddr_t) {
  if ((flags & H5F_ACC_CREAT) == 0) return nullptr;  // the library tries first whether the file is there
  const auto* info = static_cast<const DriverInfo*>(H5Pget_driver_info(file_access));
  if (info == nullptr || info->state == nullptr) return nullptr;
  OutputState& state = *info->state;
  state.descriptor = ::open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (state.descriptor < 0) {
    keep_error(state, "create the file");
    return nullptr;
  }
  // A file system without locks answers otherwise.
  if (flock(state.descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    keep_error(state, "lock the file");
    ::close(state.descriptor);
    return nullptr;
  }
  auto* file = new OutputFile;
  file->state = &state;
  return &file->base;
}

void set_size(OutputState& state, haddr_t size) {
  if (!state.silent && ::ftruncate(state.descriptor, static_cast<off_t>(size)) != 0)
    keep_error(state, "set the file's size");
}

herr_t close_output(H5FD_t* file) {
  const OutputFile& output = file_of(file);
  OutputState& state = *output.state;
  if (output.end_of_file > output.end_of_allocation && !state.silent) {
    if (::fdatasync(state.descriptor) != 0) keep_error(state, "write to the disk");
    set_size(state, output.end_of_allocation);
  }
  if (::close(state.descriptor) != 0 && state.error == 0) keep_error(state, "close the file");
  state.descriptor = -1;
  delete &file_of(file);
  return 0;
}

int compare(const H5FD_t* a, const H5FD_t* b) {
  const int left = file_of(a).state->descriptor, right = file_of(b).state->descriptor;
  return left < right ? -1 : left > right;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  // As the library's own driver for POSIX files, which is to read what this one writes.
  if (flags != nullptr)
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
             H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t get_end_of_allocation(const H5FD_t* file, H5FD_mem_t) { return file_of(file).end_of_allocation; }
herr_t set_end_of_allocation(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  file_of(file).end_of_allocation = address;
  return 0;
}
haddr_t get_end_of_file(const H5FD_t* file, H5FD_mem_t) { return file_of(file).end_of_file; }

herr_t get_descriptor(H5FD_t* file, hid_t, void** descriptor) {
  *descriptor = &file_of(file).state->descriptor;
  return 0;
}

herr_t read_output(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, void* buffer) {
  auto* to = static_cast<char*>(buffer);
  auto from = static_cast<off_t>(address);
  while (size > 0) {
    const ssize_t n = ::pread(file_of(file).state->descriptor, to, size, from);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) {  // allocated, and not yet written
      std::memset(to, 0, size);
      break;
    }
    to += n;
    from += n;
    size -= static_cast<size_t>(n);
  }
  return 0;
}

herr_t write_output(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, const void* buffer) {
  OutputFile& output = file_of(file);
  output.end_of_file = std::max(output.end_of_file, address + size);
  const auto* from = static_cast<const char*>(buffer);
  auto to = static_cast<off_t>(address);
  while (size > 0 && !output.state->silent) {
    const ssize_t n = ::pwrite(output.state->descriptor, from, size, to);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      keep_error(*output.state, "write to the file");
      break;
    }
    from += n;
    to += n;
    size -= static_cast<size_t>(n);
  }
  return 0;
}

// Makes the file as long as its superblock will say. It is made shorter only on closing: the superblock that
// says so is not yet written here, and a file that is shorter than its superblock says does not open.
herr_t truncate_output(H5FD_t* file, hid_t, hbool_t) {
  OutputFile& output = file_of(file);
  if (output.end_of_file >= output.end_of_allocation) return 0;
  set_size(*output.state, output.end_of_allocation);
  output.end_of_file = output.end_of_allocation;
  return 0;
}

H5FD_class_t make_driver() {
  constexpr H5FD_mem_t kFreeLists[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 13, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(600);  // of the range for unregistered drivers
#endif
  driver.name = "keyscope-output";
  driver.maxaddr = (haddr_t{1} << 62) - 1;
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(DriverInfo);
  driver.open = open_output;
  driver.close = close_output;
  driver.cmp = compare;
  driver.query = query;
  driver.get_eoa = get_end_of_allocation;
  driver.set_eoa = set_end_of_allocation;
  driver.get_eof = get_end_of_file;
  driver.get_handle = get_descriptor;
  driver.read = read_output;
  driver.write = write_output;
  driver.truncate = truncate_output;
  std::copy(std::begin(kFreeLists), std::end(kFreeLists), driver.fl_map);
  return driver;
}

}  // namespace

void use_output_driver(hid_t file_access, OutputState& state, const std::string& where) {
  static const H5FD_class_t driver = make_driver();
  // Registered anew for every file, and let go when the last that uses it is closed.
  const Handle id = own(H5FDregister(&driver), H5FDunregister, where, "register the file driver");
  const DriverInfo info{&state};
  check(H5Pset_driver(file_access, id.id(), &info), where, "set the file driver");
}

}  // namespace keyscope::recording::hdf5
