#include "capture/recording/hdf5.hpp"

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "capture/recording/hdf5_dataset.hpp"
#include "capture/recording/hdf5_drivers.hpp"
#include "capture/recording/hdf5_node.hpp"
#include "capture/recording/hdf5_walk.hpp"

namespace keyscope::recording::hdf5 {
namespace {

constexpr hsize_t kMostMembers = 100000;
constexpr hsize_t kTextChunk = 4096;
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

//   numbers: of numbers, which have a value before they are written
Handle creation_properties(const DatasetOptions& options, const std::string& where, bool numbers = true) {
  Handle properties = own(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, where, "make properties");
  check(H5Pset_obj_track_times(properties.id(), false), where, "set properties");
  if (!options.chunk.empty())
    check(H5Pset_chunk(properties.id(), static_cast<int>(options.chunk.size()), options.chunk.data()), where,
          "set chunks of " + format_shape(options.chunk));
  if (numbers) set_fill(properties.id(), options, where);
  if (options.shuffle) check(H5Pset_shuffle(properties.id()), where, "set the shuffle filter");
  if (options.gzip > 0)
    check(H5Pset_deflate(properties.id(), static_cast<unsigned>(options.gzip)), where, "set gzip");
  return properties;
}

constexpr std::size_t kChunkSlots = 521;  // the default

Handle access_properties(std::size_t cache_bytes, const std::string& where) {
  Handle properties = own(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose, where, "make properties");
  // No chunk is dropped from the cache before it must be.
  check(H5Pset_chunk_cache(properties.id(), kChunkSlots, cache_bytes, 0), where, "set the chunk cache");
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
  // Of datasets for which none is asked; the first number means nothing.
  check(H5Pset_cache(properties.id(), 0, kChunkSlots, 0, 0), where, "set the chunk cache");
  return properties;
}

// What a virtual dataset stands for.
struct VirtualSource {
  std::string file, path;
  Shape shape;
};

std::string text_of(hid_t properties, ssize_t (*get)(hid_t, size_t, char*, size_t),
                    const std::string& where) {
  const ssize_t n = check(get(properties, 0, nullptr, 0), where, "read what it stands for");
  std::string text(static_cast<std::size_t>(n), '\0');
  check(get(properties, 0, text.data(), text.size() + 1), where, "read what it stands for");
  return text;
}

bool is_whole(hid_t space) { return H5Sget_select_type(space) == H5S_SEL_ALL; }

// Empty: no virtual dataset. Only properties are looked at: HDF5 opens other files as soon as it is asked for
// the extent of one.
//   throws FileError where it stands for anything but one whole dataset
std::optional<VirtualSource> virtual_source(hid_t dataset, const std::string& where) {
  const Handle properties =
      own(H5Dget_create_plist(dataset), H5Pclose, where, "read how the dataset is stored");
  if (H5Pget_layout(properties.id()) != H5D_VIRTUAL) return std::nullopt;
  std::size_t n_sources = 0;
  check(H5Pget_virtual_count(properties.id(), &n_sources), where, "read what it stands for");
  if (n_sources != 1)
    throw FileError(
        fmt::format("{}: a virtual dataset made of {}; expected one whole dataset of a study's "
                    "result",
                    where, n_sources));
  const auto space_of = [&](hid_t (*get)(hid_t, size_t)) {
    return own(get(properties.id(), 0), H5Sclose, where, "read what it stands for");
  };
  const Handle here = space_of(H5Pget_virtual_vspace), there = space_of(H5Pget_virtual_srcspace);
  if (!is_whole(here.id()) || !is_whole(there.id()))
    throw FileError(where + ": a virtual dataset made of a part of another; expected a whole one");
  VirtualSource source{text_of(properties.id(), H5Pget_virtual_filename, where),
                       text_of(properties.id(), H5Pget_virtual_dsetname, where),
                       Shape(check(H5Sget_simple_extent_ndims(here.id()), where, "read its shape"))};
  check(H5Sget_simple_extent_dims(here.id(), source.shape.data(), nullptr), where, "read its shape");
  return source;
}

// `results/3f/3f….h5`, as `sweep run` names what it writes: a file from elsewhere cannot have anything else
// of this machine read.
bool is_study_result(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.parent_path();
  return path.extension() == ".h5" && is_digest(path.stem().string(), 32) &&
         is_digest(folder.filename().string(), 2) && folder.parent_path().filename() == "results";
}

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (const std::filesystem::path& part : std::filesystem::path(path).relative_path())
    parts.push_back(part.string());
  return parts;
}

}  // namespace

class Sources {
 public:
  explicit Sources(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // The dataset that a virtual one stands for.
  //   where: the virtual one, for messages
  Dataset open_dataset(const VirtualSource& source, const std::string& where, std::size_t cache_bytes,
                       const Shape& needed) {
    if (!is_study_result(source.file))
      throw FileError(
          fmt::format("{}: a virtual dataset, which reads from {}; refused, as only the results of "
                      "a study are followed",
                      where, shown(source.file)));
    try {
      const std::vector<std::string> parts = parts_of(source.path);
      Group group = file(source.file).root();
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) group = group.open_group(parts[i]);
      Dataset dataset = group.open_dataset(parts.empty() ? "" : parts.back(), cache_bytes, needed);
      if (dataset.shape() == source.shape) return dataset;
      throw FileError(fmt::format("{}: shape is {}; expected {}", dataset.where(),
                                  format_shape(dataset.shape()), format_shape(source.shape)));
    } catch (const FileError& error) {
      throw FileError(
          fmt::format("{}: its numbers lie in another file: {}; merge the study again, with "
                      "--copy for a file that stands alone",
                      where, error.what()));
    }
  }

 private:
  const File& file(const std::string& name) {
    const auto found = files_.find(name);
    if (found != files_.end()) return found->second;
    File opened = File::open(folder_ / name, false);  // an absolute name stays what it is
    if (!opened.root().has_attribute("keyscope_format"))
      throw FileError(fmt::format("{}: no recording", (folder_ / name).string()));
    return files_.emplace(name, std::move(opened)).first->second;
  }

  std::filesystem::path folder_;
  std::map<std::string, File> files_;
};

Group::Group(Handle handle, std::string file, std::string path, std::uint64_t file_bytes,
             std::shared_ptr<Sources> sources)
    : Node(std::move(handle), fmt::format("{}: {}", file, path)),
      file_(std::move(file)),
      path_(std::move(path)),
      file_bytes_(file_bytes),
      sources_(std::move(sources)) {}

std::string Group::path_of(const std::string& name) const {
  return path_ == "/" ? "/" + name : path_ + "/" + name;
}

Group Group::create_group(const std::string& name, const std::string& nx_class) {
  const Lock lock;
  Group group(own(H5Gcreate2(id(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose, where_,
                  "create group " + name),
              file_, path_of(name), file_bytes_, sources_);
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
  const Handle properties = creation_properties(DatasetOptions(), where, false);
  const Handle dataset =
      own(H5Dcreate2(id(), name.c_str(), type.id(), space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT),
          H5Dclose, where, "create the dataset");
  const char* pointer = text.c_str();
  check(H5Dwrite(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, &pointer), where, "write");
}

Dataset Group::create_virtual(const std::string& name, const Dataset& source, const std::string& file,
                              const std::string& path) {
  const Lock lock;
  const std::string where = fmt::format("{}: {}", file_, path_of(name));
  const Shape& shape = source.shape();
  const Handle space = own(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose,
                           where, "make a dataspace");
  const Handle properties = creation_properties(DatasetOptions(), where);
  check(H5Pset_virtual(properties.id(), space.id(), file.c_str(), path.c_str(), space.id()), where,
        "say what it stands for");
  const Handle element = file_type(source.type());
  return {
      own(H5Dcreate2(id(), name.c_str(), element.id(), space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT),
          H5Dclose, where, "create the dataset"),
      where};
}

namespace {

constexpr std::size_t kMostTextBytes = 1 << 16;               // of one text of a list
constexpr std::size_t kMostListBytes = std::size_t{1} << 32;  // of all of them

Handle text_type(std::size_t n_bytes, const std::string& where) {
  Handle type = own(H5Tcopy(H5T_C_S1), H5Tclose, where, "make a text type");
  check(H5Tset_size(type.id(), n_bytes), where, "make a text type");
  check(H5Tset_cset(type.id(), H5T_CSET_UTF8), where, "make a text type");
  check(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), where, "make a text type");
  return type;
}

}  // namespace

Dataset Group::create_texts(const std::string& name, hsize_t n_texts, std::size_t n_bytes, int gzip) {
  const Lock lock;
  const std::string where = fmt::format("{}: {}", file_, path_of(name));
  DatasetOptions options;
  if (n_texts > 0) {
    options.chunk = {std::min(n_texts, kTextChunk)};
    options.gzip = gzip;
  }
  const Handle space = own(H5Screate_simple(1, &n_texts, nullptr), H5Sclose, where, "make a dataspace");
  const Handle properties = creation_properties(options, where, false);
  const Handle type = text_type(std::max<std::size_t>(n_bytes, 1), where);
  return {
      own(H5Dcreate2(id(), name.c_str(), type.id(), space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT),
          H5Dclose, where, "create the dataset"),
      where};
}

std::vector<std::string> Group::read_texts(const std::string& name) const {
  const Lock lock(where_);
  Handle handle = open_data(name, 0);
  const std::string where = fmt::format("{}: {}", file_, path_of(name));
  refuse_foreign_storage(handle.id(), where);
  const Dataset dataset(std::move(handle), where);
  const Handle type = own(H5Dget_type(dataset.id()), H5Tclose, where, "read its type");
  const std::size_t width = H5Tget_size(type.id());
  if (H5Tget_class(type.id()) != H5T_STRING || H5Tis_variable_str(type.id()) > 0 || width > kMostTextBytes ||
      dataset.shape().size() != 1)
    throw FileError(fmt::format("{}: expected a list of texts of up to {} bytes", where, kMostTextBytes));
  if (file_bytes_ > 0) refuse_overdeclared(dataset, {}, file_bytes_);
  const std::size_t n = dataset.shape().front();
  if (n > kMostListBytes / width)
    throw FileError(fmt::format("{}: claims {} texts of {} bytes", where, n, width));
  std::string bytes(n * width, '\0');
  const Handle memory = text_type(width, where);
  if (n > 0)
    check(H5Dread(dataset.id(), memory.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), where, "read");
  std::vector<std::string> texts;
  texts.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::string_view text(&bytes[i * width], width);
    texts.emplace_back(text.substr(0, text.find('\0')));
  }
  return texts;
}

std::vector<std::string> Group::names() const {
  const Lock lock(where_);
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
  const Lock lock(where_);
  if (!is_member_name(name)) return H5I_BADID;
  if (check(H5Lexists(id(), name.c_str(), H5P_DEFAULT), where_, "look for " + name) == 0) return H5I_BADID;
  H5L_info_t link;
  check(H5Lget_info(id(), name.c_str(), &link, H5P_DEFAULT), where_, "look at " + name);
  if (link.type != H5L_TYPE_HARD) return H5I_BADID;
  const Handle object = own(H5Oopen(id(), name.c_str(), H5P_DEFAULT), H5Oclose, where_, "open " + name);
  return H5Iget_type(object.id());
}

bool Group::has(const std::string& name) const {
  const Lock lock(where_);
  return is_member_name(name) &&
         check(H5Lexists(id(), name.c_str(), H5P_DEFAULT), where_, "look for " + name) > 0;
}

bool Group::has_group(const std::string& name) const { return member_type(name) == H5I_GROUP; }
bool Group::has_dataset(const std::string& name) const { return member_type(name) == H5I_DATASET; }

Handle Group::open_member(const std::string& name, H5I_type_t type) const {
  const char* expected = type == H5I_GROUP ? "group" : "dataset";
  if (!is_member_name(name))
    throw FileError(
        fmt::format("{}: {} is a path; expected the name of a {}", where_, shown(name), expected));
  if (!has(name)) throw FileError(fmt::format("{}: {} '{}' is missing", where_, expected, name));
  H5L_info_t link;
  check(H5Lget_info(id(), name.c_str(), &link, H5P_DEFAULT), where_, "look at " + name);
  if (link.type != H5L_TYPE_HARD)
    throw FileError(fmt::format("{}: '{}' is {} link; refused, a {} was expected in this place", where_, name,
                                link.type == H5L_TYPE_SOFT ? "a soft" : "an external", expected));
  Handle object = own(H5Oopen(id(), name.c_str(), H5P_DEFAULT), H5Oclose, where_, "open " + name);
  if (H5Iget_type(object.id()) != type)
    throw FileError(fmt::format("{}: '{}' is not a {}, as was expected", where_, name, expected));
  return object;
}

Group Group::open_group(const std::string& name) const {
  if (path_ != "/" || file_bytes_ == 0) return peek(name);
  auto texts = require_sound(file_, name);
  Group group = peek(name);
  group.use_texts(std::move(texts));
  return group;
}

Group Group::peek(const std::string& name) const {
  const Lock lock(where_);
  Group group{open_member(name, H5I_GROUP), file_, path_of(name), file_bytes_, sources_};
  group.use_texts(texts_);
  return group;
}

Handle Group::open_data(const std::string& name, std::size_t cache_bytes) const {
  Handle object = open_member(name, H5I_DATASET);
  if (cache_bytes == 0) return object;
  object.reset();  // while it is open, no other cache can be had
  const std::string where = fmt::format("{}: {}", file_, path_of(name));
  const Handle access = access_properties(cache_bytes, where);
  return own(H5Dopen2(id(), name.c_str(), access.id()), H5Dclose, where, "open the dataset");
}

Dataset Group::open_dataset(const std::string& name, std::size_t cache_bytes, const Shape& needed) const {
  const Lock lock(where_);
  Handle handle = open_data(name, cache_bytes);
  const std::string where = fmt::format("{}: {}", file_, path_of(name));
  if (sources_ != nullptr)
    if (const auto source = virtual_source(handle.id(), where))
      return sources_->open_dataset(*source, where, cache_bytes, needed);
  refuse_foreign_storage(handle.id(), where);
  Dataset dataset(std::move(handle), where);
  dataset.use_texts(texts_);
  if (file_bytes_ > 0) refuse_overdeclared(dataset, needed, file_bytes_);
  return dataset;
}

File File::create(const std::filesystem::path& path, const std::filesystem::path& name) {
  const Lock lock;
  File file;
  file.name_ = (name.empty() ? path : name).string();
  file.output_ = std::make_unique<OutputState>();
  const Handle access = file_properties(file.name_);
  use_output_driver(access.id(), *file.output_, file.name_);
  const hid_t id = H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access.id());
  file.check_output();
  file.handle_ = own(id, H5Fclose, file.name_, "create the file");
  return file;
}

// A lock goes with what was opened, of which this is another descriptor.
std::unique_ptr<Descriptor> File::keep_lock() const {
  auto lock = std::make_unique<Descriptor>(::fcntl(descriptor(), F_DUPFD_CLOEXEC, 0));
  if (lock->id() < 0) fail_to("keep its lock", name_, errno);
  return lock;
}

namespace {

// Of a file that may be read: what fails is its contents.
Handle open_to_read(const std::string& path, hid_t access) try {
  return own(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), H5Fclose, path, "open as HDF5");
} catch (const FileError& error) {
  throw FileError(fmt::format("{}; {}", error.what(), kAsWritten));
}

}  // namespace

File File::open(const std::filesystem::path& path, bool follow) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw FileError(path.string() + ": no such file");
  if (!std::filesystem::is_regular_file(status))
    throw FileError(fmt::format("{}: is {}, expected an HDF5 file", path.string(),
                                std::filesystem::is_directory(status) ? "a folder" : "no regular file"));
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) throw FileError(fmt::format("{}: cannot open: {}", path.string(), error.message()));
  if (const Descriptor readable(path, O_RDONLY); readable.id() < 0) fail_to("open", path.string(), errno);
  auto texts = require_sound(path);
  const std::string name = path.string();
  const Lock lock(name);
  if (H5Fis_hdf5(path.c_str()) == 0)
    throw FileError(path.extension() == ".part"
                        ? path.string() +
                              ": nothing was recorded yet when this capture was killed; run it again"
                        : path.string() + ": is no HDF5 file (or has lost its beginning)");
  const Handle access = file_properties(path.string());
  use_input_driver(access.id(), path.string());
  File file{open_to_read(path.string(), access.id()), path.string(), bytes};
  file.texts_ = std::move(texts);
  if (follow) file.sources_ = std::make_shared<Sources>(folder_of(path));
  return file;
}

Group File::root() const {
  const Lock lock(name_);
  Group root{own(H5Gopen2(handle_.id(), "/", H5P_DEFAULT), H5Gclose, name_, "open /"), name_, "/", bytes_,
             sources_};
  root.use_texts(texts_);
  return root;
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
