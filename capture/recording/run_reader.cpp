#include "capture/recording/run_reader.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "capture/recording/recording_layout.hpp"

namespace keyscope::recording {

namespace {

using hdf5::ElementType;
using hdf5::Group;
using hdf5::Shape;

// A run's `cache_dtype` and, where it quantised, `cache_scales`.
analysis::CacheFormat read_cache_format(const Group& run) {
  try {
    return analysis::cache_format(run.text("cache_dtype"),
                                  run.has_attribute("cache_scales") ? run.text("cache_scales") : "");
  } catch (const UsageError& error) {
    throw FileError(
        fmt::format("{}: attributes 'cache_dtype' and 'cache_scales': {}", run.where(), error.what()));
  }
}

class RunReader {
 public:
  RunReader(const Group& group, const std::string& name, const RecordingInfo& info)
      : group_(group), info_(info), list_(info.complete ? Roomy{} : Roomy{0}) {
    run_.plan.name = name;
  }

  //   layer_done: called after every layer
  RunInfo read(const std::function<void()>& layer_done) {
    read_plan();
    read_blocks();
    read_generated();
    read_top();
    check_blocks();
    for (const int layer : info_.layers) {
      check_layer(layer, group_.open_group(layer_group_name(layer)));
      layer_done();
    }
    for (const int layer : info_.keyless_layers) check_keyless(group_.open_group(layer_group_name(layer)));
    for (const int layer : info_.expert_layers) check_routing(group_.open_group(layer_group_name(layer)));
    read_scored();
    return std::move(run_);
  }

 private:
  void read_plan();
  void read_blocks();
  void read_generated();
  void read_top();
  void read_scored();
  void check_blocks() const;
  void check_layer(int layer, const Group& group) const;
  void check_keyless(const Group& group) const;
  void check_routing(const Group& group) const;
  [[noreturn]] void refuse(const std::string& what) const { throw FileError(group_.where() + ": " + what); }

  // The first `n` elements of a list that may be longer in a recording that was not completed.
  template <typename T>
  std::vector<T> read_front(const std::string& name, ElementType type, std::int64_t n) const {
    std::vector<T> values(size(n));
    open_dataset(group_, name, {type}, {size(n)}, list_).read(std::span(values), {0}, {size(n)});
    return values;
  }

  const Group& group_;
  const RecordingInfo& info_;
  Roomy list_;
  RunInfo run_;
};

void RunReader::read_plan() {
  RunPlan& plan = run_.plan;
  plan.policy = group_.text("policy");
  plan.parameters = json_in(group_, "parameters");
  plan.budget = integer_in(group_, "budget", 0, kMostTokens);
  plan.block_size = integer_in(group_, "block_size", 1, kMostTokens);
  plan.n_prompt_blocks = integer_in(group_, "n_prompt_blocks", 1, info_.n_prompt());
  integer_in(group_, "n_prompt", info_.n_prompt(), info_.n_prompt());
  plan.replayed = integer_in(group_, "replayed", 0, 1) == 1;
  if (group_.has_attribute("oracle")) plan.oracle = integer_in(group_, "oracle", 0, 1) == 1;
  if (group_.has_attribute("positions")) plan.cache_positions = group_.text("positions") == "cache";
  if (group_.has_attribute("cache_dtype")) plan.cache_format = read_cache_format(group_);
  if (!group_.has("budgets")) return;
  const Shape shape{size(info_.model.n_layers), size(info_.model.n_kv_heads)};
  plan.budgets = open_dataset(group_, "budgets", {ElementType::kInt64}, shape).read<std::int64_t>();
}

void RunReader::read_blocks() {
  const RunPlan& plan = run_.plan;
  run_.block_start = open_list(group_, "block_start", ElementType::kInt32).read<std::int32_t>();
  const auto n_blocks = static_cast<std::int64_t>(run_.block_start.size());
  run_.blocks_done = n_blocks;
  if (group_.has("blocks_done"))
    open_dataset(group_, "blocks_done", {ElementType::kInt64}, {})
        .read(std::span(&run_.blocks_done, 1), {}, {});
  if (run_.blocks_done < 0 || run_.blocks_done > n_blocks || (info_.complete && run_.blocks_done != n_blocks))
    refuse(fmt::format("blocks_done is {} of {} blocks", run_.blocks_done, n_blocks));
  // In the prompt, the counted blocks end where the next one starts; after it, a block is one token.
  if (run_.blocks_done >= plan.n_prompt_blocks)
    run_.n_tokens = info_.n_prompt() + run_.blocks_done - plan.n_prompt_blocks;
  else if (run_.blocks_done < n_blocks)
    run_.n_tokens = run_.blocks_done == 0 ? 0 : run_.block_start[size(run_.blocks_done)];
  else
    refuse(
        fmt::format("block_start has {} blocks; there are {} in the prompt", n_blocks, plan.n_prompt_blocks));
  run_.block_start.resize(size(run_.blocks_done));
  run_.block_ms = read_front<float>("block_ms", ElementType::kFloat32, run_.blocks_done);
}

void RunReader::check_blocks() const {
  const RunPlan& plan = run_.plan;
  for (std::int64_t b = 0; b < run_.blocks_done; ++b) {
    const std::int64_t start = run_.block_start[size(b)], end = tokens_seen(run_, b);
    if ((b == 0 && start != 0) || start < 0 || start >= end)
      refuse(fmt::format("block_start: block {} covers tokens [{}, {})", b, start, end));
    if (b + 1 == plan.n_prompt_blocks && end != info_.n_prompt())
      refuse(fmt::format("block_start: the prompt of {} tokens ends after {}", info_.n_prompt(), end));
  }
  if (run_.blocks_done < plan.n_prompt_blocks && run_.n_tokens >= info_.n_prompt())
    refuse(fmt::format("block_start: {} of {} prompt blocks cover all {} tokens", run_.blocks_done,
                       plan.n_prompt_blocks, info_.n_prompt()));
  if (!info_.complete) return;
  const std::int64_t expected = info_.n_prompt() + std::max<std::int64_t>(run_.generated.size() - 1, 0);
  if (run_.n_tokens != expected)
    refuse(fmt::format("{} tokens passed through a complete run of {} prompt and {} generated ones",
                       run_.n_tokens, info_.n_prompt(), run_.generated.size()));
}

void RunReader::read_generated() {
  auto ids = open_list(group_, "generated", ElementType::kInt32).read<std::int32_t>();
  const auto n_ids = static_cast<std::int64_t>(ids.size());
  run_.plan.max_generated =
      group_.has_attribute("max_generated") ? integer_in(group_, "max_generated", n_ids, kMostTokens) : n_ids;
  if (info_.complete) {
    run_.generated = read_tokens(group_, std::move(ids), "generated_text");
    return;
  }
  // Ids are written with the block that produced them; those of blocks that are not counted do not count.
  const std::int64_t most = std::max<std::int64_t>(run_.blocks_done - run_.plan.n_prompt_blocks + 1, 0);
  auto known = std::find_if(ids.begin(), ids.end(), [](std::int32_t id) { return id < 0; }) - ids.begin();
  known = std::min<std::ptrdiff_t>(known, most);
  ids.resize(size(known));
  auto offset = read_front<std::int64_t>("generated_text_offset", ElementType::kInt64, known + 1);
  const auto text = open_list(group_, "generated_text", ElementType::kUInt8).read<std::uint8_t>();
  // Text that had no room was not written before the end.
  if (offset.front() != 0 || !std::is_sorted(offset.begin(), offset.end()) ||
      size(offset.back()) > text.size())
    std::fill(offset.begin(), offset.end(), 0);
  run_.generated = {std::move(ids), std::string(text.begin(), text.begin() + offset.back()),
                    std::move(offset)};
}

void RunReader::read_top() {
  run_.top_ids = open_list(group_, "top_ids", ElementType::kInt32).read<std::int32_t>();
  if (std::any_of(run_.top_ids.begin(), run_.top_ids.end(), [](std::int32_t id) { return id < 0; })) {
    if (info_.complete) refuse("top_ids holds a negative id");
    run_.top_ids.clear();  // the prompt was not read to its end
  }
  const auto n_top = static_cast<std::int64_t>(run_.top_ids.size());
  run_.top_logits = read_front<float>("top_logits", ElementType::kFloat32, n_top);
}

void RunReader::read_scored() {
  if (!group_.has("logits")) return;
  // Logits reach the disk before the top ids do.
  const bool written = info_.complete || !run_.top_ids.empty();
  const hdf5::Dataset logits = group_.open_dataset("logits", 0, written ? Shape{} : Shape{0});
  if (logits.type() != ElementType::kFloat32 || logits.shape().size() != 2 ||
      logits.shape()[0] > size(info_.n_prompt()))
    throw FileError(fmt::format("{}: found {} {}; expected float32 (M, vocabulary), M at most {}",
                                logits.where(), hdf5::name_of(logits.type()),
                                hdf5::format_shape(logits.shape()), info_.n_prompt()));
  if (written) run_.n_scored = static_cast<std::int64_t>(logits.shape()[0]);
}

void RunReader::check_layer(int layer, const Group& group) const {
  group.names();  // refuses links to other files
  if (is_keyless(group)) throw FileError(group.where() + ": is keyless; expected keys, as in the first run");
  check_layer_rows(layer, group, info_, run_);
  const hsize_t n_heads = size(info_.model.n_heads), n_kv_heads = size(info_.model.heads(layer).n_kv_heads);
  const hsize_t n_tokens = size(run_.n_tokens);
  const Roomy rows = info_.complete ? Roomy{} : Roomy{1};
  open_dataset(group, "evicted_at", {ElementType::kInt32}, {n_kv_heads, n_tokens}, rows);
  open_dataset(group, "evicted_margin", {ElementType::kFloat32}, {n_kv_heads, n_tokens}, rows);
  open_dataset(group, "attention_received", {ElementType::kFloat64}, {n_kv_heads, n_tokens}, rows);
  open_dataset(group, "attention_queries", {ElementType::kInt32}, {n_kv_heads, n_tokens}, rows);
  open_dataset(group, "attention_last", {ElementType::kFloat32}, {n_kv_heads, n_tokens}, rows);
  if (info_.has_value_norms(layer))
    open_dataset(group, "value_norms", {ElementType::kFloat32}, {n_kv_heads, n_tokens}, rows);
  if (group.has("sink_logit")) open_dataset(group, "sink_logit", {ElementType::kFloat32}, {n_heads});
  if (group.has("attention_sink"))
    open_dataset(group, "attention_sink", {ElementType::kFloat64},
                 {n_heads, size(run_.plan.n_prompt_blocks)});
  if (group.has("held_bytes"))
    for (const char* name : {"held_bytes", "packed_bytes"})
      open_dataset(group, name, {ElementType::kInt64}, {n_kv_heads});
  if (group.has("attention_entropy"))
    open_dataset(group, "attention_entropy", {ElementType::kFloat32}, {n_heads, size(info_.n_prompt())});
  if (group.has("attention_window") || (info_.window_sums && !run_.plan.replayed))
    open_dataset(group, "attention_window", {ElementType::kFloat32}, {n_kv_heads, n_tokens}, rows);
  for (const char* name : {"attention_gini", "attention_top_share"})
    if (group.has(name)) open_dataset(group, name, {ElementType::kFloat64}, {n_heads});
}

void RunReader::check_keyless(const Group& group) const {
  group.names();
  if (!is_keyless(group))
    throw FileError(group.where() + ": is not keyless; expected no keys, as in the first run");
}

void RunReader::check_routing(const Group& group) const {
  if (!group.has("expert")) return;  // a replayed run: nothing went through the model
  if (read_expert_counts(group) != ExpertCounts{info_.n_experts, info_.experts_per_token})
    throw FileError(fmt::format("{}: other numbers of experts than in the first layer, {} of {}",
                                group.where(), info_.experts_per_token, info_.n_experts));
  const hsize_t n_tokens = size(run_.n_tokens), k = size(info_.experts_per_token);
  const Roomy rows = info_.complete ? Roomy{} : Roomy{0};
  open_dataset(group, "expert", {ElementType::kInt32}, {n_tokens, k}, rows);
  open_dataset(group, "expert_weight", {ElementType::kFloat32}, {n_tokens, k}, rows);
  open_dataset(group, "router_entropy", {ElementType::kFloat32}, {n_tokens}, rows);
}

}  // namespace

RunInfo read_run(const Group& group, const std::string& name, const RecordingInfo& info,
                 const std::function<void()>& layer_done) {
  return RunReader(group, name, info).read(layer_done);
}

namespace {

// The types in which rows may lie.
constexpr auto kRowTypes = {ElementType::kFloat32, ElementType::kFloat16};

// Every layer of every run has the same heads.
void check_heads(int index, const Group& layer, const RecordingInfo& info) {
  const int n_kv_heads = info.model.heads(index).n_kv_heads;
  const std::vector<int> heads = read_recorded_heads(layer, n_kv_heads).list(n_kv_heads);
  const std::vector<int> expected = info.kv_heads(index);
  if (heads != expected)
    throw FileError(fmt::format("{}: kv_heads: found heads {}; expected {}, as in the first layer",
                                layer.where(), shown_list(heads), shown_list(expected)));
}

}  // namespace

RecordedHeads read_recorded_heads(const Group& layer, int n_kv_heads) {
  if (!layer.has("kv_heads")) return {};
  const hdf5::Dataset dataset = open_list(layer, "kv_heads", ElementType::kInt32);
  const hsize_t n_heads = dataset.shape().front();
  if (n_heads < 1 || n_heads > size(n_kv_heads))
    throw FileError(
        fmt::format("{}: found {} heads; expected 1 to {}", dataset.where(), n_heads, n_kv_heads));
  const auto heads = dataset.read<std::int32_t>();
  const bool ascending = std::ranges::adjacent_find(heads, std::greater_equal<>()) == heads.end();
  if (!ascending || heads.front() < 0 || heads.back() >= n_kv_heads)
    throw FileError(fmt::format("{}: found [{}]; expected ascending indices of {} KV heads", dataset.where(),
                                shown_list(heads), n_kv_heads));
  return {{heads.begin(), heads.end()}};
}

bool is_keyless(const Group& layer) {
  return layer.has_attribute(kKeyless) && integer_in(layer, kKeyless, 0, 1) == 1;
}

ExpertCounts read_expert_counts(const Group& layer) {
  constexpr std::int64_t kMostExperts = 1 << 20;
  const auto n = static_cast<int>(integer_in(layer, kNExperts, 1, kMostExperts));
  const hdf5::Dataset experts = layer.open_dataset("expert", 0, {0, 0});
  const hsize_t k = experts.shape().size() == 2 ? experts.shape()[1] : 0;
  if (k < 1 || k > size(n))
    throw FileError(fmt::format("{}: found {}; expected tokens by 1 to {} experts", experts.where(),
                                hdf5::format_shape(experts.shape()), n));
  return {n, static_cast<int>(k)};
}

StoreType read_store(const Group& layer) {
  StoreType coarsest = StoreType::kFloat32;
  for (const char* name : {"keys", "queries", "values"}) {
    if (!layer.has(name)) continue;
    const StoreType store = store_of(layer.open_dataset(name, 0, {0}));
    if (store_rounding(store) > store_rounding(coarsest)) coarsest = store;
  }
  return coarsest;
}

void check_layer_rows(int index, const Group& layer, const RecordingInfo& info, const RunInfo& run) {
  check_heads(index, layer, info);
  const std::int64_t n_recorded = info.heads.count(info.model.heads(index).n_kv_heads);
  const hsize_t n_kv_heads = size(n_recorded), n_heads = size(n_recorded * info.model.group_size(index));
  const hsize_t head_dim = size(info.model.heads(index).head_dim), n_tokens = size(run.n_tokens);
  const Roomy rows = info.complete ? Roomy{} : Roomy{1};
  const Roomy matrix = info.complete ? Roomy{} : Roomy{1, 2};
  const auto check = [&](const char* name, hsize_t n) {
    store_of(open_dataset(layer, name, kRowTypes, {n, n_tokens, head_dim}, rows));
  };
  if (info.keys) check("keys", n_kv_heads);
  if (info.queries) check("queries", n_heads);
  if (info.values) check("values", n_kv_heads);
  // Nothing attended under the eviction of a replayed run.
  if (info.attention && !run.plan.replayed)
    open_dataset(layer, "attention", kRowTypes, {n_heads, n_tokens, n_tokens}, matrix);
}

namespace {

[[noreturn]] void refuse(const hdf5::Dataset& found, const std::string& expected) {
  throw FileError(fmt::format("{}: found {} {}; expected {}", found.where(), hdf5::name_of(found.type()),
                              hdf5::format_shape(found.shape()), expected));
}

}  // namespace

hdf5::Dataset open_dataset(const hdf5::Group& group, const std::string& name,
                           std::initializer_list<hdf5::ElementType> types, const hdf5::Shape& shape,
                           const Roomy& roomy) {
  hdf5::Dataset dataset = group.open_dataset(name, 0, shape);
  hdf5::Shape found = dataset.shape();
  for (const std::size_t axis : roomy)
    if (axis < std::min(found.size(), shape.size())) found[axis] = std::min(found[axis], shape[axis]);
  if (std::find(types.begin(), types.end(), dataset.type()) == types.end() || found != shape)
    refuse(dataset, fmt::format("{} {}{}", hdf5::name_of(*types.begin()), hdf5::format_shape(shape),
                                roomy.empty() ? "" : " or more tokens"));
  return dataset;
}

hdf5::Dataset open_list(const hdf5::Group& group, const std::string& name, hdf5::ElementType type) {
  hdf5::Dataset dataset = group.open_dataset(name);
  if (dataset.type() != type || dataset.shape().size() != 1)
    refuse(dataset, fmt::format("{} in one dimension", hdf5::name_of(type)));
  return dataset;
}

std::int64_t integer_in(const hdf5::Group& group, const std::string& name, std::int64_t low,
                        std::int64_t high) {
  const std::int64_t value = group.integer(name);
  if (value < low || value > high)
    throw FileError(
        fmt::format("{}: attribute '{}' is {}; expected {} to {}", group.where(), name, value, low, high));
  return value;
}

std::string json_in(const hdf5::Group& group, const std::string& name) {
  std::string text = group.text(name);
  if (parse_json(text).is_discarded())
    throw FileError(fmt::format("{}: attribute '{}' is no JSON, or nested beyond {} levels", group.where(),
                                name, kDeepestJson));
  return text;
}

TokenText read_tokens(const hdf5::Group& group, std::vector<std::int32_t> ids, const std::string& text_name) {
  const hdf5::Dataset text = open_list(group, text_name, hdf5::ElementType::kUInt8);
  const hdf5::Dataset offset =
      open_dataset(group, text_name + "_offset", {hdf5::ElementType::kInt64}, {ids.size() + 1});
  const auto bytes = text.read<std::uint8_t>();
  TokenText tokens{std::move(ids), std::string(bytes.begin(), bytes.end()), offset.read<std::int64_t>()};
  const auto negative =
      std::find_if(tokens.id.begin(), tokens.id.end(), [](std::int32_t id) { return id < 0; });
  if (negative != tokens.id.end())
    throw FileError(fmt::format("{}: token {} has id {}; ids are not negative", group.where(),
                                negative - tokens.id.begin(), *negative));
  if (tokens.offset.front() != 0 || tokens.offset.back() != static_cast<std::int64_t>(tokens.text.size()) ||
      !std::is_sorted(tokens.offset.begin(), tokens.offset.end()))
    throw FileError(fmt::format("{}: offsets must ascend from 0 to {}", offset.where(), tokens.text.size()));
  return tokens;
}

}  // namespace keyscope::recording
