#include "capture/recording/hdf5_drivers.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "capture/recording/hdf5_node.hpp"

namespace keyscope::recording::hdf5 {

namespace {

// What HDF5 holds of an open file; it fills the first member itself.
struct InputFile {
  H5FD_t base{};
  int descriptor = -1;
  haddr_t end_of_allocation = 0;
  haddr_t end_of_file = 0;
  dev_t device = 0;
  ino_t inode = 0;
  std::size_t length_size = 8;
};

template <typename File>
File& file_of(H5FD_t* file) {
  return *reinterpret_cast<File*>(file);
}
template <typename File>
const File& file_of(const H5FD_t* file) {
  return *reinterpret_cast<const File*>(file);
}

template <typename File>
haddr_t get_end_of_allocation(const H5FD_t* file, H5FD_mem_t) {
  return file_of<File>(file).end_of_allocation;
}
template <typename File>
herr_t set_end_of_allocation(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  file_of<File>(file).end_of_allocation = address;
  return 0;
}
template <typename File>
haddr_t get_end_of_file(const H5FD_t* file, H5FD_mem_t) {
  return file_of<File>(file).end_of_file;
}

// Reads what there is, and zeros beyond the end or where nothing was written yet, as the library's own driver
// does.
bool read_bytes(int descriptor, haddr_t address, std::size_t size, void* buffer) {
  auto* to = static_cast<char*>(buffer);
  auto from = static_cast<off_t>(address);
  while (size > 0) {
    const ssize_t n = ::pread(descriptor, to, size, from);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    if (n == 0) {
      std::memset(to, 0, size);
      break;
    }
    to += n;
    from += n;
    size -= n;
  }
  return true;
}

// From the superblock, which lies at 0, 512, 1024, 2048, … (HDF5 File Format Specification, II.A).
std::size_t read_length_size(int descriptor, haddr_t end_of_file) {
  constexpr std::array<unsigned char, 8> kSignature{0x89, 'H', 'D', 'F', '\r', '\n', 0x1A, '\n'};
  for (haddr_t at = 0; at + 16 <= end_of_file; at = at == 0 ? 512 : 2 * at) {
    std::array<unsigned char, 16> head{};
    if (!read_bytes(descriptor, at, head.size(), head.data())) break;
    if (!std::equal(kSignature.begin(), kSignature.end(), head.begin())) continue;
    const unsigned char size = head[8] < 2 ? head[14] : head[10];  // by the superblock's version
    return size == 2 || size == 4 ? size : 8;
  }
  return 8;
}

H5FD_t* open_input(const char* name, unsigned flags, hid_t, haddr_t) {
  if ((flags & (H5F_ACC_RDWR | H5F_ACC_CREAT | H5F_ACC_TRUNC)) != 0) return nullptr;
  const int descriptor = ::open(name, O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (descriptor < 0) return nullptr;
  if (::fstat(descriptor, &status) != 0) {
    ::close(descriptor);
    return nullptr;
  }
  auto* file = new InputFile;
  file->descriptor = descriptor;
  file->end_of_file = static_cast<haddr_t>(status.st_size);
  file->device = status.st_dev;
  file->inode = status.st_ino;
  file->length_size = read_length_size(descriptor, file->end_of_file);
  return &file->base;
}

herr_t close_input(H5FD_t* file) {
  ::close(file_of<InputFile>(file).descriptor);
  delete &file_of<InputFile>(file);
  return 0;
}

int compare_input(const H5FD_t* a, const H5FD_t* b) {
  const InputFile &x = file_of<InputFile>(a), &y = file_of<InputFile>(b);
  if (x.device != y.device) return x.device < y.device ? -1 : 1;
  return x.inode < y.inode ? -1 : x.inode > y.inode;
}

herr_t query_input(const H5FD_t*, unsigned long* flags) {
  if (flags != nullptr)
    *flags = H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

herr_t get_descriptor_input(H5FD_t* file, hid_t, void** descriptor) {
  *descriptor = &file_of<InputFile>(file).descriptor;
  return 0;
}

// The library reads a heap as it reads raw data, so that it is known by its signature only.
herr_t read_input(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, void* buffer) {
  const InputFile& input = file_of<InputFile>(file);
  if (!read_bytes(input.descriptor, address, size, buffer)) return -1;
  constexpr std::array<char, 8> kHeap{'G', 'C', 'O', 'L', 1, 0, 0, 0};
  if (size < kHeap.size() || std::memcmp(buffer, kHeap.data(), kHeap.size()) != 0) return 0;
  const std::uint64_t room = input.end_of_file > address ? input.end_of_file - address : 0;
  return is_sound_heap({static_cast<const std::byte*>(buffer), size}, input.length_size, room) ? 0 : -1;
}

herr_t write_input(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, size_t, const void*) { return -1; }

// What both drivers have in common.
//   value: of the range for unregistered drivers
template <typename OpenFile>
H5FD_class_t make_driver(const char* name, [[maybe_unused]] int value) {
  constexpr H5FD_mem_t kFreeLists[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 13, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(value);
#endif
  driver.name = name;
  driver.maxaddr = (haddr_t{1} << 62) - 1;
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.get_eoa = get_end_of_allocation<OpenFile>;
  driver.set_eoa = set_end_of_allocation<OpenFile>;
  driver.get_eof = get_end_of_file<OpenFile>;
  std::copy(std::begin(kFreeLists), std::end(kFreeLists), driver.fl_map);
  return driver;
}

H5FD_class_t make_input_driver() {
  H5FD_class_t driver = make_driver<InputFile>("keyscope-input", 601);
  driver.open = open_input;
  driver.close = close_input;
  driver.cmp = compare_input;
  driver.query = query_input;
  driver.get_handle = get_descriptor_input;
  driver.read = read_input;
  driver.write = write_input;
  return driver;
}

std::uint64_t little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8U | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

}  // namespace

// HDF5 File Format Specification, III.E: a header of 16 bytes with the collection's size, then objects, each
// with a header of 16 bytes; object 0 is what is free, and its size includes its header.
bool is_sound_heap(std::span<const std::byte> bytes, std::size_t length_size, std::uint64_t room) {
  constexpr std::uint64_t kHeader = 16, kAlignment = 8;
  if (bytes.size() < kHeader) return false;
  const std::uint64_t end = little_endian(bytes.subspan(8, length_size));
  if (end < kHeader || end > room) return false;
  std::uint64_t at = kHeader;
  while (at + kHeader <= std::min<std::uint64_t>(end, bytes.size())) {
    const auto object = bytes.subspan(at);
    const std::uint64_t index = little_endian(object.first(2));
    const std::uint64_t size = little_endian(object.subspan(8, length_size));
    const std::uint64_t left = end - at;
    if (size > left) return false;
    const std::uint64_t step =
        index == 0 ? size : kHeader + (size + kAlignment - 1) / kAlignment * kAlignment;
    if (step < kHeader || step > left) return false;
    at += step;
  }
  return true;
}

// Registered once and for all: HDF5 1.10 lets go of a file's driver before it closes the file by it, so that
// the last file to use one would be closed by a driver that is gone.
void use_input_driver(hid_t file_access, const std::string& where) {
  static const H5FD_class_t driver = make_input_driver();
  static const hid_t id = H5FDregister(&driver);
  check(H5Pset_driver(file_access, check(id, where, "register the file driver"), nullptr), where,
        "set the file driver");
}

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
  if (try_lock(state.descriptor) == FileLock::kBusy) {
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
  const OutputFile& output = file_of<OutputFile>(file);
  OutputState& state = *output.state;
  if (output.end_of_file > output.end_of_allocation && !state.silent) {
    if (::fdatasync(state.descriptor) != 0) keep_error(state, "write to the disk");
    set_size(state, output.end_of_allocation);
  }
  if (::close(state.descriptor) != 0 && state.error == 0) keep_error(state, "close the file");
  state.descriptor = -1;
  delete &file_of<OutputFile>(file);
  return 0;
}

int compare_output(const H5FD_t* a, const H5FD_t* b) {
  const int left = file_of<OutputFile>(a).state->descriptor, right = file_of<OutputFile>(b).state->descriptor;
  return left < right ? -1 : left > right;
}

herr_t query_output(const H5FD_t*, unsigned long* flags) {
  // As the library's own driver for POSIX files, which is to read what this one writes.
  if (flags != nullptr)
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
             H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

herr_t get_descriptor_output(H5FD_t* file, hid_t, void** descriptor) {
  *descriptor = &file_of<OutputFile>(file).state->descriptor;
  return 0;
}

herr_t read_output(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, void* buffer) {
  return read_bytes(file_of<OutputFile>(file).state->descriptor, address, size, buffer) ? 0 : -1;
}

herr_t write_output(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, const void* buffer) {
  OutputFile& output = file_of<OutputFile>(file);
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
  OutputFile& output = file_of<OutputFile>(file);
  if (output.end_of_file >= output.end_of_allocation) return 0;
  set_size(*output.state, output.end_of_allocation);
  output.end_of_file = output.end_of_allocation;
  return 0;
}

H5FD_class_t make_output_driver() {
  H5FD_class_t driver = make_driver<OutputFile>("keyscope-output", 600);
  driver.fapl_size = sizeof(DriverInfo);
  driver.open = open_output;
  driver.close = close_output;
  driver.cmp = compare_output;
  driver.query = query_output;
  driver.get_handle = get_descriptor_output;
  driver.read = read_output;
  driver.write = write_output;
  driver.truncate = truncate_output;
  return driver;
}

}  // namespace

void use_output_driver(hid_t file_access, OutputState& state, const std::string& where) {
  static const H5FD_class_t driver = make_output_driver();
  static const hid_t id = H5FDregister(&driver);  // as above
  const DriverInfo info{&state};
  check(H5Pset_driver(file_access, check(id, where, "register the file driver"), &info), where,
        "set the file driver");
}

namespace {

// Rows that nothing wrote need no storage in files of other writers; this much may be missing.
constexpr std::uint64_t kUnstoredBytes = 1 << 16;
// Deflate cannot do better than 1 : 1032.
constexpr std::uint64_t kMostCompression = 1040;
constexpr std::uint64_t kLargestChunkBytes = std::uint64_t{64} << 20;

bool known_filter(H5Z_filter_t filter) {
  return filter == H5Z_FILTER_SHUFFLE || filter == H5Z_FILTER_DEFLATE || filter == H5Z_FILTER_FLETCHER32;
}

Handle creation_properties(hid_t dataset, const std::string& where) {
  return own(H5Dget_create_plist(dataset), H5Pclose, where, "read its layout");
}

std::uint64_t chunk_bytes(hid_t properties, const Dataset& dataset, std::uint64_t element_size) {
  Shape chunk(H5S_MAX_RANK);
  const int rank =
      check(H5Pget_chunk(properties, H5S_MAX_RANK, chunk.data()), dataset.where(), "read its chunks");
  chunk.resize(rank);
  chunk.push_back(element_size);
  return n_elements(chunk, dataset.where());
}

// HDF5 1.10.8 reads past what there is. A contiguous dataset that nothing wrote stores nothing, and is read
// as its fill value.
void refuse_less_than_whole(const Dataset& dataset, H5D_layout_t layout, std::uint64_t stored,
                            std::uint64_t element_size) {
  Shape in_bytes = dataset.shape();
  in_bytes.push_back(element_size);
  const std::uint64_t whole = n_elements(in_bytes, dataset.where());
  if (stored < whole && (layout == H5D_COMPACT || stored > 0))
    throw FileError(fmt::format("{}: damaged: declares shape {}, {} bytes, but stores {}", dataset.where(),
                                format_shape(dataset.shape()), whole, stored));
}

}  // namespace

void refuse_foreign_storage(hid_t dataset, const std::string& where) {
  const Handle properties = creation_properties(dataset, where);
  if (H5Pget_layout(properties.id()) == H5D_VIRTUAL)
    throw FileError(where + ": a virtual dataset, which reads from other files; refused");
  if (check(H5Pget_external_count(properties.id()), where, "read its layout") > 0)
    throw FileError(where + ": its bytes lie in another file (external storage); refused");
  const int n_filters = check(H5Pget_nfilters(properties.id()), where, "read its filters");
  for (int i = 0; i < n_filters; ++i) {
    unsigned flags = 0, info = 0;
    std::size_t n_values = 0;
    const H5Z_filter_t filter = H5Pget_filter2(properties.id(), static_cast<unsigned>(i), &flags, &n_values,
                                               nullptr, 0, nullptr, &info);
    if (!known_filter(filter))
      throw FileError(fmt::format("{}: filter {} is not supported; expected shuffle and gzip", where,
                                  static_cast<int>(filter)));
  }
}

void refuse_overdeclared(const Dataset& dataset, const Shape& needed, std::uint64_t file_bytes) {
  const Handle properties = creation_properties(dataset.id(), dataset.where());
  const Handle type = own(H5Dget_type(dataset.id()), H5Tclose, dataset.where(), "read its type");
  const std::uint64_t element_size = H5Tget_size(type.id());
  Shape in_bytes = dataset.shape();
  for (std::size_t i = 0; i < std::min(needed.size(), in_bytes.size()); ++i)
    in_bytes[i] = std::min(in_bytes[i], needed[i]);
  in_bytes.push_back(element_size);
  const std::uint64_t declared = n_elements(in_bytes, dataset.where());
  const std::uint64_t stored = dataset.stored_bytes();
  const bool filtered = H5Pget_nfilters(properties.id()) > 0;
  const H5D_layout_t layout = H5Pget_layout(properties.id());
  if (stored > file_bytes)
    throw FileError(
        fmt::format("{}: claims to store {} bytes in a file of {}", dataset.where(), stored, file_bytes));
  // `stored` is below 2^63 / kMostCompression wherever a file system can hold the file.
  if (declared > stored * (filtered ? kMostCompression : 1) + kUnstoredBytes)
    throw FileError(fmt::format("{}: declares shape {}, {} bytes, but stores {}", dataset.where(),
                                format_shape(dataset.shape()), declared, stored));
  if (layout != H5D_CHUNKED) return refuse_less_than_whole(dataset, layout, stored, element_size);
  if (chunk_bytes(properties.id(), dataset, element_size) > declared + kLargestChunkBytes)
    throw FileError(dataset.where() + ": its chunks are far larger than itself");
}

}  // namespace keyscope::recording::hdf5
