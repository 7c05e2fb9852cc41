#include "capture/recording/hdf5_node.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "capture/recording/hdf5_walk.hpp"

namespace keyscope::recording {

void FairMutex::lock() {
  const std::thread::id me = std::this_thread::get_id();
  if (owner_ != me) {
    std::unique_lock gate(gate_);
    const std::uint64_t turn = n_came_++;
    next_turn_.wait(gate, [&] { return n_left_ == turn; });
    owner_ = me;
  }
  ++depth_;
}

void FairMutex::unlock() {
  if (--depth_ > 0) return;
  {
    const std::lock_guard gate(gate_);
    owner_ = std::thread::id();
    ++n_left_;
  }
  next_turn_.notify_all();
}

}  // namespace keyscope::recording

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

thread_local const std::string* place_of_thread = nullptr;

}  // namespace

bool is_member_name(std::string_view name) {
  return !name.empty() && name != "." && name.find('/') == name.npos;
}

Lock::Lock() : lock_(library_mutex()), outer_(place_of_thread) {
  thread_local const bool silenced = [] {
    // The error stack, and with it the switch for printing it, belongs to the thread.
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    // No file may make this process load a filter plug-in.
    H5PLset_loading_state(0);
    return true;
  }();
  static_cast<void>(silenced);
}

Lock::Lock(const std::string& where) : Lock() { place_of_thread = &where; }

Lock::~Lock() { place_of_thread = outer_; }

const std::string* Lock::place() { return place_of_thread; }

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

namespace {

constexpr hssize_t kMostEntries = 1 << 20;

Handle variable_text_type(H5T_cset_t character_set, const std::string& where) {
  Handle type = own(H5Tcopy(H5T_C_S1), H5Tclose, where, "make a text type");
  check(H5Tset_size(type.id(), H5T_VARIABLE), where, "make a text type");
  check(H5Tset_cset(type.id(), character_set), where, "make a text type");
  return type;
}

Handle simple_space(std::size_t n, const std::string& where) {
  const hsize_t extent = n;
  return own(H5Screate_simple(1, &extent, nullptr), H5Sclose, where, "make a dataspace");
}

Handle create_attribute(hid_t node, const std::string& name, hid_t type, hid_t space,
                        const std::string& where) {
  return own(H5Acreate2(node, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose, where,
             "create attribute '" + name + "'");
}

// Variable-length texts, copied out and given back to the library.
std::vector<std::string> read_variable(hid_t attribute, hid_t space, H5T_cset_t character_set, std::size_t n,
                                       const std::string& where) {
  const Handle type = variable_text_type(character_set, where);
  std::vector<char*> raw(n, nullptr);
  check(H5Aread(attribute, type.id(), raw.data()), where, "read an attribute");
  std::vector<std::string> texts;
  texts.reserve(raw.size());
  for (const char* text : raw) texts.emplace_back(text == nullptr ? "" : text);
  H5Dvlen_reclaim(type.id(), space, H5P_DEFAULT, raw.data());
  return texts;
}

std::vector<std::string> read_fixed(hid_t attribute, hid_t type, std::size_t n, const std::string& where) {
  const std::size_t size = H5Tget_size(type);
  if (size == 0 || H5Aget_storage_size(attribute) < size * n)
    throw FileError(where + ": an attribute declares more text than it stores");
  std::vector<char> raw(size * n);
  check(H5Aread(attribute, type, raw.data()), where, "read an attribute");
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < n; ++i) {
    const char* first = raw.data() + i * size;
    std::string text(first, std::find(first, first + size, '\0'));
    if (H5Tget_strpad(type) == H5T_STR_SPACEPAD) text.erase(text.find_last_not_of(' ') + 1);
    texts.push_back(std::move(text));
  }
  return texts;
}

herr_t collect_name(hid_t, const char* name, const H5A_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

// The library trusts an attribute's own word on how long an element is, and reads beyond what it holds.
void require_stored(hid_t attribute, std::size_t n, std::size_t element_bytes, const std::string& where) {
  const hsize_t stored = H5Aget_storage_size(attribute);
  if (stored != n * element_bytes)
    throw FileError(
        fmt::format("{}: stores {} bytes; expected {} elements of {}", where, stored, n, element_bytes));
}

// A text of variable length is stored as its length, and the address (8 bytes) and index of an object in a
// heap.
constexpr std::size_t kVariableTextBytes = 16;

}  // namespace

void Texts::add(haddr_t object, std::string attribute, std::vector<std::string> texts) {
  texts_.insert_or_assign({object, std::move(attribute)}, std::move(texts));
}

const std::vector<std::string>* Texts::find(haddr_t object, const std::string& attribute) const {
  const auto found = texts_.find({object, attribute});
  return found == texts_.end() ? nullptr : &found->second;
}

void Node::set_text(const std::string& name, const std::string& text) {
  const Lock lock;
  const Handle type = variable_text_type(H5T_CSET_UTF8, where_);
  const Handle space = own(H5Screate(H5S_SCALAR), H5Sclose, where_, "make a dataspace");
  const Handle attribute = create_attribute(id(), name, type.id(), space.id(), where_);
  const char* pointer = text.c_str();
  check(H5Awrite(attribute.id(), type.id(), &pointer), where_, "write attribute '" + name + "'");
}

void Node::set_texts(const std::string& name, const std::vector<std::string>& texts) {
  const Lock lock;
  const Handle type = variable_text_type(H5T_CSET_UTF8, where_);
  const Handle space = simple_space(texts.size(), where_);
  const Handle attribute = create_attribute(id(), name, type.id(), space.id(), where_);
  std::vector<const char*> pointers;
  pointers.reserve(texts.size());
  for (const auto& text : texts) pointers.push_back(text.c_str());
  check(H5Awrite(attribute.id(), type.id(), pointers.data()), where_, "write attribute '" + name + "'");
}

void Node::set_integer(const std::string& name, std::int64_t value) {
  const Lock lock;
  Handle attribute;
  if (has_attribute(name)) {
    attribute = open_attribute(name);
  } else {
    const Handle space = own(H5Screate(H5S_SCALAR), H5Sclose, where_, "make a dataspace");
    attribute = create_attribute(id(), name, H5T_STD_I64LE, space.id(), where_);
  }
  check(H5Awrite(attribute.id(), H5T_NATIVE_INT64, &value), where_, "write attribute '" + name + "'");
}

void Node::set_integers(const std::string& name, const std::vector<std::int64_t>& values) {
  const Lock lock;
  const Handle space = simple_space(values.size(), where_);
  const Handle attribute = create_attribute(id(), name, H5T_STD_I64LE, space.id(), where_);
  check(H5Awrite(attribute.id(), H5T_NATIVE_INT64, values.data()), where_, "write attribute '" + name + "'");
}

bool Node::has_attribute(const std::string& name) const {
  const Lock lock(where_);
  return check(H5Aexists(id(), name.c_str()), where_, "look for attribute '" + name + "'") > 0;
}

std::vector<std::string> Node::attribute_names() const {
  const Lock lock(where_);
  std::vector<std::string> names;
  check(H5Aiterate2(id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, collect_name, &names), where_,
        "list attributes");
  return names;
}

bool Node::is_text(const std::string& name) const {
  const Lock lock(where_);
  const Handle attribute = open_attribute(name);
  const Handle type = own(H5Aget_type(attribute.id()), H5Tclose, where_, "read the type of '" + name + "'");
  return H5Tget_class(type.id()) == H5T_STRING;
}

bool Node::is_list(const std::string& name) const {
  const Lock lock(where_);
  const Handle attribute = open_attribute(name);
  const Handle space =
      own(H5Aget_space(attribute.id()), H5Sclose, where_, "read the extent of '" + name + "'");
  return H5Sget_simple_extent_ndims(space.id()) > 0;
}

Handle Node::open_attribute(const std::string& name) const {
  if (!has_attribute(name)) throw FileError(fmt::format("{}: attribute '{}' is missing", where_, name));
  return own(H5Aopen(id(), name.c_str(), H5P_DEFAULT), H5Aclose, where_, "open attribute '" + name + "'");
}

std::vector<std::string> Node::texts(const std::string& name) const {
  const Lock lock(where_);
  const Handle attribute = open_attribute(name);
  const std::string where = fmt::format("{}: attribute '{}'", where_, name);
  const Handle type = own(H5Aget_type(attribute.id()), H5Tclose, where, "read its type");
  if (H5Tget_class(type.id()) != H5T_STRING) throw FileError(where + " is no text; expected UTF-8 text");
  const Handle space = own(H5Aget_space(attribute.id()), H5Sclose, where, "read its extent");
  const hssize_t n = check(H5Sget_simple_extent_npoints(space.id()), where, "read its extent");
  if (n > kMostEntries) throw FileError(fmt::format("{} declares {} texts", where, n));
  if (n == 0) return {};
  const auto count = static_cast<std::size_t>(n);
  const bool variable = check(H5Tis_variable_str(type.id()), where, "read its type") > 0;
  require_stored(attribute.id(), count, variable ? kVariableTextBytes : H5Tget_size(type.id()), where);
  if (!variable) return read_fixed(attribute.id(), type.id(), count, where);
  if (!texts_) return read_variable(attribute.id(), space.id(), H5Tget_cset(type.id()), count, where);
  H5O_info_t object;
  check(H5Oget_info2(id(), &object, H5O_INFO_BASIC), where, "look at its object");
  const std::vector<std::string>* found = texts_->find(object.addr, name);
  if (found == nullptr || found->size() != count)
    throw FileError(fmt::format("{}: cannot read its text; {}", where, kAsWritten));
  return *found;
}

std::string Node::text(const std::string& name) const {
  std::vector<std::string> found = texts(name);
  if (found.size() != 1)
    throw FileError(
        fmt::format("{}: attribute '{}' holds {} texts; expected one", where_, name, found.size()));
  return std::move(found.front());
}

std::vector<std::int64_t> Node::integers(const std::string& name) const {
  const Lock lock(where_);
  const Handle attribute = open_attribute(name);
  const std::string where = fmt::format("{}: attribute '{}'", where_, name);
  const Handle type = own(H5Aget_type(attribute.id()), H5Tclose, where, "read its type");
  const Handle space = own(H5Aget_space(attribute.id()), H5Sclose, where, "read its extent");
  if (H5Tget_class(type.id()) != H5T_INTEGER || H5Tget_size(type.id()) > sizeof(std::int64_t))
    throw FileError(where + " is no integer; expected int64");
  const hssize_t n = check(H5Sget_simple_extent_npoints(space.id()), where, "read its extent");
  if (n > kMostEntries) throw FileError(fmt::format("{} declares {} integers", where, n));
  std::vector<std::int64_t> values(static_cast<std::size_t>(n));
  if (values.empty()) return values;
  require_stored(attribute.id(), values.size(), H5Tget_size(type.id()), where);
  check(H5Aread(attribute.id(), H5T_NATIVE_INT64, values.data()), where, "read it");
  return values;
}

std::int64_t Node::integer(const std::string& name) const {
  const std::vector<std::int64_t> found = integers(name);
  if (found.size() != 1)
    throw FileError(
        fmt::format("{}: attribute '{}' is no single integer; expected an int64 scalar", where_, name));
  return found.front();
}

}  // namespace keyscope::recording::hdf5
