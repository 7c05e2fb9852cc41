#include "capture/recording/hdf5.hpp"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "capture/recording/hdf5_dataset.hpp"
#include "capture/recording/hdf5_drivers.hpp"
#include "capture/recording/hdf5_node.hpp"

namespace keyscope::recording::hdf5 {
namespace {

constexpr hsize_t kMostMembers = 100000;
// Metadata in few places rather than between the chunks: a large recording opens with few reads.
constexpr hsize_t kMetadataBlockBytes = 1 << 16;

// The value that elements have before they are written, and when it is put there.
void set_fill(hid_t properties, const DatasetOptions& options, const std::string& where) {
  check(H5Pset_fill_value(properties, H5T_NATIVE_DOUBLE, &options.fill), where, "set the fill value");
  const bool leave = options.reserved_zeros && options.fill == 0;
  check(H5Pset_fill_time(properties, leave ? H5D_FILL_TIME_NEVER : H5D_FILL_TIME_ALLOC), where,
        "set the fill time");
  if (options.allocate)
    check(H5Pset_alloc_time(properties, H5D_ALLOC_TIME_EARLY), where, "set the allocation time");
}

Handle creation_properties(const DatasetOptions& options, const std::string& where) {
  Handle properties = own(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, where, "make properties");
  check(H5Pset_obj_track_times(properties.id(), false), where, "set properties");
  if (!options.chunk.empty())
    check(H5Pset_chunk(properties.id(), static_cast<int>(options.chunk.size()), options.chunk.data()), where,
          "set chunks of " + format_shape(options.chunk));
  set_fill(properties.id(), options, where);
  if (options.shuffle) check(H5Pset_shuffle(properties.id()), where, "set the shuffle filter");
  if (options.gzip > 0)
    check(H5Pset_deflate(properties.id(), static_cast<unsigned>(options.gzip)), where, "set gzip");
  return properties;
}

Handle access_properties(std::size_t cache_bytes, const std::string& where) {
  Handle properties = own(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose, where, "make properties");
  // 521 slots, the default; no chunk is dropped from the cache before it must be.
  check(H5Pset_chunk_cache(properties.id(), 521, cache_bytes, 0), where, "set the chunk cache");
  return properties;
}

struct Members {
  std::vector<std::string> names;
  std::string link_out;  // a link that leaves the file
};

herr_t collect_member(hid_t, const char* name, const H5L_info_t* link, void* data) {
  auto& members = *static_cast<Members*>(data);
  members.names.emplace_back(name);
  if (link->type != H5L_TYPE_HARD && link->type != H5L_TYPE_SOFT) members.link_out = name;
  return 0;
}

Handle file_properties(const std::string& where) {
  Handle properties = own(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, where, "make properties");
  check(H5Pset_fclose_degree(properties.id(), H5F_CLOSE_STRONG), where, "set properties");
  check(H5Pset_meta_block_size(properties.id(), kMetadataBlockBytes), where, "set properties");
  return properties;
}

}  // namespace

Group::Group(Handle handle, std::string file, std::string path, std::uint64_t file_bytes)
    : Node(std::move(handle), fmt::format("{}: {}", file, path)),
      file_(std::move(file)),
      path_(std::move(path)),
      file_bytes_(file_bytes) {}

std::string Group::path_of(const std::string& name) const {
  return path_ == "/" ? "/" + name : path_ + "/" + name;
}

Group Group::create_group(const std::string& name, const std::string& nx_class) {
  const Lock lock;
  Group group(own(H5Gcreate2(id(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose, where_,
                  "create group " + name),
              file_, path_of(name), file_bytes_);
  group.set_text("NX_class", nx_class);
  return group;
}

Dataset Group::create_dataset(const std::string& name, ElementType type, const Shape& shape,
                              const DatasetOptions& options) {
  const Lock lock;
  const std::string where = fmt::format("{}: {}", file_, path_of(name));
  const Shape& largest = options.max_shape.empty() ? shape : options.max_shape;
  const Handle space =
      shape.empty() ? own(H5Screate(H5S_SCALAR), H5Sclose, where, "make a dataspace")
                    : own(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), largest.data()),
                          H5Sclose, where, "make a dataspace");
  const Handle element = file_type(type);
  const Handle creation = creation_properties(options, where);
  const Handle access = access_properties(options.cache_bytes, where);
  return {
      own(H5Dcreate2(id(), name.c_str(), element.id(), space.id(), H5P_DEFAULT, creation.id(), access.id()),
          H5Dclose, where, "create the dataset"),
      where};
}

void Group::link_dataset(const std::string& name, const Dataset& dataset) {
  const Lock lock;
  check(H5Lcreate_hard(dataset.id(), ".", id(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), where_,
        "link to " + dataset.where() + " as " + name);
}

void Group::create_text(const std::string& name, const std::string& text) {
  const Lock lock;
  const std::string where = fmt::format("{}: {}", file_, path_of(name));
  const Handle type = own(H5Tcopy(H5T_C_S1), H5Tclose, where, "make a text type");
  check(H5Tset_size(type.id(), H5T_VARIABLE), where, "make a text type");
  check(H5Tset_cset(type.id(), H5T_CSET_UTF8), where, "make a text type");
  const Handle space = own(H5Screate(H5S_SCALAR), H5Sclose, where, "make a dataspace");
  const Handle dataset =
      own(H5Dcreate2(id(), name.c_str(), type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
          H5Dclose, where, "create the dataset");
  const char* pointer = text.c_str();
  check(H5Dwrite(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, &pointer), where, "write");
}

std::vector<std::string> Group::names() const {
  const Lock lock;
  H5G_info_t info;
  check(H5Gget_info(id(), &info), where_, "read the group");
  if (info.nlinks > kMostMembers)
    throw FileError(fmt::format("{}: the group claims {} members", where_, info.nlinks));
  Members members;
  check(H5Literate(id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, collect_member, &members), where_,
        "list the group");
  if (!members.link_out.empty())
    throw FileError(fmt::format("{}: '{}' is a link to another file; refused", where_, members.link_out));
  std::sort(members.names.begin(), members.names.end());
  return std::move(members.names);
}

H5I_type_t Group::member_type(const std::string& name) const {
  const Lock lock;
  if (check(H5Lexists(id(), name.c_str(), H5P_DEFAULT), where_, "look for " + name) == 0) return H5I_BADID;
  H5L_info_t link;
  check(H5Lget_info(id(), name.c_str(), &link, H5P_DEFAULT), where_, "look at " + name);
  if (link.type != H5L_TYPE_HARD) return H5I_BADID;
  const Handle object = own(H5Oopen(id(), name.c_str(), H5P_DEFAULT), H5Oclose, where_, "open " + name);
  return H5Iget_type(object.id());
}

bool Group::has(const std::string& name) const {
  const Lock lock;
  return check(H5Lexists(id(), name.c_str(), H5P_DEFAULT), where_, "look for " + name) > 0;
}

bool Group::has_group(const std::string& name) const { return member_type(name) == H5I_GROUP; }
bool Group::has_dataset(const std::string& name) const { return member_type(name) == H5I_DATASET; }

void Group::expect_member(const std::string& name, H5I_type_t type) const {
  const char* expected = type == H5I_GROUP ? "group" : "dataset";
  if (!has(name)) throw FileError(fmt::format("{}: {} '{}' is missing", where_, expected, name));
  H5L_info_t link;
  check(H5Lget_info(id(), name.c_str(), &link, H5P_DEFAULT), where_, "look at " + name);
  if (link.type != H5L_TYPE_HARD)
    throw FileError(fmt::format("{}: '{}' is {} link; refused, a {} was expected in this place", where_, name,
                                link.type == H5L_TYPE_SOFT ? "a soft" : "an external", expected));
  if (member_type(name) != type)
    throw FileError(fmt::format("{}: '{}' is not a {}, as was expected", where_, name, expected));
}

Group Group::open_group(const std::string& name) const {
  const Lock lock;
  expect_member(name, H5I_GROUP);
  return {own(H5Gopen2(id(), name.c_str(), H5P_DEFAULT), H5Gclose, where_, "open group " + name), file_,
          path_of(name), file_bytes_};
}

Dataset Group::open_dataset(const std::string& name, std::size_t cache_bytes, const Shape& needed) const {
  const Lock lock;
  expect_member(name, H5I_DATASET);
  const std::string where = fmt::format("{}: {}", file_, path_of(name));
  const Handle access = access_properties(cache_bytes, where);
  Handle handle = own(H5Dopen2(id(), name.c_str(), access.id()), H5Dclose, where, "open the dataset");
  refuse_foreign_storage(handle.id(), where);
  Dataset dataset(std::move(handle), where);
  if (file_bytes_ > 0) refuse_overdeclared(dataset, needed, file_bytes_);
  return dataset;
}

File File::create(const std::filesystem::path& path) {
  const Lock lock;
  File file;
  file.name_ = path.string();
  file.output_ = std::make_unique<OutputState>();
  const Handle access = file_properties(file.name_);
  use_output_driver(access.id(), *file.output_, file.name_);
  const hid_t id = H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access.id());
  file.check_output();
  file.handle_ = own(id, H5Fclose, file.name_, "create the file");
  return file;
}

File File::open(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw FileError(path.string() + ": no such file");
  if (!std::filesystem::is_regular_file(status))
    throw FileError(fmt::format("{}: is {}, expected an HDF5 file", path.string(),
                                std::filesystem::is_directory(status) ? "a folder" : "no regular file"));
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) throw FileError(fmt::format("{}: cannot open: {}", path.string(), error.message()));
  const Lock lock;
  if (H5Fis_hdf5(path.c_str()) == 0)
    throw FileError(path.string() + ": is no HDF5 file (or has lost its beginning)");
  const Handle access = file_properties(path.string());
  use_input_driver(access.id(), path.string());
  return {own(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose, path.string(), "open as HDF5"),
          path.string(), bytes};
}

Group File::root() const {
  const Lock lock;
  return {own(H5Gopen2(handle_.id(), "/", H5P_DEFAULT), H5Gclose, name_, "open /"), name_, "/", bytes_};
}

File::~File() { abandon(); }

void File::check_output() const {
  if (!output_ || output_->error == 0) return;
  fail_to(output_->action, name_, output_->error);
}

std::uint64_t File::size() const {
  const Lock lock;
  hsize_t size = 0;
  check(H5Fget_filesize(handle_.id(), &size), name_, "find its size");
  return size;
}

void File::flush() {
  const Lock lock;
  const herr_t result = H5Fflush(handle_.id(), H5F_SCOPE_GLOBAL);
  check_output();
  check(result, name_, "write to the file");
}

void File::close() {
  const Lock lock;
  const herr_t result = H5Fclose(handle_.id());
  handle_ = Handle();
  check_output();
  check(result, name_, "close the file");
}

void File::abandon() noexcept {
  if (output_) output_->silent = true;
  handle_.reset();
}

}  // namespace keyscope::recording::hdf5
