#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "capture/model/safetensors.hpp"
#include "capture/model/strict_json.hpp"

namespace keyscope::capture {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// A shard's name is a plain one: what an index says must not lead out of the model's folder.
void check_shard_name(const std::string& shard, const fs::path& folder, const fs::path& index) {
  const bool plain = !shard.empty() && shard != "." && shard != ".." &&
                     shard.find_first_of(std::string("/\\\0", 3)) == std::string::npos;
  if (!plain)
    throw FileError(fmt::format("{}: weight_map names {}, expected a plain file name inside the folder",
                                index.string(), shown(shard)));
  std::error_code error;
  const fs::path resolved = fs::weakly_canonical(folder / shard, error);
  const fs::path home = fs::weakly_canonical(folder, error);
  if (!fs::exists(resolved, error))
    throw FileError(
        fmt::format("{}: weight_map names {}, which is not in the folder", index.string(), shard));
  if (resolved.parent_path() != home)
    throw FileError(fmt::format("{}: {} leads out of the model's folder, to {}", index.string(), shard,
                                resolved.string()));
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
  const fs::path single = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  source_ = (fs::exists(single, error) ? single : index).string();
  if (fs::exists(single, error)) {
    files_.push_back(std::make_unique<SafetensorsFile>(single));
    for (const auto& [name, tensor] : files_.back()->tensors()) tensors_.emplace(name, &tensor);
  } else if (fs::exists(index, error)) {
    open_sharded(folder, index);
  } else {
    throw FileError(
        fmt::format("{}: has neither model.safetensors nor model.safetensors.index.json; expected the "
                    "weights of a Hugging Face model",
                    folder.string()));
  }
}

void Checkpoint::open_sharded(const fs::path& folder, const fs::path& index) {
  const Json weight_map = read_weight_map(index);
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : weight_map.items()) {
    if (!shard.is_string())
      throw FileError(fmt::format("{}: weight_map has no file name for {}", index.string(), shown(tensor)));
    if (shards.insert(shard.get<std::string>()).second) check_shard_name(shard, folder, index);
  }
  std::map<std::string, const SafetensorsFile*> opened;
  for (const std::string& shard : shards) {
    files_.push_back(std::make_unique<SafetensorsFile>(folder / shard));
    opened[shard] = files_.back().get();
  }
  for (const auto& [tensor, shard] : weight_map.items()) {
    const auto& held = opened.at(shard.get<std::string>())->tensors();
    const auto found = held.find(tensor);
    if (found == held.end())
      throw FileError(fmt::format("{}: weight_map says that {} holds {}, and it does not", index.string(),
                                  shard.get<std::string>(), shown(tensor)));
    tensors_.emplace(tensor, &found->second);
  }
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
