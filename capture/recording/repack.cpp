#include "capture/recording/repack.hpp"

#include <cstdio>
#include <system_error>

#include <fmt/format.h>

#include "analysis/errors.hpp"
#include "capture/recording/dataset_copy.hpp"
#include "capture/recording/hdf5.hpp"
#include "capture/recording/part_file.hpp"

namespace keyscope::recording {
namespace {

using hdf5::Dataset;
using hdf5::Group;

constexpr int kGzip = 4;

void copy_attributes(const hdf5::Node& from, hdf5::Node& to) {
  for (const std::string& name : from.attribute_names()) {
    if (to.has_attribute(name)) continue;  // NX_class, set with the group
    if (from.is_text(name))
      to.set_text(name, from.text(name));
    else
      to.set_integer(name, from.integer(name));
  }
}

void copy_members(const Group& from, Group& to) {
  for (const std::string& name : from.names()) {
    if (name.starts_with("partial_attention")) continue;  // the journal has served
    if (from.has_dataset(name)) {
      Dataset copy = copy_dataset(from, to, name, {.gzip = kGzip});
      copy_attributes(from.open_dataset(name), copy);
      continue;
    }
    const Group child = from.open_group(name);
    Group copy = to.create_group(name, child.text("NX_class"));
    copy_attributes(child, copy);
    copy_members(child, copy);
  }
}

void write_copy(const std::filesystem::path& from_path, const std::filesystem::path& to_path) {
  const hdf5::File from = hdf5::File::open(from_path);
  hdf5::File to = hdf5::File::create(to_path);
  hdf5::Group root = to.root();
  copy_attributes(from.root(), root);
  copy_members(from.root(), root);
  to.flush();
  to.close();
}

}  // namespace

void repack(const std::filesystem::path& path) {
  const std::filesystem::path packed = path.string() + ".packing";
  std::error_code error;
  std::filesystem::remove(packed, error);
  try {
    write_copy(path, packed);
    sync_path(packed);
    std::filesystem::rename(packed, path);
  } catch (const std::filesystem::filesystem_error& failure) {
    std::filesystem::remove(packed, error);
    throw FileError(
        fmt::format("{}: cannot replace it by its compressed copy: {}", path.string(), failure.what()));
  } catch (...) {
    std::filesystem::remove(packed, error);
    throw;
  }
}

}  // namespace keyscope::recording
