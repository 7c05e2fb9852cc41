#include "capture/model/safetensors.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "capture/model/model_cache.hpp"

namespace keyscope::capture {

// Source of the rules: the safetensors format description, https://github.com/huggingface/safetensors.

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;
constexpr std::string_view kMetadata = "__metadata__";

std::int64_t bits_of(const std::string& dtype) {
  static const std::map<std::string, std::int64_t> bits{
      {"BOOL", 8}, {"U8", 8},   {"I8", 8},   {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8},
      {"U16", 16}, {"I16", 16}, {"F16", 16}, {"BF16", 16},   {"U32", 32},    {"I32", 32},
      {"F32", 32}, {"U64", 64}, {"I64", 64}, {"F64", 64}};
  const auto found = bits.find(dtype);
  return found == bits.end() ? 0 : found->second;
}

struct Extent {
  std::uint64_t begin, end;
  std::string tensor;
};

[[noreturn]] void fail(const std::string& name, const std::string& tensor, const std::string& what) {
  throw FileError(fmt::format("{}: tensor {}: {}", name, shown(tensor), what));
}

std::uint64_t read_unsigned(const Json& value, const std::string& name, const std::string& tensor,
                            const char* field) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > INT64_MAX)
    fail(name, tensor,
         fmt::format("{} holds {}, expected an integer from 0", field, shown(json_text(value))));
  return value.get<std::uint64_t>();
}

std::uint64_t checked_bytes(const StoredTensor& tensor, const std::string& name,
                            const std::string& tensor_name) {
  std::uint64_t n = static_cast<std::uint64_t>(bits_of(tensor.dtype)) / 8;
  // A zero anywhere makes the tensor empty, whatever the other sizes multiply to.
  if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) return 0;
  for (const std::int64_t size : tensor.shape)
    if (__builtin_mul_overflow(n, static_cast<std::uint64_t>(size), &n))
      fail(name, tensor_name, fmt::format("shape [{}] is too large for 64 bits", shown_list(tensor.shape)));
  return n;
}

std::pair<StoredTensor, Extent> parse_entry(const std::string& tensor_name, const Json& entry,
                                            const std::string& name) {
  if (!entry.is_object()) fail(name, tensor_name, "its entry is no object");
  for (const char* field : {"dtype", "shape", "data_offsets"})
    if (!entry.contains(field)) fail(name, tensor_name, fmt::format("has no {}", field));
  StoredTensor tensor;
  tensor.file = name;
  if (!entry["dtype"].is_string() || bits_of(entry["dtype"].get<std::string>()) == 0)
    fail(name, tensor_name,
         fmt::format("dtype is {}, expected one such as F32, BF16 or F16", shown(json_text(entry["dtype"]))));
  tensor.dtype = entry["dtype"].get<std::string>();
  if (!entry["shape"].is_array()) fail(name, tensor_name, "shape is no array");
  for (const Json& size : entry["shape"])
    tensor.shape.push_back(static_cast<std::int64_t>(read_unsigned(size, name, tensor_name, "shape")));
  const Json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2)
    fail(name, tensor_name, "data_offsets is no pair of integers");
  Extent extent{read_unsigned(offsets[0], name, tensor_name, "data_offsets"),
                read_unsigned(offsets[1], name, tensor_name, "data_offsets"), tensor_name};
  if (extent.begin > extent.end)
    fail(name, tensor_name, fmt::format("data_offsets go from {} back to {}", extent.begin, extent.end));
  const std::uint64_t expected = checked_bytes(tensor, name, tensor_name);
  if (extent.end - extent.begin != expected)
    fail(name, tensor_name,
         fmt::format("{} [{}] needs {} bytes, its data_offsets span {}", tensor.dtype,
                     shown_list(tensor.shape), expected, extent.end - extent.begin));
  return {std::move(tensor), std::move(extent)};
}

void check_metadata(const Json& metadata, const std::string& name) {
  const bool sound = metadata.is_object() && std::all_of(metadata.begin(), metadata.end(),
                                                         [](const Json& value) { return value.is_string(); });
  if (!sound)
    throw FileError(fmt::format("{}: {} is {}, expected an object of strings", name, kMetadata,
                                shown(json_text(metadata))));
}

// Sorted by offset, every tensor begins where the one before it ended, and the last ends with the file.
void check_tiling(std::vector<Extent>& extents, std::uint64_t data_bytes, const std::string& name) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::uint64_t at = 0;
  for (const Extent& extent : extents) {
    if (extent.begin != at)
      fail(name, extent.tensor,
           fmt::format("its data begins at {}, expected {}: tensors overlap or leave a gap", extent.begin,
                       at));
    at = extent.end;
  }
  if (at != data_bytes)
    throw FileError(fmt::format("{}: the header describes {} bytes of data, the file holds {}; {}", name, at,
                                data_bytes,
                                at > data_bytes ? "it is cut short" : "there is more at its end"));
}

std::uint64_t header_length(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < kLengthBytes)
    throw FileError(fmt::format("{}: {} bytes are too few for a safetensors file, which begins with 8", name,
                                bytes.size()));
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);  // little-endian, as the machines this runs on
  if (length > kLongestHeader)
    throw FileError(
        fmt::format("{}: the header's length is {}, expected at most {}; is this a safetensors file?", name,
                    length, kLongestHeader));
  if (length > bytes.size() - kLengthBytes)
    throw FileError(fmt::format("{}: the header's length is {}, and only {} bytes follow; it is cut short",
                                name, length, bytes.size() - kLengthBytes));
  return length;
}

}  // namespace

std::int64_t StoredTensor::n_elements() const {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n = size == 0 || n == 0 ? 0 : n * size;
  return n;
}

TensorTable parse_safetensors(std::span<const std::byte> bytes, const std::string& name) {
  const std::uint64_t length = header_length(bytes, name);
  const Json header = parse_json_object({reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length},
                                        name + ": header");
  const auto data = bytes.subspan(kLengthBytes + length);
  TensorTable table;
  std::vector<Extent> extents;
  for (const auto& [tensor_name, entry] : header.items()) {
    if (tensor_name == kMetadata) {
      check_metadata(entry, name);
      continue;
    }
    auto [tensor, extent] = parse_entry(tensor_name, entry, name);
    extents.push_back(extent);
    table.emplace(tensor_name, std::move(tensor));
  }
  check_tiling(extents, data.size(), name);
  for (const Extent& extent : extents)
    table.find(extent.tensor)->second.data = data.subspan(extent.begin, extent.end - extent.begin);
  return table;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path),
      mapped_(path),
      bytes_(mapped_.bytes()),
      tensors_(parse_safetensors(bytes_, path.string())) {}

std::string_view SafetensorsFile::header() const {
  return {reinterpret_cast<const char*>(bytes_.data()) + kLengthBytes, header_length(bytes_, path_.string())};
}

std::string_view SafetensorsFile::data() const {
  const std::string_view whole(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
  return whole.substr(kLengthBytes + header().size());
}

namespace {

namespace fs = std::filesystem;

// What an index says must not climb out of the model's folder. Where a link on the disk leads is its owner's
// business: caches of models keep their files elsewhere.
void check_shard_name(const std::string& shard, const fs::path& index) {
  const fs::path name(shard);
  const bool climbs = std::ranges::find(name, fs::path("..")) != name.end();
  const bool names_a_file = name.has_filename() && name.filename() != ".";
  if (!names_a_file || climbs || name.is_absolute() ||
      shard.find_first_of(std::string("\\\0", 2)) != std::string::npos)
    throw FileError(fmt::format("{}: weight_map names {}, expected a file name inside the folder",
                                index.string(), shown(shard)));
}

// Why a file that should be there cannot be opened; empty where it is there.
std::string absence(const fs::path& file) {
  std::error_code error;
  if (fs::exists(file, error)) return {};
  if (!fs::is_symlink(file, error)) return "is not in the folder";
  return fmt::format("is a link to {}, which is not there", fs::read_symlink(file, error).string());
}

Json read_weight_map(const fs::path& index) {
  Json json = parse_json_object(read_small_file(index), index.string());
  if (!json.contains("weight_map") || !json["weight_map"].is_object() || json["weight_map"].empty())
    throw FileError(fmt::format(
        "{}: has no weight_map that names tensors and their files; the index is damaged", index.string()));
  return json["weight_map"];
}

}  // namespace

Checkpoint::Checkpoint(const fs::path& folder) {
  std::error_code error;
  if (gguf::is_gguf(folder)) {
    open_gguf(folder);
    return;
  }
  const fs::path single = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  const auto is_there = [&](const fs::path& file) {
    return fs::exists(file, error) || fs::is_symlink(file, error);
  };
  if (is_there(single)) {
    source_ = single.string();
    if (const std::string why = absence(single); !why.empty())
      throw FileError(fmt::format("{}: {}{}", source_, why, fetch_advice(folder)));
    files_.push_back(std::make_unique<SafetensorsFile>(single));
    for (const auto& [name, tensor] : files_.back()->tensors()) tensors_.emplace(name, &tensor);
  } else if (is_there(index)) {
    source_ = index.string();
    open_sharded(folder, index);
  } else {
    throw FileError(
        fmt::format("{}: has neither model.safetensors nor model.safetensors.index.json; expected the "
                    "weights of a Hugging Face model{}",
                    folder.string(), fetch_advice(folder)));
  }
}

void Checkpoint::open_sharded(const fs::path& folder, const fs::path& index) {
  const Json weight_map = read_weight_map(index);
  std::map<std::string, const SafetensorsFile*> opened;  // null for a file that is not there
  for (const auto& [tensor, shard] : weight_map.items()) {
    if (!shard.is_string())
      throw FileError(fmt::format("{}: weight_map has no file name for {}", index.string(), shown(tensor)));
    if (opened.try_emplace(shard.get<std::string>()).second)
      check_shard_name(shard.get_ref<const std::string&>(), index);
  }
  for (auto& [shard, file] : opened) {
    if (!absence(folder / shard).empty()) continue;
    files_.push_back(std::make_unique<SafetensorsFile>(folder / shard));
    file = files_.back().get();
  }
  for (const auto& [tensor, name] : weight_map.items()) {
    const auto& shard = name.get_ref<const std::string&>();
    const SafetensorsFile* file = opened.at(shard);
    const auto found = file == nullptr ? TensorTable::const_iterator() : file->tensors().find(tensor);
    if (file != nullptr && found != file->tensors().end()) {
      tensors_.emplace(tensor, &found->second);
    } else {
      missing_.emplace(tensor, fmt::format("weight_map says that it is in {}, which {}", shard,
                                           file == nullptr ? absence(folder / shard) + fetch_advice(folder)
                                                           : "does not hold it"));
    }
  }
  for (const auto& file : files_)
    for (const auto& [name, tensor] : file->tensors())
      if (tensors_.emplace(name, &tensor).second) missing_.erase(name);
}

void Checkpoint::open_gguf(const fs::path& path) {
  source_ = path.string();
  gguf_ = std::make_unique<gguf::Container>(path);
  for (const auto& [name, tensor] : gguf_->tensors())
    of_gguf_.emplace(
        name, StoredTensor{std::string(tensor->format->name), tensor->shape, tensor->data, tensor->file});
  for (const auto& [name, tensor] : of_gguf_) tensors_.emplace(name, &tensor);
}

std::vector<WeightFile> Checkpoint::files() const {
  std::vector<WeightFile> files;
  for (const auto& file : files_)
    files.push_back({file->path(), file->n_bytes(), file->tensors().size(), file->header(), file->data()});
  if (gguf_ == nullptr) return files;
  for (const auto& file : gguf_->files())
    files.push_back(
        {file->path(), file->n_bytes(), file->contents().tensors.size(), file->header(), file->data()});
  return files;
}

std::string Checkpoint::why_missing(std::string_view name) const {
  const auto found = missing_.find(name);
  return found == missing_.end() ? std::string() : found->second;
}

const StoredTensor* Checkpoint::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

std::int64_t Checkpoint::data_bytes() const {
  std::int64_t n = 0;
  for (const auto& [name, tensor] : tensors_) n += static_cast<std::int64_t>(tensor->data.size());
  return n;
}

}  // namespace keyscope::capture
