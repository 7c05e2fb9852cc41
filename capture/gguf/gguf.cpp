#include "capture/gguf/gguf.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <system_error>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace keyscope::gguf {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint64_t kLongestKey = 65535;
constexpr std::uint32_t kMostDimensions = 4;
constexpr std::uint64_t kUsualAlignment = 32;
constexpr std::uint64_t kLargestAlignment = std::uint64_t{1} << 20;
constexpr int kDeepestArray = 4;

struct TypeInfo {
  std::string_view name;
  std::size_t n_bytes;  // 0: they differ
};

constexpr std::array<TypeInfo, 13> kTypes{{{"uint8", 1},
                                           {"int8", 1},
                                           {"uint16", 2},
                                           {"int16", 2},
                                           {"uint32", 4},
                                           {"int32", 4},
                                           {"float32", 4},
                                           {"a boolean", 1},
                                           {"a string", 0},
                                           {"an array", 0},
                                           {"uint64", 8},
                                           {"int64", 8},
                                           {"float64", 8}}};

const TypeInfo& info_of(ValueType type) { return kTypes.at(static_cast<std::size_t>(type)); }

template <typename T>
T number_at(std::span<const std::byte> bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// Reads a file's bytes in order, never past their end.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}

  std::size_t at() const { return at_; }
  std::size_t n_left() const { return bytes_.size() - at_; }
  const std::string& name() const { return name_; }

  std::span<const std::byte> take(std::uint64_t n, std::string_view what) {
    if (n > n_left())
      throw FileError(fmt::format("{}: {} takes {} bytes, and only {} are left; it is cut short or damaged",
                                  name_, what, n, n_left()));
    const auto taken = bytes_.subspan(at_, n);
    at_ += n;
    return taken;
  }

  template <std::integral T>
  T integer(std::string_view what) {
    return number_at<T>(take(sizeof(T), what));
  }

  std::string_view string(std::string_view what) {
    const auto n = integer<std::uint64_t>(what);
    const auto text = take(n, what);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

  ValueType type(std::string_view what) {
    const auto id = integer<std::uint32_t>(what);
    if (id >= kTypes.size())
      throw FileError(
          fmt::format("{}: {} is of type {}, expected 0 to {}", name_, what, id, kTypes.size() - 1));
    return static_cast<ValueType>(id);
  }

  // Goes past n elements of an array.
  void skip(ValueType element, std::uint64_t n, std::string_view what, int depth) {
    if (const std::size_t size = info_of(element).n_bytes; size > 0) {
      if (n > n_left() / size)
        throw FileError(
            fmt::format("{}: {} has {} elements, and only {} bytes are left; it is cut short or "
                        "damaged",
                        name_, what, n, n_left()));
      take(n * size, what);
      return;
    }
    for (std::uint64_t i = 0; i < n; ++i) skip_one(element, what, depth);  // each takes bytes, or fails
  }

 private:
  void skip_one(ValueType type, std::string_view what, int depth) {
    if (type == ValueType::kString) {
      string(what);
      return;
    }
    if (depth == kDeepestArray)
      throw FileError(fmt::format("{}: {} has arrays nested deeper than {}", name_, what, kDeepestArray));
    const ValueType element = this->type(what);
    skip(element, integer<std::uint64_t>(what), what, depth + 1);
  }

  std::span<const std::byte> bytes_;
  std::string name_;
  std::size_t at_ = 0;
};

Value read_value(Cursor& cursor, std::span<const std::byte> bytes, const std::string& place,
                 std::string_view what) {
  const ValueType type = cursor.type(what);
  if (type == ValueType::kArray) {
    const ValueType element = cursor.type(what);
    const auto n = cursor.integer<std::uint64_t>(what);
    const std::size_t begin = cursor.at();
    cursor.skip(element, n, what, 1);
    return {element, n, bytes.subspan(begin, cursor.at() - begin), place};
  }
  if (type == ValueType::kString) {
    const std::string_view text = cursor.string(what);
    return {type, std::as_bytes(std::span(text)), place};
  }
  return {type, cursor.take(info_of(type).n_bytes, what), place};
}

void read_metadata(Cursor& cursor, std::span<const std::byte> bytes, std::uint64_t n, Contents& contents) {
  for (std::uint64_t i = 0; i < n; ++i) {
    const std::string_view key = cursor.string(fmt::format("the key of metadata {} of {}", i + 1, n));
    if (key.size() > kLongestKey)
      throw FileError(
          fmt::format("{}: a key has {} bytes, expected at most {}", cursor.name(), key.size(), kLongestKey));
    const std::string what = fmt::format("metadata {}", shown(key));
    contents.places.push_back(std::make_unique<std::string>(fmt::format("{}: {}", cursor.name(), what)));
    const Value value = read_value(cursor, bytes, *contents.places.back(), what);
    if (!contents.metadata.emplace(key, value).second)
      throw FileError(fmt::format("{}: {} is there twice, expected once", cursor.name(), what));
  }
}

std::uint64_t alignment_of(const Contents& contents) {
  const auto found = contents.metadata.find("general.alignment");
  if (found == contents.metadata.end()) return kUsualAlignment;
  const auto alignment =
      static_cast<std::uint64_t>(found->second.integer(1, static_cast<std::int64_t>(kLargestAlignment)));
  if (!std::has_single_bit(alignment)) found->second.fail(std::to_string(alignment), "a power of two");
  return alignment;
}

// Where a tensor's bytes lie, counted from where all tensors' begin.
struct Extent {
  std::uint64_t begin = 0, end = 0;
  std::string name;
};

[[noreturn]] void fail_tensor(const std::string& file, std::string_view tensor, const std::string& what) {
  throw FileError(fmt::format("{}: tensor {}: {}", file, shown(tensor), what));
}

// The number of bytes that a tensor's sizes mean.
std::uint64_t bytes_of(const Tensor& tensor, std::string_view name) {
  const BlockFormat& format = *tensor.format;
  const std::int64_t row = tensor.shape.back();
  if (row % format.n_values != 0)
    fail_tensor(tensor.file, name,
                fmt::format("a row has {} values, expected a multiple of {}, the block of {}", row,
                            format.n_values, format.name));
  std::int64_t n = row / format.n_values;
  bool overflows = __builtin_mul_overflow(n, format.n_bytes, &n);
  for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i)
    overflows = overflows || __builtin_mul_overflow(n, tensor.shape[i], &n);
  std::int64_t n_elements = 1;  // which are more than bytes where the bits are few
  for (const std::int64_t size : tensor.shape)
    overflows = overflows || __builtin_mul_overflow(n_elements, size, &n_elements);
  if (overflows)
    fail_tensor(tensor.file, name,
                fmt::format("its shape [{}] is too large for 64 bits", shown_list(tensor.shape)));
  return static_cast<std::uint64_t>(n);
}

Extent read_tensor_info(Cursor& cursor, std::uint64_t alignment, const std::string& which,
                        Contents& contents) {
  Extent extent;
  extent.name = cursor.string("the name of " + which);
  const std::string what = "tensor " + shown(extent.name);
  Tensor tensor{nullptr, {}, {}, cursor.name()};
  const auto n_dimensions = cursor.integer<std::uint32_t>(what);
  if (n_dimensions < 1 || n_dimensions > kMostDimensions)
    fail_tensor(cursor.name(), extent.name,
                fmt::format("it has {} dimensions, expected 1 to {}", n_dimensions, kMostDimensions));
  for (std::uint32_t i = 0; i < n_dimensions; ++i) {
    const auto size = cursor.integer<std::uint64_t>(what);
    if (size < 1 || size > INT64_MAX)
      fail_tensor(cursor.name(), extent.name,
                  fmt::format("dimension {} is {}, expected 1 to {}", i, size, INT64_MAX));
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(size));
  }
  const auto id = cursor.integer<std::uint32_t>(what);
  tensor.format = find_block_format(id);
  if (tensor.format == nullptr)
    fail_tensor(cursor.name(), extent.name,
                fmt::format("its type is {}, expected that of {}", id, supported_block_formats()));
  extent.begin = cursor.integer<std::uint64_t>(what);
  if (extent.begin % alignment != 0)
    fail_tensor(cursor.name(), extent.name,
                fmt::format("its data begins at {}, expected a multiple of {}", extent.begin, alignment));
  if (__builtin_add_overflow(extent.begin, bytes_of(tensor, extent.name), &extent.end))
    fail_tensor(cursor.name(), extent.name,
                fmt::format("its data begins at {}, which is too far for 64 bits", extent.begin));
  if (!contents.tensors.emplace(extent.name, std::move(tensor)).second)
    fail_tensor(cursor.name(), extent.name, "it is there twice, expected once");
  return extent;
}

void place_tensors(std::span<const std::byte> data, std::vector<Extent>& extents, const std::string& file,
                   TensorTable& tensors) {
  std::ranges::sort(extents, {}, [](const Extent& extent) { return std::pair(extent.begin, extent.end); });
  std::uint64_t end = 0;
  const Extent* before = nullptr;
  for (const Extent& extent : extents) {
    if (extent.begin < end)
      fail_tensor(file, extent.name,
                  fmt::format("its data begins at {}, within that of {}, which ends at {}", extent.begin,
                              shown(before->name), end));
    if (extent.end > data.size())
      fail_tensor(file, extent.name,
                  fmt::format("its data ends at {}, and the file holds {} bytes of data; it is cut short",
                              extent.end, data.size()));
    tensors.find(extent.name)->second.data = data.subspan(extent.begin, extent.end - extent.begin);
    end = extent.end;
    before = &extent;
  }
}

void check_version(std::uint32_t version, const std::string& file) {
  if (version == 2 || version == 3) return;
  const bool swapped = (version & 0xFFFFU) == 0 && version != 0;
  throw FileError(fmt::format("{}: version {} of GGUF, expected 2 or 3{}", file, version,
                              swapped ? "; it is a big-endian file" : ""));
}

}  // namespace

Contents parse_gguf(std::span<const std::byte> bytes, const std::string& name) {
  Cursor cursor(bytes, name);
  const auto magic = cursor.take(std::min(kMagic.size(), bytes.size()), "the beginning");
  if (std::string_view(reinterpret_cast<const char*>(magic.data()), magic.size()) != kMagic)
    throw FileError(fmt::format("{}: does not begin with GGUF; expected a GGUF file", name));
  check_version(cursor.integer<std::uint32_t>("the version"), name);
  const auto n_tensors = cursor.integer<std::uint64_t>("the number of tensors");
  const auto n_metadata = cursor.integer<std::uint64_t>("the number of metadata");
  Contents contents;
  read_metadata(cursor, bytes, n_metadata, contents);
  const std::uint64_t alignment = alignment_of(contents);
  std::vector<Extent> extents;
  for (std::uint64_t i = 0; i < n_tensors; ++i)
    extents.push_back(
        read_tensor_info(cursor, alignment, fmt::format("tensor {} of {}", i + 1, n_tensors), contents));
  // Without a tensor there may be no padding either.
  const std::uint64_t padded = (cursor.at() + alignment - 1) / alignment * alignment;
  contents.data_begin = std::min<std::uint64_t>(padded, bytes.size());
  place_tensors(bytes.subspan(contents.data_begin), extents, name, contents.tensors);
  return contents;
}

std::int64_t Tensor::n_elements() const {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  return n;
}

namespace {

// What an integer of any width holds; nothing where it is none, or above 63 bits.
std::optional<std::int64_t> integer_in(ValueType type, std::span<const std::byte> bytes) {
  switch (type) {
    case ValueType::kUint8:
      return number_at<std::uint8_t>(bytes);
    case ValueType::kInt8:
      return number_at<std::int8_t>(bytes);
    case ValueType::kUint16:
      return number_at<std::uint16_t>(bytes);
    case ValueType::kInt16:
      return number_at<std::int16_t>(bytes);
    case ValueType::kUint32:
      return number_at<std::uint32_t>(bytes);
    case ValueType::kInt32:
      return number_at<std::int32_t>(bytes);
    case ValueType::kInt64:
      return number_at<std::int64_t>(bytes);
    case ValueType::kUint64: {
      const auto value = number_at<std::uint64_t>(bytes);
      if (value > INT64_MAX) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

double shortest_decimal(float value) {
  if (!std::isfinite(value)) return value;
  const std::string text = fmt::format("{}", value);
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

void Value::fail(const std::string& found, const std::string& expected) const {
  throw FileError(fmt::format("{} is {}, expected {}", *where_, found, expected));
}

// For messages: what the value is, in few words.
std::string Value::shown_kind() const {
  if (is_array()) return fmt::format("an array of {} ({})", n_, info_of(element_).name);
  if (type_ == ValueType::kString) return shown(string());
  if (const auto value = integer_in(type_, bytes_)) return std::to_string(*value);
  if (type_ == ValueType::kFloat32 || type_ == ValueType::kFloat64) return fmt::format("{}", number());
  return std::string(info_of(type_).name);
}

std::int64_t Value::integer(std::int64_t least, std::int64_t most) const {
  const auto value = integer_in(type_, bytes_);
  if (!value || *value < least || *value > most)
    fail(shown_kind(), fmt::format("an integer from {} to {}", least, most));
  return *value;
}

double Value::number() const {
  if (type_ == ValueType::kFloat32) return shortest_decimal(number_at<float>(bytes_));
  if (type_ == ValueType::kFloat64) return number_at<double>(bytes_);
  const auto value = integer_in(type_, bytes_);
  if (!value) fail(shown_kind(), "a number");
  return static_cast<double>(*value);
}

bool Value::boolean() const {
  const bool sound = type_ == ValueType::kBool && number_at<std::uint8_t>(bytes_) <= 1;
  if (!sound) fail(shown_kind(), "true or false");
  return number_at<std::uint8_t>(bytes_) == 1;
}

std::string_view Value::string() const {
  if (type_ != ValueType::kString) fail(shown_kind(), "a string");
  return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
}

std::uint64_t Value::size() const {
  if (!is_array()) fail(shown_kind(), "an array");
  return n_;
}

void Value::for_each(CallbackRef<void(const Value&)> visit) const {
  if (!is_array()) fail(shown_kind(), "an array");
  const std::size_t size = info_of(element_).n_bytes;
  if (size > 0) {
    for (std::uint64_t i = 0; i < n_; ++i) visit(Value(element_, bytes_.subspan(i * size, size), *where_));
    return;
  }
  Cursor cursor(bytes_, *where_);
  for (std::uint64_t i = 0; i < n_; ++i) {
    if (element_ == ValueType::kString) {
      const std::string_view text = cursor.string("an element");
      visit(Value(element_, std::as_bytes(std::span(text)), *where_));
      continue;
    }
    const ValueType inner = cursor.type("an element");
    const auto n = cursor.integer<std::uint64_t>("an element");
    const std::size_t begin = cursor.at();
    cursor.skip(inner, n, "an element", 1);
    visit(Value(inner, n, bytes_.subspan(begin, cursor.at() - begin), *where_));
  }
}

File::File(const fs::path& path)
    : path_(path), mapped_(path), contents_(parse_gguf(mapped_.bytes(), path.string())) {}

std::string_view File::text() const {
  return {reinterpret_cast<const char*>(mapped_.bytes().data()), mapped_.bytes().size()};
}

namespace {

// "model-00001-of-00003.gguf" is part 1 of 3 of "model".
struct Part {
  std::string stem;
  int number = 0, count = 0;

  std::string file_name(int which) const { return fmt::format("{}-{:05}-of-{:05}.gguf", stem, which, count); }
};

std::optional<Part> part_of(const fs::path& path) {
  constexpr std::size_t kTail = std::string_view("-00001-of-00003").size();
  const std::string stem = path.stem().string();
  if (stem.size() < kTail) return std::nullopt;
  const std::string_view tail = std::string_view(stem).substr(stem.size() - kTail);
  Part part{stem.substr(0, stem.size() - kTail)};
  const auto read = [](std::string_view digits, int& number) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return error == std::errc() && end == digits.data() + digits.size();
  };
  const bool sound = tail[0] == '-' && tail.substr(6, 4) == "-of-" && read(tail.substr(1, 5), part.number) &&
                     read(tail.substr(10, 5), part.count) && part.number >= 1 && part.number <= part.count;
  if (!sound) return std::nullopt;
  return part;
}

}  // namespace

Container::Container(const fs::path& path) : name_(path.string()) {
  add(path);
  const Value* count = find("split.count");
  const std::int64_t n_parts = count == nullptr ? 1 : count->integer(0, 99999);
  if (n_parts <= 1) return;
  const auto part = part_of(path);
  if (!part || part->count != n_parts)
    count->fail(std::to_string(n_parts), "as many parts as the name says, such as model-00001-of-00003.gguf");
  if (part->number != 1)
    throw FileError(fmt::format("{}: is part {} of {}; name the first, {}", name_, part->number, n_parts,
                                part->file_name(1)));
  for (int i = 2; i <= n_parts; ++i) {
    add(folder_of(path) / part->file_name(i));
    const auto& metadata = files_.back()->contents().metadata;
    const auto number = metadata.find("split.no");
    if (number == metadata.end() || number->second.integer(0, 99999) != i - 1)
      throw FileError(
          fmt::format("{}: its split.no is not {}, as its name says", files_.back()->path().string(), i - 1));
  }
  if (const Value* n_tensors = find("split.tensors.count");
      n_tensors != nullptr && n_tensors->integer(0, INT64_MAX) != std::ssize(tensors_))
    n_tensors->fail(std::to_string(n_tensors->integer(0, INT64_MAX)),
                    fmt::format("{}, as its parts hold", tensors_.size()));
}

void Container::add(const fs::path& path) {
  files_.push_back(std::make_unique<File>(path));
  for (const auto& [name, tensor] : files_.back()->contents().tensors)
    if (!tensors_.emplace(name, &tensor).second)
      fail_tensor(path.string(), name, "another part has it as well");
}

const Value* Container::find(std::string_view key) const {
  const auto& metadata = files_.front()->contents().metadata;
  const auto found = metadata.find(key);
  return found == metadata.end() ? nullptr : &found->second;
}

const Value& Container::require(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) throw FileError(fmt::format("{}: has no metadata \"{}\"", name_, key));
  return *value;
}

bool is_gguf(const fs::path& path) { return path.extension() == ".gguf"; }

std::optional<fs::path> gguf_in(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error) || fs::exists(folder / "config.json", error)) return std::nullopt;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const auto part = part_of(entry->path());
    if (is_gguf(entry->path()) && (!part || part->number == 1))
      names.push_back(entry->path().filename().string());
  }
  if (names.empty()) return std::nullopt;
  std::ranges::sort(names);
  if (names.size() > 1)
    throw FileError(fmt::format("{}: holds {} models; name one of its files: {}", folder.string(),
                                names.size(), shown_list(names)));
  return folder / names.front();
}

}  // namespace keyscope::gguf
