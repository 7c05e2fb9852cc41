#include "app/figures/nexus_origin.hpp"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "analysis/errors.hpp"

namespace keyscope::figures {
namespace {

using recording::ModelInfo;
using recording::Provenance;
using recording::TokenText;
using recording::hdf5::DatasetOptions;
using recording::hdf5::ElementType;
using recording::hdf5::Group;

// Text attributes of the provenance and where they belong.
constexpr std::pair<const char*, std::string Provenance::*> kTexts[]{
    {"command", &Provenance::command},
    {"configuration", &Provenance::configuration},
    {"versions", &Provenance::versions},
    {"model_sha256", &Provenance::model_sha256},
    {"prompt_sha256", &Provenance::prompt_sha256},
    {"device", &Provenance::device},
    {"schedule", &Provenance::schedule},
    {"started", &Provenance::started}};
constexpr std::pair<const char*, int ModelInfo::*> kCounts[]{{"n_layers", &ModelInfo::n_layers},
                                                             {"n_heads", &ModelInfo::n_heads},
                                                             {"n_kv_heads", &ModelInfo::n_kv_heads},
                                                             {"head_dim", &ModelInfo::head_dim}};

template <typename T>
void write_list(Group& group, const char* name, ElementType type, const std::vector<T>& values) {
  DatasetOptions options;
  options.chunk = {std::clamp<hsize_t>(values.size(), 1, 65'536)};
  options.max_shape = {H5S_UNLIMITED};
  options.shuffle = sizeof(T) > 1;
  options.gzip = 4;
  options.cache_bytes = 1 << 20;
  group.create_dataset(name, type, {values.size()}, options).write(std::span<const T>(values));
}

void write_tokens(Group& entry, const TokenText& prompt) {
  Group group = entry.create_group("tokens", "NXcollection");
  group.set_integer("n_prompt", prompt.size());
  write_list(group, "id", ElementType::kInt32, prompt.id);
  write_list(group, "text", ElementType::kUInt8,
             std::vector<std::uint8_t>(prompt.text.begin(), prompt.text.end()));
  std::vector<std::int64_t> offset = prompt.offset;
  offset.resize(prompt.id.size() + 1, 0);
  write_list(group, "text_offset", ElementType::kInt64, offset);
}

TokenText read_tokens(const Group& group) {
  TokenText tokens;
  tokens.id = group.open_dataset("id").read<std::int32_t>();
  const auto bytes = group.open_dataset("text").read<std::uint8_t>();
  tokens.text.assign(bytes.begin(), bytes.end());
  tokens.offset = group.open_dataset("text_offset").read<std::int64_t>();
  const bool sound = tokens.offset.size() == tokens.id.size() + 1 && tokens.offset.front() == 0 &&
                     std::ranges::is_sorted(tokens.offset) &&
                     tokens.offset.back() == static_cast<std::int64_t>(tokens.text.size());
  if (!sound)
    throw FileError(fmt::format("{}: text_offset must have {} entries that ascend from 0 to {}",
                                group.where(), tokens.id.size() + 1, tokens.text.size()));
  return tokens;
}

}  // namespace

void write_origin(Group& entry, const FigureFileOrigin& origin) {
  Group provenance = entry.create_group("provenance", "NXcollection");
  for (const auto& [name, text] : kTexts) provenance.set_text(name, origin.provenance.*text);
  provenance.set_integer("seed", origin.provenance.seed);
  Group model = entry.create_group("model", "NXcollection");
  model.set_text("config", origin.model.config);
  model.set_text("name", origin.model.name);
  for (const auto& [name, count] : kCounts) model.set_integer(name, origin.model.*count);
  write_tokens(entry, origin.prompt);
}

FigureFileOrigin read_origin(const Group& entry) {
  FigureFileOrigin origin;
  const Group provenance = entry.open_group("provenance");
  for (const auto& [name, text] : kTexts) origin.provenance.*text = provenance.text(name);
  origin.provenance.seed = provenance.integer("seed");
  const Group model = entry.open_group("model");
  origin.model.config = model.text("config");
  origin.model.name = model.text("name");
  for (const auto& [name, count] : kCounts) {
    const std::int64_t value = model.integer(name);
    if (value < 0 || value > 1 << 20)
      throw FileError(
          fmt::format("{}: attribute '{}' is {}; expected 0 to {}", model.where(), name, value, 1 << 20));
    origin.model.*count = static_cast<int>(value);
  }
  origin.prompt = read_tokens(entry.open_group("tokens"));
  return origin;
}

}  // namespace keyscope::figures
