#include "capture/recording/joint_recording.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "capture/recording/dataset_copy.hpp"
#include "capture/recording/recording_layout.hpp"

namespace keyscope::recording {

namespace {

namespace fs = std::filesystem;
using hdf5::Dataset;
using hdf5::File;
using hdf5::Group;

using Info = std::shared_ptr<const RecordingInfo>;

// What every run was asked for: the first one's configuration with the policies of all.
std::string joint_configuration(const std::vector<Info>& all) {
  auto joint = parse_ordered_json(all.front()->provenance.configuration);
  if (!joint.is_object() || !joint.contains("policies")) return all.front()->provenance.configuration;
  joint["policies"] = nlohmann::ordered_json::array();
  for (const Info& info : all) {
    const auto one = parse_ordered_json(info->provenance.configuration);
    if (one.is_object() && one.contains("policies"))
      for (const auto& policy : one["policies"]) joint["policies"].push_back(policy);
  }
  return json_text(joint);
}

// What says when the parts were made, and how long that took: joined, they are the same bytes whoever made
// them when.
constexpr const char *kStarted = "started", *kBlockMs = "block_ms";

// Puts datasets into a joint recording.
class Joining {
 public:
  //   file: that datasets are taken from, as the joint one calls it
  //   after_chunk: called after what was copied at once; may throw to stop
  Joining(std::string file, JointStorage storage, std::function<void()> after_chunk)
      : file_(std::move(file)), storage_(storage), after_chunk_(std::move(after_chunk)) {}

  // Groups and datasets below one.
  void take_members(const Group& from, Group& to) {
    copy_members(from, to, [&](const Group& group, Group& copy, const std::string& name) {
      return take(group, copy, name);
    });
  }

 private:
  Dataset take(const Group& from, Group& to, const std::string& name) {
    const Dataset source = from.open_dataset(name);
    if (name == kBlockMs) return without_times(source, to, name);
    const bool empty = std::ranges::find(source.shape(), hsize_t{0}) != source.shape().end();
    // Lists are short, and what says where something lies; they are read wherever the file goes.
    if (storage_ == JointStorage::kVirtual && source.shape().size() > 1 && !empty)
      return to.create_virtual(name, source, file_, from.path() + "/" + name);
    return copy(source, from, to, name);
  }

  static Dataset without_times(const Dataset& source, Group& to, const std::string& name) {
    Dataset made = to.create_dataset(name, hdf5::ElementType::kFloat32, source.shape());
    const hsize_t n =
        std::accumulate(source.shape().begin(), source.shape().end(), hsize_t{1}, std::multiplies());
    const std::vector<float> unknown(n, std::numeric_limits<float>::quiet_NaN());
    made.write(std::span(unknown));
    return made;
  }

  // What several layers share is copied once.
  Dataset copy(const Dataset& source, const Group& from, Group& to, const std::string& name) {
    const std::string identity = source.identity();
    if (const auto found = copies_.find(identity); found != copies_.end()) {
      to.link_dataset(name, found->second);
      return to.open_dataset(name);
    }
    copy_dataset(from, to, name, {.gzip = source.compressed() ? kGzip : 0}, after_chunk_);
    copies_.emplace(identity, to.open_dataset(name));
    return to.open_dataset(name);
  }

  std::string file_;
  JointStorage storage_;
  std::function<void()> after_chunk_;
  std::map<std::string, Dataset> copies_;
};

}  // namespace

std::string joint_refusal(const RecordingInfo& info, const RecordingInfo& first) {
  if (!info.complete) return "it was cut short";
  if (info.runs.size() != 1) return fmt::format("it has {} runs; expected one", info.runs.size());
  if (info.model.config != first.model.config ||
      info.provenance.model_sha256 != first.provenance.model_sha256)
    return "it is of another model";
  if (info.prompt.id != first.prompt.id) return "it is of another prompt";
  if (info.all_layers() != first.all_layers() || info.layers != first.layers) return "it has other layers";
  if (info.heads != first.heads) return "it has rows of other heads";
  if (info.keys != first.keys || info.queries != first.queries || info.values != first.values ||
      info.value_norms != first.value_norms || info.attention != first.attention)
    return "other rows were recorded";
  return "";
}

void write_joint_recording(Group& root, const fs::path& folder, const std::string& entry,
                           std::span<const JointRun> runs, JointStorage storage,
                           const std::function<void(std::int64_t n_runs)>& progress) {
  std::int64_t n_written = 0;
  const auto report = [&] {
    if (progress) progress(n_written);
  };
  std::vector<Info> all;
  for (const JointRun& run : runs) {
    report();
    all.push_back(open_recording(run.file.string())->info());
    if (const std::string found = joint_refusal(*all.back(), *all.front()); !found.empty())
      throw FileError(fmt::format("{}: {}, and cannot stand in one recording with {}", run.file.string(),
                                  found, runs.front().file.string()));
  }
  Group to = root.create_group(entry, "NXentry"), to_runs;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const File file = File::open(runs[i].file);
    const Group from = file.root().open_group("entry"), from_runs = from.open_group("runs");
    const std::string name = full_path(runs[i].file).lexically_proximate(full_path(folder)).string();
    Joining joining(name, storage, report);
    if (i == 0) {
      for (const char* part : {"provenance", "model", "tokens"}) {
        const Group source = from.open_group(part);
        Group copy = to.create_group(part, source.text("NX_class"));
        if (std::string_view(part) == "provenance") copy.set_text("configuration", joint_configuration(all));
        copy_attributes(source, copy, kStarted);
        joining.take_members(source, copy);
      }
      copy_attributes(from, to);
      to_runs = to.create_group("runs", from_runs.text("NX_class"));
    }
    const Group source = from_runs.open_group(all[i]->runs.front().plan.name);
    Group copy = to_runs.create_group(runs[i].name, source.text("NX_class"));
    copy.set_integer("index", static_cast<std::int64_t>(i));
    copy_attributes(source, copy);
    joining.take_members(source, copy);
    ++n_written;
    report();
  }
}

}  // namespace keyscope::recording
