#include "capture/recording/origin.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "capture/recording/checked_read.hpp"

namespace keyscope::recording {
namespace {

using hdf5::DatasetOptions;
using hdf5::ElementType;
using hdf5::Group;

constexpr hsize_t kChunkBytes = 1 << 20;
constexpr std::int64_t kMostHeads = 1 << 20;

// The texts of the provenance, and where they belong.
constexpr std::pair<const char*, std::string Provenance::*> kTexts[]{
    {"command", &Provenance::command},
    {"configuration", &Provenance::configuration},
    {"versions", &Provenance::versions},
    {"model_sha256", &Provenance::model_sha256},
    {"prompt_sha256", &Provenance::prompt_sha256},
    {"device", &Provenance::device},
    {"schedule", &Provenance::schedule},
    {"started", &Provenance::started}};

void write_provenance(Group& entry, const Provenance& from) {
  Group group = entry.create_group("provenance", "NXcollection");
  for (const auto& [name, text] : kTexts) group.set_text(name, from.*text);
  group.set_integer("seed", from.seed);
}

void write_model(Group& entry, const ModelInfo& from) {
  Group group = entry.create_group("model", "NXcollection");
  group.set_text("config", from.config);
  group.set_text("name", from.name);
  group.set_integer("n_layers", from.n_layers);
  group.set_integer("n_heads", from.n_heads);
  group.set_integer("n_kv_heads", from.n_kv_heads);
  group.set_integer("head_dim", from.head_dim);
}

template <typename T>
void write_compressed(Group& group, const std::string& name, ElementType type, const std::vector<T>& values) {
  DatasetOptions options;
  options.chunk = {std::clamp<hsize_t>(values.size(), 1, kChunkBytes / sizeof(T))};
  options.max_shape = {H5S_UNLIMITED};
  options.shuffle = sizeof(T) > 1;
  options.gzip = 4;
  options.cache_bytes = kChunkBytes;
  group.create_dataset(name, type, {values.size()}, options).write(std::span<const T>(values));
}

void write_tokens(Group& entry, const TokenText& prompt) {
  Group group = entry.create_group("tokens", "NXcollection");
  group.set_integer("n_prompt", prompt.size());
  write_compressed(group, "id", ElementType::kInt32, prompt.id);
  write_compressed(group, "text", ElementType::kUInt8,
                   std::vector<std::uint8_t>(prompt.text.begin(), prompt.text.end()));
  std::vector<std::int64_t> offset = prompt.offset;
  offset.resize(prompt.id.size() + 1, 0);  // without a tokenizer there is no text
  write_compressed(group, "text_offset", ElementType::kInt64, offset);
}

// What another writer left out is empty.
Provenance read_provenance(const Group& group) {
  Provenance provenance;
  for (const auto& [name, text] : kTexts)
    provenance.*text = group.has_attribute(name) ? group.text(name) : std::string();
  provenance.seed = group.has_attribute("seed") ? group.integer("seed") : 0;
  return provenance;
}

ModelInfo read_model(const Group& group) {
  ModelInfo model;
  model.config = json_text(group, "config");
  if (group.has_attribute("name")) model.name = group.text("name");
  model.n_layers = static_cast<int>(integer_in(group, "n_layers", 1, kMostHeads));
  model.n_heads = static_cast<int>(integer_in(group, "n_heads", 1, kMostHeads));
  model.n_kv_heads = static_cast<int>(integer_in(group, "n_kv_heads", 1, model.n_heads));
  model.head_dim = static_cast<int>(integer_in(group, "head_dim", 1, kMostHeads));
  if (model.n_heads % model.n_kv_heads != 0)
    throw FileError(fmt::format("{}: {} query heads do not divide over {} KV heads", group.where(),
                                model.n_heads, model.n_kv_heads));
  return model;
}

TokenText read_prompt(const Group& group) {
  const std::int64_t n_prompt = integer_in(group, "n_prompt", 0, kMostTokens);
  const auto id =
      open_dataset(group, "id", {ElementType::kInt32}, {static_cast<hsize_t>(n_prompt)}).read<std::int32_t>();
  return read_tokens(group, id, "text");
}

}  // namespace

void write_origin(Group& entry, const Origin& origin) {
  write_provenance(entry, origin.provenance);
  write_model(entry, origin.model);
  write_tokens(entry, origin.prompt);
}

Origin read_origin(const Group& entry) {
  return {read_provenance(entry.open_group("provenance")), read_model(entry.open_group("model")),
          read_prompt(entry.open_group("tokens"))};
}

}  // namespace keyscope::recording
