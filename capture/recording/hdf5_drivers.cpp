#include "capture/recording/hdf5_input.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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

InputFile& file_of(H5FD_t* file) { return *reinterpret_cast<InputFile*>(file); }
const InputFile& file_of(const H5FD_t* file) { return *reinterpret_cast<const InputFile*>(file); }

// Reads what there is, and zeros beyond the end, as the library's own driver does.
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
    size -= static_cast<std::size_t>(n);
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
  ::close(file_of(file).descriptor);
  delete &file_of(file);
  return 0;
}

int compare(const H5FD_t* a, const H5FD_t* b) {
  const InputFile &x = file_of(a), &y = file_of(b);
  if (x.device != y.device) return x.device < y.device ? -1 : 1;
  return x.inode < y.inode ? -1 : x.inode > y.inode;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  if (flags != nullptr)
    *flags = H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t get_end_of_allocation(const H5FD_t* file, H5FD_mem_t) { return file_of(file).end_of_allocation; }
herr_t set_end_of_allocation(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  file_of(file).end_of_allocation = address;
  return 0;
}
haddr_t get_end_of_file(const H5FD_t* file, H5FD_mem_t) { return file_of(file).end_of_file; }

herr_t get_descriptor(H5FD_t* file, hid_t, void** descriptor) {
  *descriptor = &file_of(file).descriptor;
  return 0;
}

// The library reads a heap as it reads raw data, so that it is known by its signature only.
herr_t read_input(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, void* buffer) {
  const InputFile& input = file_of(file);
  if (!read_bytes(input.descriptor, address, size, buffer)) return -1;
  constexpr std::array<char, 8> kHeap{'G', 'C', 'O', 'L', 1, 0, 0, 0};
  if (size < kHeap.size() || std::memcmp(buffer, kHeap.data(), kHeap.size()) != 0) return 0;
  const std::uint64_t room = input.end_of_file > address ? input.end_of_file - address : 0;
  return is_sound_heap({static_cast<const std::byte*>(buffer), size}, input.length_size, room) ? 0 : -1;
}

herr_t write_input(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, size_t, const void*) { return -1; }

H5FD_class_t make_driver() {
  constexpr H5FD_mem_t kFreeLists[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 13, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(601);  // of the range for unregistered drivers
#endif
  driver.name = "keyscope-input";
  driver.maxaddr = (haddr_t{1} << 62) - 1;
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.open = open_input;
  driver.close = close_input;
  driver.cmp = compare;
  driver.query = query;
  driver.get_eoa = get_end_of_allocation;
  driver.set_eoa = set_end_of_allocation;
  driver.get_eof = get_end_of_file;
  driver.get_handle = get_descriptor;
  driver.read = read_input;
  driver.write = write_input;
  std::copy(std::begin(kFreeLists), std::end(kFreeLists), driver.fl_map);
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
    const auto object = bytes.subspan(static_cast<std::size_t>(at));
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

void use_input_driver(hid_t file_access, const std::string& where) {
  static const H5FD_class_t driver = make_driver();
  const Handle id = own(H5FDregister(&driver), H5FDunregister, where, "register the file driver");
  check(H5Pset_driver(file_access, id.id(), nullptr), where, "set the file driver");
}

}  // namespace keyscope::recording::hdf5
