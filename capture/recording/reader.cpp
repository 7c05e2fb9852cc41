#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "capture/recording/hdf5.hpp"
#include "capture/recording/hdf5_walk.hpp"
#include "capture/recording/recording.hpp"
#include "capture/recording/recording_layout.hpp"
#include "capture/recording/run_reader.hpp"

namespace keyscope::recording {

namespace {

constexpr const char *kEntry = "entry", *kEntrySeparator = "::";

// Reads what a recording says of itself, and checks all that it declares: every dataset's type and shape
// against the others, offsets and ids, blocks against tokens. Keys, queries, values and attention are not
// read.
//   progress: may be empty
//   throws FileError naming file and dataset or attribute, what was found and what was expected
RecordingInfo read_info(const hdf5::File& file, const std::string& source, const std::string& entry_name,
                        const OpenProgress& progress = {});

using hdf5::ElementType;
using hdf5::Group;

// The layers that a run has recorded, ascending.
std::vector<int> find_layers(const Group& run, int n_layers) {
  constexpr std::string_view kPrefix = "layer_";
  std::vector<int> layers;
  for (const std::string& name : run.names()) {
    if (!name.starts_with(kPrefix)) continue;
    int layer = -1;
    const char* end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + kPrefix.size(), end, layer);
    if (parsed.ec != std::errc() || parsed.ptr != end || layer < 0 || layer >= n_layers ||
        layer_group_name(layer) != name)
      throw FileError(fmt::format("{}: '{}' is no layer of a model of {}", run.where(), name, n_layers));
    layers.push_back(layer);
  }
  std::sort(layers.begin(), layers.end());
  if (layers.empty()) throw FileError(run.where() + ": holds no layer");
  return layers;
}

// Of a recording that grew layer by layer and was cut short: the layers that all runs have been through, or
// the first one that has keys, as far as it came.
void leave_unfinished_layers(RecordingInfo& info, const Group& runs, const std::vector<std::string>& names) {
  const int first = info.layers.front();
  std::vector<std::int32_t> unfinished = info.all_layers();
  for (const std::string& name : names) {
    const Group run = runs.open_group(name);
    if (!run.has("layers_complete")) return;
    const auto complete = open_list(run, "layers_complete", ElementType::kInt32).read<std::int32_t>();
    const auto ends = [&](int layer) { return std::ranges::find(complete, layer) != complete.end(); };
    if (name == names.front()) std::erase_if(unfinished, ends);
    for (const int layer : info.all_layers())
      if (!ends(layer)) unfinished.push_back(layer);
  }
  for (std::vector<int>* layers : {&info.layers, &info.keyless_layers, &info.expert_layers})
    std::erase_if(*layers,
                  [&](int layer) { return std::ranges::find(unfinished, layer) != unfinished.end(); });
  if (info.layers.empty()) info.layers.push_back(first);
}

// What was recorded: the first layer with keys of the first run decides, every other one is held to it.
void find_contents(RecordingInfo& info, const Group& run) {
  info.layers = find_layers(run, info.model.n_layers);
  for (const int layer : info.layers) {
    const Group group = run.open_group(layer_group_name(layer));
    if (is_keyless(group)) info.keyless_layers.push_back(layer);
    if (!group.has_attribute(kNExperts)) continue;
    const ExpertCounts counts = read_expert_counts(group);
    if (info.expert_layers.empty()) {
      info.n_experts = counts.n;
      info.experts_per_token = counts.per_token;
    }
    info.expert_layers.push_back(layer);
  }
  std::erase_if(info.layers, [&](int layer) { return !info.has_keys(layer); });
  if (info.layers.empty()) throw FileError(run.where() + ": none of its layers has keys");
  const Group layer = run.open_group(layer_group_name(info.layers.front()));
  info.sinks = layer.has("sink_logit");
  info.heads = read_recorded_heads(layer, info.model.heads(info.layers.front()).n_kv_heads);
  if (std::cmp_equal(info.heads.kv_heads.size(), info.model.n_kv_heads)) info.heads = {};
  info.store = read_store(layer);
  info.keys = layer.has("keys");
  info.queries = layer.has("queries");
  info.values = layer.has("values");
  info.value_norms = std::ranges::any_of(info.layers, [&](int with_keys) {
    return run.open_group(layer_group_name(with_keys)).has("value_norms");
  });
  info.attention = layer.has("attention");
  info.window_sums = std::ranges::all_of(info.layers, [&](int with_keys) {
    return run.open_group(layer_group_name(with_keys)).has("attention_window");
  });
}

// The runs' names in the order in which they were recorded; where a file does not say, `none` first.
std::vector<std::string> ordered_runs(const Group& runs) {
  std::vector<std::pair<std::int64_t, std::string>> order;
  for (const std::string& name : runs.names()) {
    const Group run = runs.open_group(name);
    order.emplace_back(run.has_attribute("index") ? run.integer("index") : (name == "none" ? -1 : 0), name);
  }
  if (order.empty()) throw FileError(runs.where() + ": holds no run");
  std::sort(order.begin(), order.end());
  std::vector<std::string> names;
  names.reserve(order.size());
  for (auto& [index, name] : order) names.push_back(std::move(name));
  return names;
}

void read_runs(const Group& runs, const std::vector<std::string>& names, const OpenProgress& progress,
               RecordingInfo& info) {
  const std::int64_t n_layers = std::ssize(names) * std::ssize(info.layers);
  std::int64_t n_checked = 0;
  const auto report = [&] {
    if (progress) progress(n_checked, n_layers);
  };
  report();
  for (const std::string& name : names) {
    const Group run = runs.open_group(name);
    info.runs.push_back(read_run(run, name, info, [&] {
      ++n_checked;
      report();
    }));
  }
}

RecordingInfo read_info(const hdf5::File& file, const std::string& source, const std::string& entry_name,
                        const OpenProgress& progress) {
  const Group root = file.root();
  root.names();
  const bool is_ours = root.has_attribute("keyscope_format") && root.has(kEntry);
  if (!is_ours && std::filesystem::path(source).extension() == ".part")
    throw FileError(source + ": nothing was recorded yet when this capture was killed; run it again");
  if (!is_ours)
    throw FileError(source +
                    ": not a Keyscope recording (no attribute 'keyscope_format', or no group 'entry')");
  if (root.integer("keyscope_format") != kFormat)
    throw FileError(fmt::format("{}: keyscope_format is {}; this version reads {}", source,
                                root.integer("keyscope_format"), kFormat));
  const Group entry = root.open_group(entry_name);
  entry.names();
  if (!entry.has("runs")) throw FileError(source + ": holds no runs; a figure file is not a recording");
  RecordingInfo info;
  info.source = source;
  const Group provenance = entry.open_group("provenance");
  info.complete = integer_in(provenance, "complete", 0, 1) == 1;
  Origin origin = read_origin(entry);
  info.provenance = std::move(origin.provenance);
  info.model = std::move(origin.model);
  info.prompt = std::move(origin.prompt);
  if (info.n_prompt() == 0)
    throw FileError(entry.open_group("tokens").where() +
                    ": attribute 'n_prompt' is 0; a recording has at least 1");
  const Group runs = entry.open_group("runs");
  const std::vector<std::string> names = ordered_runs(runs);
  find_contents(info, runs.open_group(names.front()));
  for (const std::string& name : names) {
    const Group run = runs.open_group(name);
    if (find_layers(run, info.model.n_layers) != info.all_layers())
      throw FileError(run.where() + ": holds other layers than run " + names.front());
  }
  if (!info.complete) leave_unfinished_layers(info, runs, names);
  read_runs(runs, names, progress, info);
  return info;
}

using hdf5::Dataset;
using hdf5::Shape;

struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

class FileRecording final : public Recording {
 public:
  //   source: what was asked for, for messages
  FileRecording(const EntryPath& path, const std::string& source, const OpenProgress& progress)
      : file_(hdf5::File::open(path.file)),
        entry_(path.entry.empty() ? kEntry : path.entry),
        info_(std::make_shared<const RecordingInfo>(read_info(file_, source, entry_, progress))) {}

  std::shared_ptr<const RecordingInfo> info() const override { return info_; }
  RowMatrixF keys(int run, int layer, int kv_head, std::int64_t first, std::int64_t count) const override {
    return rows_of_heads("keys", info_->keys, run, layer, kv_row_place(*info_, layer, kv_head), 1,
                         {first, count});
  }
  RowMatrixF queries(int run, int layer, int head, std::int64_t first, std::int64_t count) const override {
    return rows_of_heads("queries", info_->queries, run, layer, query_row_place(*info_, layer, head), 1,
                         {first, count});
  }
  RowMatrixF group_queries(int run, int layer, int kv_head, std::int64_t first,
                           std::int64_t count) const override {
    const int group_size = info_->model.group_size(layer);
    return rows_of_heads("queries", info_->queries, run, layer,
                         kv_row_place(*info_, layer, kv_head) * group_size, group_size, {first, count});
  }
  RowMatrixF values(int run, int layer, int kv_head, std::int64_t first, std::int64_t count) const override {
    return rows_of_heads("values", info_->values, run, layer, kv_row_place(*info_, layer, kv_head), 1,
                         {first, count});
  }
  HeadTrace trace(int run, int layer, int kv_head) const override;
  AttentionStatistics statistics(int run, int layer) const override;
  std::vector<float> sink_logits(int run, int layer) const override;
  LayerRouting routing(int run, int layer) const override;
  RowMatrixF attention(int run, int layer, int head, std::int64_t first, std::int64_t count) const override;
  RowMatrixF logits(int run) const override;

 private:
  const RunInfo& run_info(int run) const;
  Group run_group(int run) const;
  void check_place(int run, int layer) const;
  RowRange check_rows(int run, RowRange rows) const;
  const Dataset& dataset(int run, int layer, const std::string& name) const;
  RowMatrixF rows_of_heads(const char* name, bool recorded, int run, int layer, int place, int n_heads,
                           RowRange rows) const;
  template <typename T>
  std::vector<T> head_values(int run, int layer, const char* name, int kv_head) const;
  void read_journal(int run, int layer, int kv_head, HeadTrace& trace) const;
  RowMatrixD read_sink(int run, int layer) const;

  hdf5::File file_;
  std::string entry_;
  std::shared_ptr<const RecordingInfo> info_;
  mutable std::map<std::tuple<int, int, std::string>, Dataset> open_;  // guarded by hdf5::Lock
};

const RunInfo& FileRecording::run_info(int run) const {
  if (run < 0 || static_cast<std::size_t>(run) >= info_->runs.size())
    throw FileError(fmt::format("{}: there is no run {}; it has {}", info_->source, run, info_->runs.size()));
  return info_->runs[run];
}

Group FileRecording::run_group(int run) const {
  return file_.root().open_group(entry_).open_group("runs").open_group(run_info(run).plan.name);
}

void FileRecording::check_place(int run, int layer) const {
  run_info(run);
  require_keys_of(*info_, layer);
}

RowRange FileRecording::check_rows(int run, RowRange rows) const {
  const std::int64_t n_tokens = run_info(run).n_tokens;
  if (rows.first < 0 || rows.first > n_tokens || rows.count > n_tokens - rows.first)
    throw FileError(fmt::format("{}: rows [{}, {}) of {} tokens", info_->source, rows.first,
                                rows.first + rows.count, n_tokens));
  return {rows.first, rows.count < 0 ? n_tokens - rows.first : rows.count};
}

const Dataset& FileRecording::dataset(int run, int layer, const std::string& name) const {
  const auto key = std::make_tuple(run, layer, name);
  const hdf5::Lock lock;
  auto found = open_.find(key);
  if (found == open_.end()) {
    constexpr hsize_t kAll = std::numeric_limits<hsize_t>::max();
    const Shape needed = shape_of_tokens(name, {kAll, kAll, kAll}, run_info(run).n_tokens);
    const Group group = run_group(run).open_group(layer_group_name(layer));
    found = open_.emplace(key, group.open_dataset(name, 0, needed)).first;
  }
  return found->second;
}

// Of heads that lie one after another, from a place on.
RowMatrixF FileRecording::rows_of_heads(const char* name, bool recorded, int run, int layer, int place,
                                        int n_heads, RowRange rows) const {
  check_place(run, layer);
  if (!recorded) throw FileError(fmt::format("{}: {} were not recorded", info_->source, name));
  const RowRange range = check_rows(run, rows);
  const int head_dim = info_->model.heads(layer).head_dim;
  RowMatrixF matrix(n_heads * range.count, head_dim);
  const std::span values(matrix.data(), matrix.size());
  const Dataset& stored = dataset(run, layer, name);
  stored.read(values, {size(place), size(range.first), 0},
              {size(n_heads), size(range.count), size(head_dim)});
  check_rounded(stored, values);
  return matrix;
}

template <typename T>
std::vector<T> FileRecording::head_values(int run, int layer, const char* name, int kv_head) const {
  std::vector<T> values(size(run_info(run).n_tokens));
  dataset(run, layer, name).read(std::span(values), {size(kv_head), 0}, {1, values.size()});
  return values;
}

// Evictions of blocks that are not counted have not happened.
void cut_evictions(HeadTrace& trace, const RunInfo& run, bool complete, const std::string& where) {
  for (std::size_t i = 0; i < trace.evicted_at.size(); ++i) {
    std::int32_t& at = trace.evicted_at[i];
    if (!complete && at >= run.blocks_done) {
      at = -1;
      trace.evicted_margin[i] = std::numeric_limits<float>::quiet_NaN();
    }
    const bool seen = at < 0 || (at < run.blocks_done && static_cast<std::int64_t>(i) < tokens_seen(run, at));
    if (at < -1 || !seen)
      throw FileError(
          fmt::format("{}: token {} is evicted at block {} of {}", where, i, at, run.blocks_done));
  }
}

HeadTrace FileRecording::trace(int run, int layer, int kv_head) const {
  check_place(run, layer);
  check_kv_head(*info_, layer, kv_head);
  const RunInfo& about = run_info(run);
  HeadTrace trace;
  trace.evicted_at = head_values<std::int32_t>(run, layer, "evicted_at", kv_head);
  trace.evicted_margin = head_values<float>(run, layer, "evicted_margin", kv_head);
  cut_evictions(trace, about, info_->complete, dataset(run, layer, "evicted_at").where());
  trace.attention_received = head_values<double>(run, layer, "attention_received", kv_head);
  trace.attention_queries = head_values<std::int32_t>(run, layer, "attention_queries", kv_head);
  trace.attention_last = head_values<float>(run, layer, "attention_last", kv_head);
  if (info_->has_value_norms(layer))
    trace.value_norms = head_values<float>(run, layer, "value_norms", kv_head);
  if (about.blocks_done < about.plan.n_prompt_blocks && about.blocks_done > 0)
    read_journal(run, layer, kv_head, trace);
  return trace;
}

// Of a prompt that was not read to its end, the sums of the rows still present stand in the journal (see
// RunWriter), and no query was the last one.
void FileRecording::read_journal(int run, int layer, int kv_head, HeadTrace& trace) const {
  std::fill(trace.attention_last.begin(), trace.attention_last.end(), 0.0f);
  const Group group = run_group(run);
  if (!group.has("partial_attention_blocks")) return;
  const auto blocks =
      recording::open_dataset(group, "partial_attention_blocks", {hdf5::ElementType::kInt64}, {2})
          .read<std::int64_t>();
  const auto slot = std::find(blocks.begin(), blocks.end(), run_info(run).blocks_done) - blocks.begin();
  const Group layer_group = group.open_group(layer_group_name(layer));
  const Shape shape{2, size(info_->model.heads(layer).n_kv_heads), size(info_->n_prompt())};
  if (slot == 2)
    throw FileError(
        fmt::format("{}: partial_attention_blocks is [{}, {}]; one of them must be blocks_done, {}",
                    group.where(), blocks[0], blocks[1], run_info(run).blocks_done));
  const Dataset received = recording::open_dataset(layer_group, "partial_attention_received",
                                                   {hdf5::ElementType::kFloat64}, shape);
  const Dataset queries =
      recording::open_dataset(layer_group, "partial_attention_queries", {hdf5::ElementType::kInt32}, shape);
  std::vector<std::size_t> present;
  for (std::size_t i = 0; i < trace.evicted_at.size(); ++i)
    if (trace.evicted_at[i] < 0) present.push_back(i);
  std::vector<double> received_rows(present.size());
  std::vector<std::int32_t> query_rows(present.size());
  const Shape start{size(slot), size(kv_head), 0}, count{1, 1, present.size()};
  received.read(std::span(received_rows), start, count);
  queries.read(std::span(query_rows), start, count);
  for (std::size_t i = 0; i < present.size(); ++i) {
    trace.attention_received[present[i]] = received_rows[i];
    trace.attention_queries[present[i]] = query_rows[i];
  }
}

AttentionStatistics FileRecording::statistics(int run, int layer) const {
  check_place(run, layer);
  AttentionStatistics statistics;
  const Group group = run_group(run).open_group(layer_group_name(layer));
  if (group.has("held_bytes")) {
    statistics.held_bytes = dataset(run, layer, "held_bytes").read<std::int64_t>();
    statistics.packed_bytes = dataset(run, layer, "packed_bytes").read<std::int64_t>();
  }
  const auto matrix = [&](const char* name, std::int64_t n_rows, std::int64_t n_columns) {
    if (!group.has(name)) return RowMatrixF();
    RowMatrixF values(n_rows, n_columns);
    dataset(run, layer, name)
        .read(std::span(values.data(), values.size()), {0, 0}, {size(n_rows), size(n_columns)});
    return values;
  };
  statistics.entropy = matrix("attention_entropy", info_->model.n_heads, info_->n_prompt());
  statistics.window =
      matrix("attention_window", info_->model.heads(layer).n_kv_heads, run_info(run).n_tokens);
  if (group.has("attention_gini")) statistics.gini = dataset(run, layer, "attention_gini").read<double>();
  if (group.has("attention_top_share"))
    statistics.top_share = dataset(run, layer, "attention_top_share").read<double>();
  if (group.has("attention_sink")) statistics.sink = read_sink(run, layer);
  return statistics;
}

// Of blocks that are not counted nothing is known.
RowMatrixD FileRecording::read_sink(int run, int layer) const {
  const Dataset& sums = dataset(run, layer, "attention_sink");
  const RunInfo& about = run_info(run);
  RowMatrixD sink = RowMatrixD::Constant(info_->model.n_heads, about.plan.n_prompt_blocks,
                                         std::numeric_limits<double>::quiet_NaN());
  const std::int64_t n_known = std::min(about.blocks_done, about.plan.n_prompt_blocks);
  if (n_known == 0) return sink;
  RowMatrixD known(info_->model.n_heads, n_known);
  sums.read(std::span(known.data(), known.size()), {0, 0}, {size(known.rows()), size(n_known)});
  sink.leftCols(n_known) = known;
  return sink;
}

std::vector<float> FileRecording::sink_logits(int run, int layer) const {
  check_place(run, layer);
  if (run_info(run).blocks_done == 0) return {};  // they come with the first block
  if (!run_group(run).open_group(layer_group_name(layer)).has("sink_logit")) return {};
  std::vector<float> logits = dataset(run, layer, "sink_logit").read<float>();
  if (std::ranges::any_of(logits, [](float logit) { return std::isnan(logit); })) logits.clear();
  return logits;
}

LayerRouting FileRecording::routing(int run, int layer) const {
  const RunInfo& about = run_info(run);
  LayerRouting routing;
  if (about.n_tokens == 0 || !std::ranges::binary_search(info_->expert_layers, layer) ||
      !run_group(run).open_group(layer_group_name(layer)).has("expert"))
    return routing;
  const hsize_t n = size(about.n_tokens), k = size(info_->experts_per_token);
  routing.experts.resize(about.n_tokens, info_->experts_per_token);
  routing.weights.resize(about.n_tokens, info_->experts_per_token);
  routing.entropy.resize(n);
  const Dataset& experts = dataset(run, layer, "expert");
  experts.read(std::span(routing.experts.data(), routing.experts.size()), {0, 0}, {n, k});
  dataset(run, layer, "expert_weight")
      .read(std::span(routing.weights.data(), routing.weights.size()), {0, 0}, {n, k});
  dataset(run, layer, "router_entropy").read(std::span(routing.entropy), {0}, {n});
  for (const std::int32_t expert : routing.experts.reshaped<Eigen::RowMajor>())
    if (expert < -1 || expert >= info_->n_experts)
      throw FileError(fmt::format("{}: found expert {}; expected -1 to {}", experts.where(), expert,
                                  info_->n_experts - 1));
  return routing;
}

RowMatrixF FileRecording::attention(int run, int layer, int head, std::int64_t first,
                                    std::int64_t count) const {
  check_place(run, layer);
  const int place = query_row_place(*info_, layer, head);
  if (!info_->attention) throw FileError(info_->source + ": attention was not recorded");
  if (run_info(run).plan.replayed)
    throw FileError(fmt::format("{}: run {} was replayed without the model, and has no attention of its own",
                                info_->source, run_info(run).plan.name));
  const RowRange rows = check_rows(run, {first, count});
  const std::int64_t n_tokens = run_info(run).n_tokens;
  RowMatrixF weights(rows.count, n_tokens);
  dataset(run, layer, "attention")
      .read(std::span(weights.data(), weights.size()), {size(place), size(rows.first), 0},
            {1, size(rows.count), size(n_tokens)});
  return weights;
}

RowMatrixF FileRecording::logits(int run) const {
  const std::int64_t n_scored = run_info(run).n_scored;
  if (n_scored == 0) return {};
  const Dataset logits = run_group(run).open_dataset("logits");
  RowMatrixF matrix(n_scored, static_cast<Eigen::Index>(logits.shape()[1]));
  logits.read(std::span(matrix.data(), matrix.size()), {0, 0}, {size(n_scored), logits.shape()[1]});
  return matrix;
}

}  // namespace

EntryPath entry_path(const std::string& path) {
  const auto at = path.rfind(kEntrySeparator);
  std::error_code too_long;  // for a file's name, which an entry's need not be
  if (at == std::string::npos || std::filesystem::exists(path, too_long)) return {path, ""};
  return {path.substr(0, at), path.substr(at + std::string_view(kEntrySeparator).size())};
}

namespace {

// Whether a writer holds it, between whose changes what is read may contradict itself.
bool is_being_written(const std::string& file) {
  const Descriptor opened(file, O_RDONLY);
  return opened.id() >= 0 && flock(opened.id(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace

std::shared_ptr<Recording> open_recording(const std::string& path) {
  return open_recording(path, OpenProgress());
}

std::shared_ptr<Recording> open_recording(const std::string& path, const OpenProgress& progress) {
  const EntryPath place = entry_path(path);
  constexpr int kMostAttempts = 20;
  for (int attempt = 1;; ++attempt) try {
      hdf5::require_sound(place.file,
                          place.entry.empty() ? kEntry : place.entry);  // others may read meanwhile
      const hdf5::Lock lock;
      return std::make_shared<FileRecording>(place, path, progress);
    } catch (const FileError& error) {
      if (!is_being_written(place.file)) throw;
      if (attempt == kMostAttempts)
        throw FileError(
            fmt::format("{}; a capture is writing to it: read it once that is done", error.what()));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}

std::vector<std::string> recording_entries(const std::string& file) {
  std::vector<std::string> entries;
  const hdf5::File opened = hdf5::File::open(file);
  const Group root = opened.root();
  for (const std::string& name : root.names())
    if (root.has_group(name) && root.peek(name).has("runs")) entries.push_back(name);
  // "entry", "entry_2", … "entry_10"
  std::ranges::stable_sort(entries, {}, &std::string::size);
  return entries;
}

}  // namespace keyscope::recording
