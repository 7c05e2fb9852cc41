#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/callback_ref.hpp"
#include "base/files.hpp"
#include "capture/gguf/block_formats.hpp"

namespace keyscope::gguf {

// A GGUF file: metadata by key, tensors by name, their bytes. Little-endian, versions 2 and 3.
// Source of the rules: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

// Types of metadata, by their numbers in the file.
enum class ValueType : std::uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

// A value of the metadata where it lies in the file. Every reader throws FileError, naming file and key,
// where the value is not what it asks for.
class Value {
 public:
  //   bytes: of the value, or of an array's elements; where: names it, and outlives it
  Value(ValueType type, std::span<const std::byte> bytes, const std::string& where)
      : type_(type), bytes_(bytes), where_(&where) {}
  Value(ValueType element, std::uint64_t n, std::span<const std::byte> bytes, const std::string& where)
      : type_(ValueType::kArray), element_(element), n_(n), bytes_(bytes), where_(&where) {}

  ValueType type() const { return type_; }
  bool is_array() const { return type_ == ValueType::kArray; }

  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  // A float32 as the shortest decimal fraction that stands for it: 1e-06, not 9.99999997e-07.
  double number() const;
  bool boolean() const;
  std::string_view string() const;  // any bytes

  std::uint64_t size() const;  // of an array
  void for_each(CallbackRef<void(const Value&)> visit) const;

  [[noreturn]] void fail(const std::string& found, const std::string& expected) const;

 private:
  std::string shown_kind() const;

  ValueType type_;
  ValueType element_ = ValueType::kUint8;
  std::uint64_t n_ = 0;
  std::span<const std::byte> bytes_;
  const std::string* where_;
};

// One tensor, where it lies. Sizes in the order of Hugging Face: rows first.
struct Tensor {
  const BlockFormat* format;
  std::vector<std::int64_t> shape;  // 1 to 4 sizes, none zero; the last one in whole blocks
  std::span<const std::byte> data;
  std::string file;  // for messages

  std::int64_t n_elements() const;
};

using TensorTable = std::map<std::string, Tensor, std::less<>>;

// What a file holds, with every length checked; its bytes must outlive it.
struct Contents {
  std::map<std::string, Value, std::less<>> metadata;
  TensorTable tensors;
  std::size_t data_begin = 0;                        // where the tensors' bytes begin
  std::vector<std::unique_ptr<std::string>> places;  // names of values, for messages
};

//   name: the file's, for messages
//   throws FileError naming file, key or tensor, what was found and what was expected
Contents parse_gguf(std::span<const std::byte> bytes, const std::string& name);

// A file, mapped into memory; nothing of its tensors is read before it is used.
class File {
 public:
  explicit File(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const Contents& contents() const { return contents_; }
  std::int64_t n_bytes() const { return static_cast<std::int64_t>(mapped_.bytes().size()); }
  std::string_view header() const { return text().substr(0, contents_.data_begin); }
  std::string_view data() const { return text().substr(contents_.data_begin); }

 private:
  std::string_view text() const;

  std::filesystem::path path_;
  MappedFile mapped_;
  Contents contents_;
};

// A model: one file, or all parts of one that was split. The first part has the metadata.
class Container {
 public:
  //   path: of the file, or of the first part (…-00001-of-00003.gguf)
  //   throws FileError where a part is missing, is another model's, or repeats a tensor
  explicit Container(const std::filesystem::path& path);

  const std::string& name() const { return name_; }  // of the file, for messages
  const Value* find(std::string_view key) const;     // null if there is none
  const Value& require(std::string_view key) const;  //   throws FileError if there is none
  const std::map<std::string, const Tensor*, std::less<>>& tensors() const { return tensors_; }
  const std::vector<std::unique_ptr<File>>& files() const { return files_; }

 private:
  void add(const std::filesystem::path& path);

  std::string name_;
  std::vector<std::unique_ptr<File>> files_;
  std::map<std::string, const Tensor*, std::less<>> tensors_;
};

// Whether a path is called as a GGUF file is.
bool is_gguf(const std::filesystem::path& path);

// The model's file in a folder that has no config.json: its only .gguf, or the first part of the only one.
//   throws FileError where there are several, naming them
std::optional<std::filesystem::path> gguf_in(const std::filesystem::path& folder);

}  // namespace keyscope::gguf
