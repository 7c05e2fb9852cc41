#include "app/commands/inspection.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "capture/model/config.hpp"
#include "capture/model/safetensors.hpp"
#include "capture/recording/hdf5.hpp"
#include "capture/recording/layout.hpp"
#include "capture/recording/recording.hpp"
#include "capture/recording/row_store.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::commands {
namespace {

namespace fs = std::filesystem;
namespace hdf5 = recording::hdf5;
using Json = nlohmann::ordered_json;

// --- model folder ---

bool has_weights(const fs::path& folder) {
  return fs::exists(folder / "model.safetensors") || fs::exists(folder / "model.safetensors.index.json");
}

Json weights_json(const fs::path& folder) {
  if (!has_weights(folder)) return nullptr;
  const capture::Checkpoint checkpoint(folder);
  std::map<std::string, std::int64_t> parameters;  // by dtype as stored
  std::int64_t n_parameters = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    parameters[tensor->dtype] += tensor->n_elements();
    n_parameters += tensor->n_elements();
  }
  Json json;
  json["parameters"] = n_parameters;  // as stored: a tied matrix counts once
  json["bytes"] = checkpoint.data_bytes();
  json["tensors"] = checkpoint.tensors().size();
  json["dtypes"] = parameters;
  for (const auto& file : checkpoint.files())
    json["files"].push_back({{"file", file->path().filename().string()},
                             {"bytes", file->n_bytes()},
                             {"tensors", file->tensors().size()}});
  return json;
}

// The family of a tokenizer.json, by what sets the families apart.
std::string tokenizer_kind(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const auto json = nlohmann::json::parse(stream, nullptr, false);
  const auto model = json.is_object() ? json.find("model") : json.end();
  if (!json.is_object() || model == json.end() || !model->is_object())
    throw FileError(file.string() + ": no JSON object with a 'model'");
  const std::string type = model->contains("type") && (*model)["type"].is_string() ? (*model)["type"] : "BPE";
  const bool byte_fallback = model->contains("byte_fallback") && (*model)["byte_fallback"] == true;
  return byte_fallback ? "SentencePiece-style " + type + " with byte fallback" : "byte-level " + type;
}

Json tokenizer_json(const fs::path& folder) {
  const fs::path file = folder / "tokenizer.json";
  if (!fs::exists(file)) return nullptr;
  return {{"kind", tokenizer_kind(file)}, {"vocabulary", tokenizer::Tokenizer::load(folder)->vocab_size()}};
}

std::int64_t dtype_bytes(const std::string& dtype) {
  return dtype == "bfloat16" || dtype == "float16" ? 2 : 4;
}

Json inspect_model(const fs::path& folder) {
  const capture::ModelConfig config = capture::read_config(folder);
  const std::string dtype = config.dtype.empty() ? "float32" : config.dtype;
  const std::int64_t row_values = std::int64_t{2} * config.n_layers * config.n_kv_heads * config.head_dim;
  Json json{{"kind", "model"}, {"path", folder.string()}};
  json["architecture"] = config.model_type;
  json["layers"] = config.n_layers;
  json["query_heads"] = config.n_heads;
  json["kv_heads"] = config.n_kv_heads;
  json["head_dim"] = config.head_dim;
  json["hidden_size"] = config.hidden_size;
  json["intermediate_size"] = config.intermediate_size;
  json["vocabulary"] = config.vocab_size;
  json["context"] = config.context_length;
  json["dtype"] = dtype;
  json["rope_theta"] = config.rope_theta;
  json["tied_embeddings"] = config.tie_word_embeddings;
  json["eos_token_ids"] = config.eos_token_ids;
  json["kv_cache_bytes_per_token"] = row_values * dtype_bytes(dtype);
  json["weights"] = weights_json(folder);
  json["tokenizer"] = tokenizer_json(folder);
  return json;
}

// --- recording ---

Json run_json(const recording::RunInfo& run) {
  Json json{{"run", run.plan.name}, {"policy", run.plan.policy}};
  json["parameters"] = Json::parse(run.plan.parameters, nullptr, false);
  json["budget"] = run.plan.budget;
  json["block_size"] = run.plan.block_size;
  json["prompt_blocks"] = run.plan.n_prompt_blocks;
  json["blocks_done"] = run.blocks_done;
  json["n_tokens"] = run.n_tokens;
  json["generated"] = run.generated.size();
  json["scored"] = run.n_scored;
  json["replayed"] = run.plan.replayed;
  json["oracle"] = run.plan.oracle;
  return json;
}

// Each dataset of the recorded layers: its shape in the first run, and its bytes over all runs and layers.
Json datasets_json(const hdf5::Group& runs, const recording::RecordingInfo& info) {
  std::map<std::string, std::int64_t> bytes;
  std::set<std::string> counted;  // runs may share datasets, whose bytes lie in the file once
  for (const recording::RunInfo& run : info.runs) {
    const hdf5::Group run_group = runs.open_group(run.plan.name);
    for (const int layer : info.layers) {
      const hdf5::Group group = run_group.open_group(recording::layer_group_name(layer));
      for (const std::string& name : group.names()) {
        const hdf5::Dataset dataset = group.open_dataset(name, 0, {0});
        const bool first = counted.insert(dataset.identity()).second;
        bytes[name] += first ? static_cast<std::int64_t>(dataset.stored_bytes()) : 0;
      }
    }
  }
  const hdf5::Group first = runs.open_group(info.runs.front().plan.name)
                                .open_group(recording::layer_group_name(info.layers.front()));
  Json json = Json::array();
  for (const auto& [name, n_bytes] : bytes) {
    Json entry{{"dataset", name}};
    if (first.has(name)) {
      const hdf5::Dataset dataset = first.open_dataset(name, 0, {0});
      entry["dtype"] = hdf5::name_of(dataset.type());
      if (recording::store_of(dataset) == recording::StoreType::kBFloat16)
        entry["rounded_to"] = recording::store_name(recording::StoreType::kBFloat16);
      entry["shape"] = dataset.shape();
    }
    entry["bytes_all_layers_and_runs"] = n_bytes;
    json.push_back(entry);
  }
  return json;
}

Json inspect_recording(const fs::path& path, const hdf5::Group& runs) {
  const auto info = recording::open_recording(path.string())->info();
  const recording::Provenance& from = info->provenance;
  Json json{{"kind", "recording"}, {"path", path.string()}};
  json["complete"] = info->complete;
  json["bytes"] = fs::file_size(path);
  json["model"] = {{"name", info->model.name},           {"layers", info->model.n_layers},
                   {"query_heads", info->model.n_heads}, {"kv_heads", info->model.n_kv_heads},
                   {"head_dim", info->model.head_dim},   {"sha256", from.model_sha256}};
  constexpr std::size_t kPreviewBytes = 160;
  json["prompt"] = {{"tokens", info->n_prompt()},
                    {"sha256", from.prompt_sha256},
                    {"begins", info->prompt.text.substr(0, kPreviewBytes)}};
  json["capture"] = {{"command", from.command},   {"started", from.started}, {"device", from.device},
                     {"schedule", from.schedule}, {"seed", from.seed},       {"versions", from.versions}};
  json["recorded_layers"] = info->layers;
  json["recorded_kv_heads"] = info->heads.list(info->model.n_kv_heads);
  for (const auto& run : info->runs) json["runs"].push_back(run_json(run));
  json["datasets"] = datasets_json(runs, *info);
  return json;
}

// --- figure file ---

Json figure_json(const hdf5::Group& group, const std::string& name) {
  Json json{{"figure", name}, {"nx_class", group.has_attribute("NX_class") ? group.text("NX_class") : ""}};
  for (const std::string& member : group.names())
    json[group.has_group(member) ? "panels" : "datasets"].push_back(member);
  return json;
}

Json inspect_figures(const fs::path& path, const hdf5::Group& root) {
  Json json{{"kind", "figures"},
            {"path", path.string()},
            {"bytes", fs::file_size(path)},
            {"figures", Json::array()}};
  const hdf5::Group entry = root.open_group("entry");
  for (const std::string& name : entry.names()) {
    if (!entry.has_group(name)) continue;
    const hdf5::Group group = entry.open_group(name);
    const bool plot = group.has_attribute("NX_class") && group.text("NX_class") == "NXdata";
    if (plot || group.has_attribute("keyscope_figure")) json["figures"].push_back(figure_json(group, name));
  }
  if (json["figures"].empty())
    throw FileError(path.string() + ": an HDF5 file, but neither a recording nor a file of figures");
  return json;
}

}  // namespace

nlohmann::ordered_json inspect_path(const fs::path& path) {
  if (fs::is_directory(path)) return inspect_model(path);
  const hdf5::File file = hdf5::File::open(path);
  const hdf5::Group root = file.root();
  if (!root.has_group("entry"))
    throw FileError(path.string() +
                    ": an HDF5 file, but no recording or figure file: it has no group 'entry'");
  const hdf5::Group entry = root.open_group("entry");
  return entry.has("runs") ? inspect_recording(path, entry.open_group("runs")) : inspect_figures(path, root);
}

}  // namespace keyscope::commands
