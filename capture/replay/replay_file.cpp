#include "capture/replay/replay_file.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "capture/recording/dataset_copy.hpp"
#include "capture/recording/hdf5.hpp"
#include "capture/recording/recording_layout.hpp"
#include "capture/replay/replay.hpp"

namespace keyscope::replay {

namespace {

using recording::kGzip;
using recording::kListChunk;
using recording::kTraceChunk;
using recording::RecordingInfo;
using recording::RunInfo;
using recording::shape_of_tokens;
using recording::size;
using recording::hdf5::Dataset;
using recording::hdf5::DatasetOptions;
using recording::hdf5::ElementType;
using recording::hdf5::Group;
using recording::hdf5::Shape;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

bool is_journal(const std::string& name) { return name.starts_with("partial_attention"); }

// One number per row of every KV head, about attention: what a replayed run cannot know. Other statistics of
// attention are left out of it altogether.
bool is_attention_trace(const std::string& name) {
  return name == "attention_received" || name == "attention_queries" || name == "attention_last";
}

// The numbers that a layer holds, those of other writers too, but for the writer's journal.
std::vector<std::string> datasets_of(const Group& layer) {
  std::vector<std::string> names = layer.names();
  std::erase_if(names, [&](const std::string& name) {
    return is_journal(name) || !layer.has_dataset(name) ||
           layer.open_dataset(name, 0, {0}).type() == ElementType::kOther;
  });
  return names;
}

template <typename T>
void write_list(Group& group, const std::string& name, ElementType type, const std::vector<T>& values) {
  DatasetOptions options;
  options.chunk = {std::clamp<hsize_t>(values.size(), 1, kListChunk)};
  options.max_shape = {H5S_UNLIMITED};
  group.create_dataset(name, type, {values.size()}, options).write(std::span<const T>(values));
}

// A run's group with all that lies in it but logits and layers.
Group create_run(Group& runs, const RunInfo& run, std::int64_t index, std::int64_t n_prompt) {
  Group group = runs.create_group(run.plan.name, "NXcollection");
  group.set_integer("index", index);
  group.set_text("policy", run.plan.policy);
  group.set_text("parameters", run.plan.parameters);
  group.set_integer("budget", run.plan.budget);
  group.set_integer("block_size", run.plan.block_size);
  group.set_integer("n_prompt", n_prompt);
  group.set_integer("n_prompt_blocks", run.plan.n_prompt_blocks);
  group.set_integer("max_generated", run.generated.size());
  group.set_integer("replayed", run.plan.replayed ? 1 : 0);
  group.set_integer("oracle", run.plan.oracle ? 1 : 0);
  write_list(group, "block_start", ElementType::kInt32, run.block_start);
  write_list(group, "block_ms", ElementType::kFloat32, run.block_ms);
  write_list(group, "generated", ElementType::kInt32, run.generated.id);
  write_list(group, "generated_text", ElementType::kUInt8,
             std::vector<std::uint8_t>(run.generated.text.begin(), run.generated.text.end()));
  std::vector<std::int64_t> offset = run.generated.offset;
  offset.resize(run.generated.id.size() + 1, 0);  // without ids, or a tokenizer, there is no text
  write_list(group, "generated_text_offset", ElementType::kInt64, offset);
  write_list(group, "top_logits", ElementType::kFloat32, run.top_logits);
  write_list(group, "top_ids", ElementType::kInt32, run.top_ids);
  DatasetOptions counter;
  counter.allocate = true;
  group.create_dataset("blocks_done", ElementType::kInt64, {}, counter)
      .write(std::span<const std::int64_t>(&run.blocks_done, 1));
  return group;
}

// Nothing has happened in it yet.
RunInfo planned_run(const recording::RunPlan& plan, std::int64_t n_prompt) {
  RunInfo run;
  run.plan = plan;
  for (std::int64_t start = 0; start < n_prompt; start += plan.block_size)
    run.block_start.push_back(static_cast<std::int32_t>(start));
  run.block_ms.assign(run.block_start.size(), kNaN);
  return run;
}

class Layout {
 public:
  Layout(Group runs, const Source& source, const ReplayPlan& plan, const std::function<void()>& after_chunk)
      : runs_(std::move(runs)),
        plan_(plan),
        info_(source.recording->info()),
        run_(info_->runs[plan.source_run]),
        from_(source.file.root().open_group("entry").open_group("runs").open_group(run_.plan.name)),
        after_chunk_(after_chunk) {}

  void copy_source(const std::function<void(int layer)>& after_layer) {
    Group to = create_run(runs_, run_, 0, info_->n_prompt());
    if (run_.n_scored > 0) {
      Shape shape = from_.open_dataset("logits", 0, {0}).shape();
      shape[0] = size(run_.n_scored);
      copy(from_, to, "logits", shape);
    }
    for (const int layer : plan_.layers) {
      copy_layer(layer, to);
      after_layer(layer);
    }
    for (const int layer : plan_.keyless_layers) copy_layer(layer, to);
  }

  void create_replayed(std::size_t index) {
    const RunInfo run = planned_run(plan_.runs[index], info_->n_prompt());
    Group to = create_run(runs_, run, static_cast<std::int64_t>(index) + 1, info_->n_prompt());
    for (const int layer : plan_.layers) {
      Group group = to.create_group(recording::layer_group_name(layer), "NXcollection");
      if (source_layer(layer).has_attribute(recording::kKeysOf))
        group.set_integer(recording::kKeysOf, source_layer(layer).integer(recording::kKeysOf));
      create_rows(group, layer);
      create_evictions(group, layer);
      create_statistics(group, layer);
      // What the sinks took is attention, their scores are the model's.
      if (const Group from = source_layer(layer); from.has("sink_logit")) copy(from, group, "sink_logit", {});
    }
    for (const int layer : plan_.keyless_layers)
      to.create_group(recording::layer_group_name(layer), "NXcollection").set_integer(recording::kKeyless, 1);
  }

 private:
  Group source_layer(int layer) const { return from_.open_group(recording::layer_group_name(layer)); }

  Dataset copy(const Group& from, Group& to, const std::string& name, Shape shape) {
    const int gzip = from.open_dataset(name, 0, {0}).compressed() ? kGzip : 0;
    Dataset copied =
        recording::copy_dataset(from, to, name, {.shape = std::move(shape), .gzip = gzip}, after_chunk_);
    recording::mark_store(copied, recording::store_of(from.open_dataset(name, 0, {0})));
    return copied;
  }

  static void copy_attributes(const Group& from, Group& to) {
    for (const char* name : {recording::kKeyless, recording::kNExperts, recording::kKeysOf})
      if (from.has_attribute(name)) to.set_integer(name, from.integer(name));
  }

  // Where a layer's dataset lies: keys and values in the first of the layers that share them.
  int holder_of(const std::string& name, int layer) const {
    if (name != "keys" && name != "values") return layer;
    return *std::ranges::find_if(plan_.layers, [&](int other) {
      return other == layer || info_->model.lender(other) == info_->model.lender(layer);
    });
  }

  void copy_layer(int layer, Group& run) {
    const Group from = source_layer(layer);
    Group to = run.create_group(recording::layer_group_name(layer), "NXcollection");
    copy_attributes(from, to);
    for (const std::string& name : datasets_of(from))
      if (const int holder = holder_of(name, layer); holder != layer)
        to.link_dataset(name, run.open_group(recording::layer_group_name(holder)).open_dataset(name));
      else
        copy(from, to, name, shape_of_tokens(name, from.open_dataset(name, 0, {0}).shape(), run_.n_tokens));
  }

  // The prompt's rows: the source run's, or one copy of them for all replayed runs.
  void create_rows(Group& to, int layer) {
    const bool shared = run_.n_tokens == info_->n_prompt();
    const std::string owner = shared ? run_.plan.name : plan_.runs.front().name;
    const Group from = source_layer(layer);
    for (const char* name : {"keys", "queries", "values", "value_norms"}) {
      if (!from.has(name)) continue;
      const Group owned =
          runs_.open_group(owner).open_group(recording::layer_group_name(holder_of(name, layer)));
      if (owned.has(name))
        to.link_dataset(name, owned.open_dataset(name));
      else
        copy(from, to, name,
             shape_of_tokens(name, from.open_dataset(name, 0, {0}).shape(), info_->n_prompt()));
    }
  }

  Dataset create_trace(Group& to, int layer, const std::string& name, ElementType type, double fill) const {
    const Shape shape{size(info_->model.heads(layer).n_kv_heads), size(info_->n_prompt())};
    DatasetOptions options;
    options.chunk = {1, std::min(shape[1], kTraceChunk)};
    options.allocate = true;
    options.fill = fill;
    return to.create_dataset(name, type, shape, options);
  }

  void create_evictions(Group& to, int layer) const {
    create_trace(to, layer, "evicted_at", ElementType::kInt32, -1);
    create_trace(to, layer, "evicted_margin", ElementType::kFloat32, kNaN);
  }

  // Zeros, of which the file holds one set of each shape.
  void create_statistics(Group& to, int layer) {
    const Group from = source_layer(layer);
    for (const std::string& name : datasets_of(from)) {
      if (!is_attention_trace(name)) continue;
      const auto key = std::pair{name, info_->model.heads(layer).n_kv_heads};
      const auto known = zeros_.find(key);
      if (known != zeros_.end())
        to.link_dataset(name, known->second);
      else
        zeros_.emplace(key, create_trace(to, layer, name, from.open_dataset(name, 0, {0}).type(), 0));
    }
  }

  Group runs_;
  const ReplayPlan& plan_;
  std::shared_ptr<const RecordingInfo> info_;
  const RunInfo& run_;  // the source
  Group from_;
  const std::function<void()>& after_chunk_;
  std::map<std::pair<std::string, int>, Dataset> zeros_;  // by name and number of heads
};

// Lays out the recording of a replay below the root: where it comes from, the source run copied, and every
// replayed run with nothing evicted and no block counted yet.
//   after_chunk, after_layer: see ReplayFile
void create_replay_layout(Group& root, const Source& source, const ReplayPlan& plan,
                          const std::function<void()>& after_chunk,
                          const std::function<void(int layer)>& after_layer) {
  const auto info = source.recording->info();
  root.set_text("NX_class", "NXroot");
  root.set_text("default", "entry");
  root.set_integer("keyscope_format", recording::kFormat);
  Group entry = root.create_group("entry", "NXentry");
  recording::write_origin(entry, {plan.provenance, info->model, info->prompt});
  entry.open_group("provenance").set_integer("complete", 0);
  Layout layout(entry.create_group("runs", "NXcollection"), source, plan, after_chunk);
  layout.copy_source(after_layer);
  for (std::size_t run = 0; run < plan.runs.size(); ++run) layout.create_replayed(run);
}

}  // namespace

ReplayFile::ReplayFile(recording::PartFile& place, const Source& source, const ReplayPlan& plan,
                       const std::function<void()>& after_chunk,
                       const std::function<void(int layer)>& after_layer)
    : place_(place), plan_(plan), file_(place.create()) {
  try {
    file_.guarded([&] {
      Group root = file_.root();
      create_replay_layout(root, source, plan, after_chunk, after_layer);
      file_.flush();
    });
    place.settle();
  } catch (...) {
    file_.abandon();
    place.remove();
    throw;
  }
}

Group ReplayFile::run_group(std::size_t run) const {
  return file_.root().open_group("entry").open_group("runs").open_group(plan_.runs[run].name);
}

void ReplayFile::flush_and_sync() {
  file_.flush();
  sync_data(file_.descriptor(), place_.part().string());
}

void ReplayFile::write_layer(std::size_t run, int layer, const std::vector<HeadEvictions>& heads) {
  file_.guarded([&] {
    const Group group = run_group(run).open_group(recording::layer_group_name(layer));
    Dataset evicted_at = group.open_dataset("evicted_at"), margin = group.open_dataset("evicted_margin");
    for (std::size_t head = 0; head < heads.size(); ++head) {
      const hsize_t n_tokens = heads[head].evicted_at.size();
      evicted_at.write(std::span<const std::int32_t>(heads[head].evicted_at), {head, 0}, {1, n_tokens});
      margin.write(std::span<const float>(heads[head].evicted_margin), {head, 0}, {1, n_tokens});
    }
  });
}

void ReplayFile::count_run(std::size_t run) {
  file_.guarded([&] {
    flush_and_sync();
    const std::int64_t n_blocks = plan_.runs[run].n_prompt_blocks;
    Dataset counter = run_group(run).open_dataset("blocks_done");
    counter.write(std::span<const std::int64_t>(&n_blocks, 1));
    flush_and_sync();
  });
  ++runs_done_;
}

void ReplayFile::finish(bool complete) {
  try {
    file_.guarded([&] {
      file_.root().open_group("entry").open_group("provenance").set_integer("complete", complete ? 1 : 0);
      flush_and_sync();
      file_.close();
    });
  } catch (...) {
    file_.abandon();
    if (runs_done_ == 0) place_.remove();
    throw;
  }
  if (runs_done_ == 0) return place_.remove();
  if (complete || !std::filesystem::exists(place_.out())) place_.publish();
}

}  // namespace keyscope::replay
