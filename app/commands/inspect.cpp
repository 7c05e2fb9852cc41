#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "app/figures/nexus.hpp"
#include "app/measures/token_story.hpp"
#include "app/session/selection.hpp"
#include "app/sweep/study_file.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "capture/gguf/gguf.hpp"
#include "capture/model/config.hpp"
#include "capture/model/gguf_config.hpp"
#include "capture/model/model_cache.hpp"
#include "capture/model/quantisation.hpp"
#include "capture/model/safetensors.hpp"
#include "capture/model/stored_weights.hpp"
#include "capture/recording/hdf5.hpp"
#include "capture/recording/recording.hpp"
#include "capture/recording/recording_layout.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::commands {

namespace {

namespace fs = std::filesystem;
namespace hdf5 = recording::hdf5;
using Json = nlohmann::ordered_json;

// --- model folder ---

bool has_weights(const fs::path& folder) {
  return gguf::is_gguf(folder) || fs::exists(folder / "model.safetensors") ||
         fs::exists(folder / "model.safetensors.index.json");
}

// Packed weights count as what they are unpacked to, not as the words that hold them.
Json weights_json(const capture::Checkpoint& checkpoint, const capture::StoredWeights& stored) {
  std::map<std::string, std::int64_t> parameters;  // by dtype or packing, as stored
  std::int64_t n_parameters = 0;
  for (const auto& [name, weight] : stored.tensors()) {
    parameters[weight->form()] += weight->n_elements();
    n_parameters += weight->n_elements();
  }
  Json json;
  json["parameters"] = n_parameters;  // as stored: a tied matrix counts once
  json["bytes"] = checkpoint.data_bytes();
  json["tensors"] = stored.tensors().size();
  json["dtypes"] = parameters;
  for (const capture::WeightFile& file : checkpoint.files())
    json["files"].push_back(
        {{"file", file.path.filename().string()}, {"bytes", file.n_bytes}, {"tensors", file.n_tensors}});
  return json;
}

// The family of a tokenizer.json, by what sets the families apart.
std::string tokenizer_kind(const fs::path& file) {
  if (file.extension() == ".model") return "SentencePiece";
  const auto json = parse_json(read_file(file));
  const auto model = json.is_object() ? json.find("model") : json.end();
  if (!json.is_object() || model == json.end() || !model->is_object())
    throw FileError(file.string() + ": no JSON object with a 'model'");
  const std::string type = model->contains("type") && (*model)["type"].is_string() ? (*model)["type"] : "BPE";
  const bool byte_fallback = model->contains("byte_fallback") && (*model)["byte_fallback"] == true;
  return byte_fallback ? "SentencePiece-style " + type + " with byte fallback" : "byte-level " + type;
}

Json tokenizer_json(const fs::path& folder) {
  const auto file = tokenizer::Tokenizer::file_in(folder);
  if (!file) return nullptr;
  const tokenizer::FolderTokenizer tokenizer(folder);
  if (tokenizer.get() == nullptr) return {{"not supported", tokenizer.refusal()}};
  if (gguf::is_gguf(*file)) {
    const gguf::Container container(*file);
    const std::string kind(container.require("tokenizer.ggml.model").string());
    return {{"kind", kind == "llama" ? "SentencePiece, of the file" : "byte-level BPE, of the file"},
            {"vocabulary", tokenizer.get()->vocab_size()}};
  }
  return {{"kind", tokenizer_kind(*file)}, {"vocabulary", tokenizer.get()->vocab_size()}};
}

std::int64_t dtype_bytes(const std::string& dtype) {
  return dtype == "bfloat16" || dtype == "float16" ? 2 : 4;
}

// Elements that a token adds to the cache.
std::int64_t cache_elements(const capture::ModelConfig& config) {
  std::int64_t n = 0;
  for (int layer = 0; layer < config.n_layers; ++layer) n += config.cached_elements(layer);
  return n;
}

// Of layers that differ: how many have which heads, the first kind first.
Json heads_by_layer(const std::vector<analysis::HeadShape>& layers) {
  Json kinds = Json::array();
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const auto known = std::ranges::find_if(kinds, [&](const Json& kind) {
      return kind["kv_heads"] == layers[layer].n_kv_heads && kind["head_dim"] == layers[layer].head_dim;
    });
    if (known == kinds.end())
      kinds.push_back({{"kv_heads", layers[layer].n_kv_heads},
                       {"head_dim", layers[layer].head_dim},
                       {"layers", Json::array({layer})}});
    else
      (*known)["layers"].push_back(layer);
  }
  return kinds;
}

// {"20": 13}: layer 20 reads the keys of layer 13.
Json borrowed_keys(const std::vector<int>& lenders) {
  Json borrowed = Json::object();
  for (std::size_t layer = 0; layer < lenders.size(); ++layer)
    if (std::cmp_not_equal(lenders[layer], layer)) borrowed[std::to_string(layer)] = lenders[layer];
  return borrowed;
}

// What of a model's layers not every model has.
void add_peculiarities(const capture::ModelConfig& config, Json& json) {
  if (const auto& experts = config.experts; experts.n > 0)
    json["experts"] = {{"count", experts.n},
                       {"per_token", experts.per_token},
                       {"layers", std::ranges::count(config.layer_experts, true)},
                       {"size", experts.intermediate_size},
                       {"shared_size", experts.shared_intermediate_size}};
  if (const auto& latent = config.latent; latent.rank > 0)
    json["latent"] = {{"rank", latent.rank}, {"rotated", latent.rotated_dim}};
  if (config.attention_sinks) json["attention_sinks"] = true;
  if (config.attention_gate) json["attention_gate"] = true;
  if (!config.layer_heads.empty()) json["heads_by_layer"] = heads_by_layer(config.layer_heads);
  if (!config.layer_lenders.empty()) json["borrowed_keys"] = borrowed_keys(config.layer_lenders);
  if (config.layer_input.size > 0) json["layer_input_size"] = config.layer_input.size;
}

Json inspect_model(const fs::path& folder) {
  const capture::ModelConfig config = capture::read_config(folder);
  const bool packed = config.quantisation.method != capture::QuantMethod::kNone;
  std::string dtype = config.dtype == "auto" ? "" : config.dtype;
  std::string quantisation = config.quantisation.description();
  Json weights = nullptr;
  if (has_weights(folder)) {
    const capture::Checkpoint checkpoint(folder);
    const capture::StoredWeights stored(checkpoint, config.quantisation);
    weights = weights_json(checkpoint, stored);
    if (config.dtype == "auto" || (packed && dtype.empty())) dtype = stored.float_dtype();
    if (checkpoint.gguf() != nullptr) quantisation = capture::gguf_quantisation(*checkpoint.gguf());
  }
  if (dtype.empty()) dtype = "float32";
  Json json{{"kind", "model"}, {"path", folder.string()}};
  if (const auto cached = capture::cached_model(folder)) {
    json["repository"] = cached->repository;
    json["commit"] = cached->commit;
  }
  json["architecture"] = config.model_type;
  json["layers"] = config.n_layers;
  if (config.n_attending() < config.n_layers) json["layers_with_keys"] = config.n_attending();
  if (const auto keyless = config.keyless_layers(); !keyless.empty()) json["keyless_layers"] = keyless;
  json["query_heads"] = config.n_heads;
  json["kv_heads"] = config.n_kv_heads;
  json["head_dim"] = config.head_dim;
  add_peculiarities(config, json);
  json["hidden_size"] = config.hidden_size;
  json["intermediate_size"] = config.intermediate_size;
  json["vocabulary"] = config.vocab_size;
  json["context"] = config.context_length;
  json["dtype"] = dtype;
  if (!quantisation.empty()) json["quantisation"] = quantisation;
  json["rope_theta"] = config.rope_theta;
  json["tied_embeddings"] = config.tie_word_embeddings;
  json["eos_token_ids"] = config.eos_token_ids;
  json["kv_cache_bytes_per_token"] = cache_elements(config) * dtype_bytes(dtype);
  json["weights"] = weights;
  json["tokenizer"] = tokenizer_json(folder);
  return json;
}

// --- recording ---

// How the prompt begins: its text, or without a tokenizer its tokens as they are shown.
std::string prompt_beginning(const recording::RecordingInfo& info) {
  constexpr std::size_t kPreviewBytes = 160;
  if (!info.prompt.text.empty()) return info.prompt.text.substr(0, kPreviewBytes);
  std::string tokens;
  for (std::int64_t i = 0; i < info.n_prompt() && tokens.size() < kPreviewBytes; ++i)
    tokens += measures::token_bytes(info, 0, i);
  return tokens;
}

Json run_json(const recording::RunInfo& run) {
  Json json{{"run", run.plan.name}, {"policy", run.plan.policy}};
  json["parameters"] = parse_ordered_json(run.plan.parameters);
  json["budget"] = run.plan.budget;
  json["block_size"] = run.plan.block_size;
  json["prompt_blocks"] = run.plan.n_prompt_blocks;
  json["blocks_done"] = run.blocks_done;
  json["n_tokens"] = run.n_tokens;
  json["generated"] = run.generated.size();
  json["scored"] = run.n_scored;
  json["replayed"] = run.plan.replayed;
  json["oracle"] = run.plan.oracle;
  json["cache_dtype"] = analysis::cache_dtype_name(run.plan.cache_format.dtype);
  return json;
}

// Each dataset of the recorded layers: its shape in the first run, and its bytes over all runs and layers.
Json datasets_json(const hdf5::Group& runs, const recording::RecordingInfo& info) {
  std::map<std::string, std::int64_t> bytes;
  std::set<std::string> counted;  // runs may share datasets, whose bytes lie in the file once
  for (const recording::RunInfo& run : info.runs) {
    const hdf5::Group run_group = runs.open_group(run.plan.name);
    for (const int layer : info.all_layers()) {
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

//   named: the file, and its entry where one was named
Json inspect_recording(const fs::path& named, const fs::path& path, const hdf5::Group& runs) {
  const auto info = recording::open_recording(named.string())->info();
  const recording::Provenance& from = info->provenance;
  Json json{{"kind", "recording"}, {"path", named.string()}};
  json["complete"] = info->complete;
  json["bytes"] = fs::file_size(path);
  json["model"] = {{"name", info->model.name},           {"layers", info->model.n_layers},
                   {"query_heads", info->model.n_heads}, {"kv_heads", info->model.n_kv_heads},
                   {"head_dim", info->model.head_dim},   {"sha256", from.model_sha256}};
  if (!info->model.layer_heads.empty())
    json["model"]["heads_by_layer"] = heads_by_layer(info->model.layer_heads);
  if (!info->model.layer_lenders.empty())
    json["model"]["borrowed_keys"] = borrowed_keys(info->model.layer_lenders);
  if (!from.model_commit.empty()) json["model"]["commit"] = from.model_commit;
  json["prompt"] = {
      {"tokens", info->n_prompt()}, {"sha256", from.prompt_sha256}, {"begins", prompt_beginning(*info)}};
  json["capture"] = {{"command", from.command},   {"started", from.started}, {"device", from.device},
                     {"schedule", from.schedule}, {"seed", from.seed},       {"versions", from.versions}};
  if (!from.quantisation.empty()) json["model"]["quantisation"] = from.quantisation;
  json["recorded_layers"] = info->layers;
  json["keyless_layers"] = info->keyless_layers;
  json["learned_sinks"] = info->sinks;
  if (!info->expert_layers.empty())
    json["experts"] = {{"layers", info->expert_layers},
                       {"experts", info->n_experts},
                       {"experts_per_token", info->experts_per_token}};
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

Json inspect_figures(const fs::path& path, const hdf5::Group& entry) {
  Json json{{"kind", "figures"},
            {"path", path.string()},
            {"bytes", fs::file_size(path)},
            {"figures", Json::array()}};
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

// --- merged study ---

Json inspect_study(const fs::path& path) {
  const sweep::StudyFile study(path);
  Json json{{"kind", "study"},
            {"path", path.string()},
            {"bytes", fs::file_size(path)},
            {"name", study.name()},
            {"cells", study.n_cells()}};
  for (const char* state : {sweep::kDone, sweep::kFailed, sweep::kMissing, sweep::kDamaged})
    json[state] = study.n_in_state(state);
  json["figures"] = Json::array();
  for (const figures::Figure& figure :
       figures::read_figures(path.string() + "::" + sweep::kStudyEntry).figures)
    json["figures"].push_back(figure.name);
  json["recordings"] = Json::array();
  for (const std::string& entry : recording::recording_entries(path.string())) {
    const std::string name = fmt::format("{}::{}", path.string(), entry);
    const auto info = recording::open_recording(name)->info();
    std::string runs;
    for (const auto& run : info->runs) runs += (runs.empty() ? "" : ", ") + run.plan.name;
    json["recordings"].push_back({{"recording", name},
                                  {"model", info->model.name},
                                  {"seed", info->provenance.seed},
                                  {"tokens", info->n_prompt()},
                                  {"runs", runs}});
  }
  return json;
}

// What is there, or else a model's name in the cache; what ends as recordings and figure files do names a
// file.
fs::path place_of(const fs::path& path) {
  const bool is_file_name =
      std::ranges::any_of(std::initializer_list<const char*>{".h5", ".hdf5", ".nxs", ".nx5", ".part"},
                          [&](const char* extension) { return path.extension() == extension; });
  return is_file_name ? path : capture::find_model(path.string());
}

// What a model, a recording, a figure file or a merged study holds; weights, keys and queries are not read.
// `kind` is "model", "recording", "figures" or "study".
//   throws FileError where it is none of these, or damaged
Json inspect_path(const fs::path& named) {
  const recording::EntryPath entry_path = recording::entry_path(named.string());
  const fs::path path = place_of(entry_path.file);
  if (fs::is_directory(path) || gguf::is_gguf(path)) return inspect_model(path);
  if (entry_path.entry.empty() && sweep::is_study_file(path)) return inspect_study(path);
  const hdf5::File file = hdf5::File::open(path);
  const hdf5::Group root = file.root();
  const std::string name = entry_path.entry.empty() ? "entry" : entry_path.entry;
  if (!root.has_group(name))
    throw FileError(fmt::format("{}: an HDF5 file, but no recording or figure file: it has no group '{}'",
                                path.string(), name));
  const hdf5::Group entry = root.open_group(name);
  return entry.has("runs") ? inspect_recording(named, path, entry.open_group("runs"))
                           : inspect_figures(path, entry);
}

struct InspectArguments {
  std::string path;
  std::optional<std::int64_t> token;
  std::string run;
  std::optional<int> layer, kv_head;
  JsonTarget json;
};

// A prompt may hold anything: a terminal shall not obey it, and its spaces shall be seen.
std::string readable(const std::string& text) {
  const auto space = [](unsigned char c) { return c <= 0x20 || c == 0x7F; };
  const auto control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
  const bool plain = !text.empty() && !space(text.front()) && !space(text.back()) &&
                     std::none_of(text.begin(), text.end(), control);
  return plain ? text : fmt::format("{:?}", text);
}

// Numbers as they are, lists on one line.
std::string cell(const Json& value) {
  if (value.is_null()) return "none";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string()) return readable(value.get<std::string>());
  if (!value.is_array()) return json_text(value);
  std::string list;
  for (const Json& item : value) list += (list.empty() ? "" : ", ") + cell(item);
  return list.empty() ? "none" : list;
}

bool is_table(const Json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(), [](const Json& row) { return row.is_object(); });
}

// One line a row, under the names of the first row's fields.
void print_table(const Json& rows, int indent) {
  std::vector<std::string> names;
  for (const Json& row : rows)
    for (const auto& [name, value] : row.items())
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  std::vector<std::vector<std::string>> lines{names};
  for (const Json& row : rows) {
    auto& line = lines.emplace_back();
    for (const std::string& name : names) line.push_back(row.contains(name) ? cell(row[name]) : "");
  }
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t c = 0; c < line.size(); ++c) {
      std::size_t width = 0;
      for (const auto& other : lines) width = std::max(width, other[c].size());
      text += fmt::format("{:<{}}", line[c], c + 1 == line.size() ? 0 : width + 2);
    }
    say("{:{}}{}\n", "", indent, text);
  }
}

void print_fields(const Json& fields, int indent) {
  constexpr int kNameWidth = 26;
  for (const auto& [name, value] : fields.items()) {
    if (value.is_string() && value.get_ref<const std::string&>().empty()) continue;  // nothing to say
    if (!is_table(value) && !value.is_object()) {
      say("{:{}}{:<{}}{}\n", "", indent, name, kNameWidth - indent, cell(value));
      continue;
    }
    say("{:{}}{}\n", "", indent, name);
    if (is_table(value))
      print_table(value, indent + 2);
    else
      print_fields(value, indent + 2);
  }
}

// A token's story, in the run that the window would show first unless it is named.
Json inspect_token(const InspectArguments& arguments) {
  const auto recording = recording::open_recording(arguments.path);
  const auto info = recording->info();
  session::SelectionRequest request{.layer = arguments.layer, .kv_head = arguments.kv_head};
  if (!arguments.run.empty()) request.run = arguments.run;
  if (info->runs.empty() || info->layers.empty())
    throw FileError(fmt::format("{}: it holds no run with recorded layers", arguments.path));
  const session::Selection selected = session::resolve_selection(*info, request);
  const std::int64_t n_tokens = info->runs[selected.run].n_tokens;
  if (*arguments.token >= n_tokens)
    throw UsageError(
        fmt::format("--token {}: the run has {} tokens, counted from 0", *arguments.token, n_tokens));
  std::atomic<bool> cancelled = false;
  const OnInterrupt on_interrupt([&] { cancelled = true; });
  return measures::token_story_json(
      *info, measures::token_story(*recording, {selected.run, selected.layer, selected.kv_head},
                                   *arguments.token, cancelled));
}

void run_inspect(const InspectArguments& arguments) {
  require_writable(arguments.json);
  if (!arguments.token && (!arguments.run.empty() || arguments.layer || arguments.kv_head))
    throw UsageError("--run, --layer and --kv-head choose the head of a --token; there is none");
  const Json found = arguments.token ? inspect_token(arguments) : inspect_path(arguments.path);
  if (!arguments.json.is_stdout()) print_fields(found, 0);
  if (arguments.json.given()) write_json(arguments.json, found);
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App* command =
      app.add_subcommand("inspect", "What a model, a recording, a figure file or a study holds");
  command
      ->add_option("PATH", arguments->path,
                   "A model folder or .gguf file, ORG/NAME[@REVISION] of a model in the Hugging Face cache, "
                   "a recording (or its "
                   ".part), a figure file, a merged study; FILE::ENTRY for one entry of it")
      ->required();
  command
      ->add_option(
          "--token", arguments->token,
          "The story of one token of a recording, by its position: what it attended to and who to it, "
          "its score and rank after every block, how it went")
      ->check(zero_or_more());
  command->add_option("--run", arguments->run, "Of the token: the run; by default the first that evicts");
  command->add_option("--layer", arguments->layer, "Of the token: the layer")->check(zero_or_more());
  command->add_option("--kv-head", arguments->kv_head, "Of the token: the KV head")->check(zero_or_more());
  command->add_option("--json", arguments->json.path, "Write it as JSON; - for stdout");
  command->add_flag("--force", arguments->json.replace, "Replace an existing --json file");
  command->footer("Example:\n  keyscope inspect assets/demo_model");
  command->callback([arguments] { run_inspect(*arguments); });
}

}  // namespace keyscope::commands
