#include "capture/recording/recording_layout.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <Eigen/Core>
#include <fmt/format.h>

#include "base/errors.hpp"
#include "capture/recording/run_reader.hpp"

namespace keyscope::recording {

namespace {

using hdf5::DatasetOptions;
using hdf5::ElementType;
using hdf5::Group;
using hdf5::Shape;

// Space assigned now, zeros by `reserve_space`.
DatasetOptions overwritten(Shape chunk) {
  DatasetOptions options;
  options.chunk = std::move(chunk);
  options.allocate = true;
  options.reserved_zeros = true;
  return options;
}

DatasetOptions overwritten(Shape chunk, double fill) {
  DatasetOptions options = overwritten(std::move(chunk));
  options.fill = fill;
  return options;
}

// A list that may end shorter or (text) longer than planned.
void create_list(Group& group, const std::string& name, ElementType type, std::int64_t n, double fill) {
  DatasetOptions options = overwritten({std::clamp<hsize_t>(size(n), 1, kListChunk)}, fill);
  options.max_shape = {H5S_UNLIMITED};
  group.create_dataset(name, type, {size(n)}, options);
}

// Rows of every recorded head, (R, n_tokens, head_dim): chunks of one head's rows, so that one head reads
// quickly.
void create_rows(Group& group, const std::string& name, const Shape& shape, StoreType store) {
  const hsize_t row_bytes = shape[2] * (store == StoreType::kFloat16 ? 2 : 4);
  const hsize_t n_rows = std::clamp<hsize_t>(kRowChunkBytes / row_bytes, 1, shape[1]);
  create_row_dataset(group, name, store, shape, overwritten({1, n_rows, shape[2]}));
}

void create_traces(Group& group, int n_kv_heads, hsize_t n_tokens, bool value_norms) {
  const Shape shape{size(n_kv_heads), n_tokens};
  const Shape chunk{1, std::min(n_tokens, kTraceChunk)};
  const auto create = [&](const char* name, ElementType type, double fill) {
    group.create_dataset(name, type, shape, overwritten(chunk, fill));
  };
  create("evicted_at", ElementType::kInt32, -1);
  create("evicted_margin", ElementType::kFloat32, std::numeric_limits<double>::quiet_NaN());
  create("attention_received", ElementType::kFloat64, 0);
  create("attention_queries", ElementType::kInt32, 0);
  create("attention_last", ElementType::kFloat32, 0);
  if (value_norms) create("value_norms", ElementType::kFloat32, std::numeric_limits<double>::quiet_NaN());
}

// The journal of the attention sums, two slots by turns: see RunWriter.
void create_journal(Group& group, const RecordPlan& plan, int n_kv_heads) {
  const Shape shape{2, size(n_kv_heads), size(plan.n_prompt())};
  const Shape chunk{1, 1, std::min(shape[2], kTraceChunk)};
  group.create_dataset("partial_attention_received", ElementType::kFloat64, shape, overwritten(chunk));
  group.create_dataset("partial_attention_queries", ElementType::kInt32, shape, overwritten(chunk));
}

// Statistics of attention over the whole prompt, per query head; and each query's entropy.
void create_attention_statistics(Group& group, const RecordPlan& plan, int n_kv_heads, hsize_t n_tokens) {
  const hsize_t n_heads = size(plan.model.n_heads), n_prompt = size(plan.n_prompt());
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  group.create_dataset("attention_entropy", ElementType::kFloat32, {n_heads, n_prompt},
                       overwritten({1, std::min(n_prompt, kTraceChunk)}, unknown));
  group.create_dataset("attention_window", ElementType::kFloat32, {size(n_kv_heads), n_tokens},
                       overwritten({1, std::min(n_tokens, kTraceChunk)}));
  for (const char* name : {"attention_gini", "attention_top_share"})
    group.create_dataset(name, ElementType::kFloat64, {n_heads}, overwritten({n_heads}, unknown));
}

// What the heads' learned sinks took of each prompt block's queries, and their scores.
void create_sinks(Group& group, const RecordPlan& plan, std::int64_t n_blocks) {
  const hsize_t n_heads = size(plan.model.n_heads), n = size(n_blocks);
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  group.create_dataset("attention_sink", ElementType::kFloat64, {n_heads, n},
                       overwritten({n_heads, std::min(n, kMatrixChunk)}, unknown));
  group.create_dataset("sink_logit", ElementType::kFloat32, {n_heads}, overwritten({n_heads}, unknown));
}

// Where the layer's router sent each token.
void create_routing(Group& group, const RecordPlan& plan, hsize_t n_tokens) {
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  const Shape each{n_tokens, size(plan.experts_per_token)};
  const Shape chunk{std::min(n_tokens, kTraceChunk), each[1]};
  group.set_integer(kNExperts, plan.n_experts);
  group.create_dataset("expert", ElementType::kInt32, each, overwritten(chunk, -1));
  group.create_dataset("expert_weight", ElementType::kFloat32, each, overwritten(chunk, unknown));
  group.create_dataset("router_entropy", ElementType::kFloat32, {n_tokens}, overwritten({chunk[0]}, unknown));
}

// Which heads the rows are of, where they are not of all.
void create_heads(Group& group, const RecordedHeads& heads) {
  if (heads.all()) return;
  const std::vector<std::int32_t> indices(heads.kv_heads.begin(), heads.kv_heads.end());
  group.create_dataset("kv_heads", ElementType::kInt32, {indices.size()})
      .write(std::span<const std::int32_t>(indices));
}

void create_layer(Group& run, const RecordPlan& plan, const RunPlan& about, int layer) {
  Group group = run.create_group(layer_group_name(layer), "NXcollection");
  const hsize_t n_tokens = size(about.max_tokens(plan.n_prompt()));
  const hsize_t n_heads = size(plan.n_row_heads(layer)), n_row_kv_heads = size(plan.n_row_kv_heads(layer));
  const auto [n_kv_heads, head_dim] = plan.model.heads(layer);
  if (plan.has_experts(layer)) create_routing(group, plan, n_tokens);
  if (!plan.has_keys(layer)) return group.set_integer(kKeyless, 1);
  if (plan.model.lender(layer) != layer) group.set_integer(kKeysOf, plan.model.lender(layer));
  create_heads(group, plan.heads);
  const auto create_keys = [&](const char* name) {
    if (const int holder = plan.holder(layer); holder != layer)
      group.link_dataset(name, run.open_group(layer_group_name(holder)).open_dataset(name));
    else
      create_rows(group, name, {n_row_kv_heads, n_tokens, size(head_dim)}, plan.store);
  };
  if (plan.keys) create_keys("keys");
  if (plan.queries) create_rows(group, "queries", {n_heads, n_tokens, size(head_dim)}, plan.store);
  if (plan.values) create_keys("values");
  create_traces(group, n_kv_heads, n_tokens, plan.has_value_norms(layer));
  create_attention_statistics(group, plan, n_kv_heads, n_tokens);
  if (plan.sinks) create_sinks(group, plan, about.n_prompt_blocks);
  if (about.cache_format.quantises() && !about.replayed)
    for (const char* name : {"held_bytes", "packed_bytes"})
      group.create_dataset(name, ElementType::kInt64, {size(n_kv_heads)}, overwritten({}));
  // Under the layer schedule a layer that was cut short is not shown, but for the first.
  if (!plan.by_layers() || layer == plan.counted_layer()) create_journal(group, plan, n_kv_heads);
  if (plan.attention) {
    const hsize_t edge = std::min(n_tokens, kMatrixChunk);
    const ElementType type =
        plan.store == StoreType::kFloat16 ? ElementType::kFloat16 : ElementType::kFloat32;
    group.create_dataset("attention", type, {n_heads, n_tokens, n_tokens}, overwritten({1, edge, edge}));
  }
}

void create_run(Group& runs, const RecordPlan& plan, std::size_t index) {
  const RunPlan& about = plan.runs[index];
  Group run = runs.create_group(about.name, "NXcollection");
  run.set_integer("index", static_cast<std::int64_t>(index));  // groups lie in alphabetical order
  run.set_text("policy", about.policy);
  run.set_text("parameters", about.parameters);
  run.set_integer("budget", about.budget);
  run.set_integer("block_size", about.block_size);
  run.set_integer("n_prompt", plan.n_prompt());
  run.set_integer("n_prompt_blocks", about.n_prompt_blocks);
  run.set_integer("max_generated", about.max_generated);
  run.set_integer("replayed", about.replayed ? 1 : 0);
  run.set_integer("oracle", about.oracle ? 1 : 0);
  run.set_text("positions", about.cache_positions ? "cache" : "true");
  run.set_text("cache_dtype", std::string(analysis::cache_dtype_name(about.cache_format.dtype)));
  if (about.cache_format.quantises())
    run.set_text("cache_scales", std::string(analysis::cache_scales_name(about.cache_format.scales)));
  if (!about.budgets.empty()) {
    const Shape shape{size(plan.model.n_layers), size(plan.model.n_kv_heads)};
    run.create_dataset("budgets", ElementType::kInt64, shape, {})
        .write(std::span<const std::int64_t>(about.budgets));
  }
  create_list(run, "block_start", ElementType::kInt32, about.max_blocks(), -1);
  create_list(run, "block_ms", ElementType::kFloat32, about.max_blocks(),
              std::numeric_limits<double>::quiet_NaN());
  create_list(run, "generated", ElementType::kInt32, about.max_generated, -1);
  create_list(run, "generated_text", ElementType::kUInt8, about.max_generated * kTextBytesPerToken, 0);
  create_list(run, "generated_text_offset", ElementType::kInt64, about.max_generated + 1, 0);
  create_list(run, "top_logits", ElementType::kFloat32, kTopLogits, std::numeric_limits<double>::quiet_NaN());
  create_list(run, "top_ids", ElementType::kInt32, kTopLogits, -1);
  if (plan.logits) {
    const Shape shape{size(std::min(plan.score_last, plan.n_prompt())), size(plan.vocab_size)};
    run.create_dataset("logits", ElementType::kFloat32, shape,
                       overwritten({1, std::min(shape[1], kRowChunkBytes / sizeof(float))}));
  }
  run.create_dataset("blocks_done", ElementType::kInt64, {}, overwritten({}));
  run.create_dataset("partial_attention_blocks", ElementType::kInt64, {2}, overwritten({}));
  if (plan.by_layers()) {
    const std::int64_t n_layers = static_cast<std::int64_t>(plan.layers.size());
    create_list(run, "layers_complete", ElementType::kInt32, n_layers, -1);
    run.create_dataset("blocks_done_by_layer", ElementType::kInt64, {size(n_layers)}, overwritten({}));
  }
  for (const int layer : plan.layers) create_layer(run, plan, about, layer);
}

void cut(Group& group, const std::string& name, const Shape& shape) {
  if (!group.has_dataset(name)) return;
  group.open_dataset(name).resize(shape);
}

}  // namespace

std::string layer_group_name(int layer) { return fmt::format("layer_{:02}", layer); }

void create_layout(hdf5::File& file, const RecordPlan& plan) {
  Group root = file.root();
  root.set_text("NX_class", "NXroot");
  root.set_text("default", "entry");
  root.set_integer("keyscope_format", kFormat);
  Group entry = root.create_group("entry", "NXentry");
  write_origin(entry, {plan.provenance, plan.model, plan.prompt});
  entry.open_group("provenance").set_integer("complete", 0);
  Group runs = entry.create_group("runs", "NXcollection");
  for (std::size_t i = 0; i < plan.runs.size(); ++i) create_run(runs, plan, i);
}

Shape shape_of_tokens(const std::string& dataset, Shape shape, std::int64_t n_tokens) {
  const auto cut_axis = [&](std::size_t axis) {
    if (axis < shape.size()) shape[axis] = std::min(shape[axis], size(n_tokens));
  };
  const bool of_experts = dataset == "expert" || dataset == "expert_weight" || dataset == "router_entropy";
  cut_axis(of_experts ? 0 : 1);
  if (dataset == "attention") cut_axis(2);
  return shape;
}

void cut_run(Group& run, const RecordPlan& plan, const RunExtent& extent) {
  cut(run, "block_start", {size(extent.n_blocks)});
  cut(run, "block_ms", {size(extent.n_blocks)});
  cut(run, "layers_complete", {size(extent.n_layers)});
  cut(run, "generated", {size(extent.n_generated)});
  cut(run, "generated_text", {size(extent.n_text_bytes)});
  if (!extent.late_text.empty()) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(extent.late_text.data());
    run.open_dataset("generated_text").write(std::span(bytes, extent.late_text.size()));
  }
  cut(run, "generated_text_offset", {size(extent.n_generated) + 1});
  cut(run, "top_logits", {size(extent.n_top)});
  cut(run, "top_ids", {size(extent.n_top)});
  cut(run, "logits", {size(extent.n_scored), size(plan.vocab_size)});
  const hsize_t n_tokens = size(extent.n_tokens);
  for (const int layer : plan.layers) {
    const hsize_t n_heads = size(plan.n_row_heads(layer)), n_kv_heads = size(plan.n_row_kv_heads(layer));
    const auto heads = plan.model.heads(layer);
    const hsize_t head_dim = size(heads.head_dim);
    Group group = run.open_group(layer_group_name(layer));
    if (plan.holder(layer) == layer) {
      cut(group, "keys", {n_kv_heads, n_tokens, head_dim});
      cut(group, "values", {n_kv_heads, n_tokens, head_dim});
    }
    cut(group, "queries", {n_heads, n_tokens, head_dim});
    cut(group, "attention", {n_heads, n_tokens, n_tokens});
    for (const char* name : {"evicted_at", "evicted_margin", "attention_received", "attention_queries",
                             "attention_last", "attention_window", "value_norms"})
      cut(group, name, {size(heads.n_kv_heads), n_tokens});
    for (const char* name : {"expert", "expert_weight"})
      cut(group, name, {n_tokens, size(plan.experts_per_token)});
    cut(group, "router_entropy", {n_tokens});
  }
}

namespace {

constexpr std::int64_t kMostHeads = 1 << 20;

// The texts of the provenance, and where they belong.
constexpr std::pair<const char*, std::string Provenance::*> kTexts[]{
    {"command", &Provenance::command},
    {"configuration", &Provenance::configuration},
    {"versions", &Provenance::versions},
    {"model_sha256", &Provenance::model_sha256},
    {"model_commit", &Provenance::model_commit},
    {"quantisation", &Provenance::quantisation},
    {"prompt_sha256", &Provenance::prompt_sha256},
    {"device", &Provenance::device},
    {"schedule", &Provenance::schedule},
    {"started", &Provenance::started}};

void write_provenance(Group& entry, const Provenance& from) {
  Group group = entry.create_group("provenance", "NXcollection");
  for (const auto& [name, text] : kTexts) {
    const bool of_some = text == &Provenance::model_commit || text == &Provenance::quantisation;
    if (!of_some || !(from.*text).empty()) group.set_text(name, from.*text);
  }
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
  const auto set_by_layer = [&](const char* name, auto of_layer) {
    std::vector<std::int64_t> values;
    for (int layer = 0; layer < from.n_layers; ++layer) values.push_back(of_layer(layer));
    group.set_integers(name, values);
  };
  if (!from.layer_heads.empty()) {
    set_by_layer(kLayerKvHeads, [&](int layer) { return from.heads(layer).n_kv_heads; });
    set_by_layer(kLayerHeadDim, [&](int layer) { return from.heads(layer).head_dim; });
  }
  if (!from.layer_lenders.empty()) set_by_layer(kKeysOf, [&](int layer) { return from.lender(layer); });
}

template <typename T>
void write_compressed(Group& group, const std::string& name, ElementType type, const std::vector<T>& values) {
  DatasetOptions options;
  options.chunk = {std::clamp<hsize_t>(values.size(), 1, kRowChunkBytes / sizeof(T))};
  options.max_shape = {H5S_UNLIMITED};
  options.shuffle = sizeof(T) > 1;
  options.gzip = 4;
  options.cache_bytes = kRowChunkBytes;
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

std::vector<int> integers_by_layer(const Group& group, const char* name, const ModelInfo& model,
                                   std::int64_t low, std::int64_t high) {
  const std::vector<std::int64_t> values = group.integers(name);
  if (std::ssize(values) != model.n_layers)
    throw FileError(fmt::format("{}: attribute '{}' has {} entries; expected one for each of {} layers",
                                group.where(), name, values.size(), model.n_layers));
  for (const std::int64_t value : values)
    if (value < low || value > high)
      throw FileError(fmt::format("{}: attribute '{}' holds {}; expected {} to {}", group.where(), name,
                                  value, low, high));
  return {values.begin(), values.end()};
}

ModelInfo read_model(const Group& group) {
  ModelInfo model;
  model.config = json_in(group, "config");
  if (group.has_attribute("name")) model.name = group.text("name");
  model.n_layers = static_cast<int>(integer_in(group, "n_layers", 1, kMostHeads));
  model.n_heads = static_cast<int>(integer_in(group, "n_heads", 1, kMostHeads));
  model.n_kv_heads = static_cast<int>(integer_in(group, "n_kv_heads", 1, model.n_heads));
  model.head_dim = static_cast<int>(integer_in(group, "head_dim", 1, kMostHeads));
  if (model.n_heads % model.n_kv_heads != 0)
    throw FileError(fmt::format("{}: {} query heads do not divide over {} KV heads", group.where(),
                                model.n_heads, model.n_kv_heads));
  if (group.has_attribute(kLayerKvHeads) || group.has_attribute(kLayerHeadDim)) {
    auto n_kv_heads = integers_by_layer(group, kLayerKvHeads, model, 0, model.n_kv_heads);
    auto head_dim = integers_by_layer(group, kLayerHeadDim, model, 0, model.head_dim);
    for (int layer = 0; layer < model.n_layers; ++layer) {
      if (n_kv_heads[layer] == 0) n_kv_heads[layer] = model.n_kv_heads;  // of a layer without keys
      if (head_dim[layer] == 0) head_dim[layer] = model.head_dim;
      if (model.n_heads % n_kv_heads[layer] != 0)
        throw FileError(fmt::format("{}: {} query heads do not divide over layer {}'s {} KV heads",
                                    group.where(), model.n_heads, layer, n_kv_heads[layer]));
      model.layer_heads.push_back({n_kv_heads[layer], head_dim[layer]});
    }
  }
  if (!group.has_attribute(kKeysOf)) return model;
  model.layer_lenders = integers_by_layer(group, kKeysOf, model, 0, model.n_layers - 1);
  for (int layer = 0; layer < model.n_layers; ++layer) {
    const int lender = model.lender(layer);
    if (model.lender(lender) != lender || lender > layer || model.heads(lender) != model.heads(layer))
      throw FileError(fmt::format("{}: {}: layer {} cannot have the keys of layer {}", group.where(), kKeysOf,
                                  layer, lender));
  }
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

namespace {

using hdf5::Dataset;

constexpr const char* kRoundedTo = "rounded_to";

float rounded(float value) { return static_cast<float>(Eigen::bfloat16(value)); }

bool is_bfloat16(float value) { return (std::bit_cast<std::uint32_t>(value) & 0xFFFFU) == 0; }

}  // namespace

Dataset create_row_dataset(hdf5::Group& group, const std::string& name, StoreType store,
                           const hdf5::Shape& shape, const hdf5::DatasetOptions& options) {
  const ElementType type = store == StoreType::kFloat16 ? ElementType::kFloat16 : ElementType::kFloat32;
  Dataset dataset = group.create_dataset(name, type, shape, options);
  mark_store(dataset, store);
  return dataset;
}

void mark_store(Dataset& dataset, StoreType store) {
  if (store == StoreType::kBFloat16) dataset.set_text(kRoundedTo, std::string(store_name(store)));
}

StoreType store_of(const Dataset& dataset) {
  if (!dataset.has_attribute(kRoundedTo))
    return dataset.type() == ElementType::kFloat16 ? StoreType::kFloat16 : StoreType::kFloat32;
  const std::string found = dataset.text(kRoundedTo);
  if (found != store_name(StoreType::kBFloat16) || dataset.type() != ElementType::kFloat32)
    throw FileError(
        fmt::format("{}: found {} with {} '{}'; expected float32 with 'bfloat16', or no such attribute",
                    dataset.where(), hdf5::name_of(dataset.type()), kRoundedTo, found));
  return StoreType::kBFloat16;
}

void store_rows(Dataset& dataset, StoreType store, std::span<const float> rows, const hdf5::Shape& start,
                const hdf5::Shape& count) {
  if (store != StoreType::kBFloat16) return dataset.write(rows, start, count);
  std::vector<float> values(rows.size());
  std::ranges::transform(rows, values.begin(), rounded);
  dataset.write(std::span<const float>(values), start, count);
}

void check_rounded(const Dataset& dataset, std::span<const float> values) {
  if (store_of(dataset) != StoreType::kBFloat16) return;
  const auto other = std::ranges::find_if_not(values, is_bfloat16);
  if (other != values.end())
    throw FileError(fmt::format("{}: holds {}; expected numbers rounded to bfloat16, as {} says",
                                dataset.where(), *other, kRoundedTo));
}

}  // namespace keyscope::recording
