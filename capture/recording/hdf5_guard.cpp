#include "capture/recording/hdf5_guard.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::recording::hdf5 {
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
  chunk.resize(static_cast<std::size_t>(rank));
  chunk.push_back(element_size);
  return n_elements(chunk, dataset.where());
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
  const bool chunked = H5Pget_layout(properties.id()) == H5D_CHUNKED;
  if (stored > file_bytes)
    throw FileError(
        fmt::format("{}: claims to store {} bytes in a file of {}", dataset.where(), stored, file_bytes));
  // `stored` is below 2^63 / kMostCompression wherever a file system can hold the file.
  if (declared > stored * (filtered ? kMostCompression : 1) + kUnstoredBytes)
    throw FileError(fmt::format("{}: declares shape {}, {} bytes, but stores {}", dataset.where(),
                                format_shape(dataset.shape()), declared, stored));
  if (chunked && chunk_bytes(properties.id(), dataset, element_size) > declared + kLargestChunkBytes)
    throw FileError(dataset.where() + ": its chunks are far larger than itself");
}

}  // namespace keyscope::recording::hdf5
