#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.hpp"
#include "capture/gguf/gguf.hpp"

namespace keyscope::capture {

// One tensor of a safetensors file, where it lies.
struct StoredTensor {
  std::string dtype;  // as the file says: "F32", "BF16", "F16", …
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;  // possibly unaligned; lives as long as its file
  std::string file;                 // for messages

  std::int64_t n_elements() const;
};

using TensorTable = std::map<std::string, StoredTensor, std::less<>>;

// Reads the header of a safetensors file that lies in memory, by the format's rules: header length, UTF-8
// JSON object, known dtypes, shapes whose bytes agree with the offsets, tensors that tile the data exactly.
//   name: the file's, for messages
//   throws FileError naming file, tensor, what was found and what was expected
TensorTable parse_safetensors(std::span<const std::byte> bytes, const std::string& name);

// A safetensors file, mapped into memory; nothing of its data is read before it is used.
class SafetensorsFile {
 public:
  //   throws FileError as parse_safetensors does, and when the file cannot be opened
  explicit SafetensorsFile(const std::filesystem::path& path);

  const TensorTable& tensors() const { return tensors_; }
  const std::filesystem::path& path() const { return path_; }
  std::int64_t n_bytes() const { return static_cast<std::int64_t>(bytes_.size()); }
  std::string_view header() const;  // the JSON text
  std::string_view data() const;    // the bytes behind it

 private:
  std::filesystem::path path_;
  MappedFile mapped_;
  std::span<const std::byte> bytes_;
  TensorTable tensors_;
};

// One of the files that hold a model's weights.
struct WeightFile {
  std::filesystem::path path;
  std::int64_t n_bytes = 0;
  std::size_t n_tensors = 0;
  std::string_view
      header;  // what says where the tensors lie: safetensors' JSON, all of a GGUF file before them
  std::string_view data;  // the bytes behind it
};

// All weights of a model folder: `model.safetensors`, or the files that `model.safetensors.index.json` names.
// Or those of a GGUF file, by the names that it has for them.
class Checkpoint {
 public:
  //   throws FileError where no weights are there, or the index names files outside the folder. A tensor that
  //   the index names and no file holds is one that is not there: it may be a tied one, or of no use.
  explicit Checkpoint(const std::filesystem::path& folder_or_gguf);

  const StoredTensor* find(std::string_view name) const;  // null if there is none
  // What the index says of a tensor that is not there; empty where it says nothing.
  std::string why_missing(std::string_view name) const;
  const std::map<std::string, const StoredTensor*, std::less<>>& tensors() const { return tensors_; }
  std::vector<WeightFile> files() const;
  const gguf::Container* gguf() const { return gguf_.get(); }  // null where it is none
  std::int64_t data_bytes() const;                             // of all tensors
  const std::string& source() const { return source_; }        // the one file, or the index of several

 private:
  void open_sharded(const std::filesystem::path& folder, const std::filesystem::path& index);
  void open_gguf(const std::filesystem::path& path);

  std::string source_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;  // ascending by name
  std::map<std::string, const StoredTensor*, std::less<>> tensors_;
  std::map<std::string, std::string, std::less<>> missing_;
  std::unique_ptr<gguf::Container> gguf_;
  TensorTable of_gguf_;
};

}  // namespace keyscope::capture
