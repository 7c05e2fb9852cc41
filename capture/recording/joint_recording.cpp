#include "capture/recording/joint_recording.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "capture/recording/dataset_copy.hpp"
#include "capture/recording/recording.hpp"
#include "capture/recording/recording_layout.hpp"

namespace keyscope::recording {

namespace {

namespace fs = std::filesystem;
using hdf5::Dataset;
using hdf5::File;
using hdf5::Group;

using Info = std::shared_ptr<const RecordingInfo>;

// What of a recording keeps its run from standing beside the first one's; empty: nothing.
std::string difference(const RecordingInfo& info, const RecordingInfo& first) {
  if (!info.complete) return "it was cut short";
  if (info.runs.size() != 1) return fmt::format("it has {} runs; expected one", info.runs.size());
  if (info.model.config != first.model.config ||
      info.provenance.model_sha256 != first.provenance.model_sha256)
    return "it is of another model";
  if (info.prompt.id != first.prompt.id) return "it is of another prompt";
  if (info.all_layers() != first.all_layers() || info.layers != first.layers) return "it has other layers";
  if (info.heads != first.heads) return "it has rows of other heads";
  if (info.keys != first.keys || info.queries != first.queries || info.values != first.values ||
      info.attention != first.attention)
    return "other rows were recorded";
  return "";
}

// Puts datasets into a joint recording.
class Joining {
 public:
  Joining(fs::path file, std::string name, JointStorage storage)
      : file_(std::move(file)), name_(std::move(name)), storage_(storage) {}

  // Groups and datasets below one.
  void take_members(const Group& from, Group& to) {
    copy_members(from, to, [&](const Group& group, Group& copy, const std::string& name) {
      return take(group, copy, name);
    });
  }

 private:
  Dataset take(const Group& from, Group& to, const std::string& name) {
    const Dataset source = from.open_dataset(name);
    const bool empty = std::ranges::find(source.shape(), hsize_t{0}) != source.shape().end();
    // Lists are short, and what says where something lies; they are read wherever the file goes.
    if (storage_ == JointStorage::kVirtual && source.shape().size() > 1 && !empty)
      return to.create_virtual(name, source, name_, from.path() + "/" + name);
    return copy(source, from, to, name);
  }

  // What several layers share is copied once.
  Dataset copy(const Dataset& source, const Group& from, Group& to, const std::string& name) {
    const std::string identity = source.identity();
    if (const auto found = copies_.find(identity); found != copies_.end()) {
      to.link_dataset(name, found->second);
      return to.open_dataset(name);
    }
    copy_dataset(from, to, name, {.gzip = source.compressed() ? kGzip : 0});
    copies_.emplace(identity, to.open_dataset(name));
    return to.open_dataset(name);
  }

  fs::path file_;
  std::string name_;  // of the file, for the joint one
  JointStorage storage_;
  std::map<std::string, Dataset> copies_;
};

}  // namespace

void write_joint_recording(Group& root, const fs::path& folder, const std::string& entry,
                           std::span<const JointRun> runs, JointStorage storage) {
  Group to = root.create_group(entry, "NXentry");
  Group to_runs;
  Info first;
  std::int64_t index = 0;
  for (const JointRun& run : runs) {
    const Info info = open_recording(run.file.string())->info();
    if (!first) first = info;
    if (const std::string found = difference(*info, *first); !found.empty())
      throw FileError(fmt::format("{}: {}, and cannot stand in one recording with {}", run.file.string(),
                                  found, runs.front().file.string()));
    const File file = File::open(run.file);
    const Group from = file.root().open_group("entry");
    Joining joining(run.file, full_path(run.file).lexically_proximate(full_path(folder)).string(), storage);
    if (info == first) {
      copy_attributes(from, to);
      for (const char* part : {"provenance", "model", "tokens"}) {
        Group copy = to.create_group(part, from.open_group(part).text("NX_class"));
        copy_attributes(from.open_group(part), copy);
        joining.take_members(from.open_group(part), copy);
      }
      to_runs = to.create_group("runs", from.open_group("runs").text("NX_class"));
    }
    const Group source = from.open_group("runs").open_group(info->runs.front().plan.name);
    Group copy = to_runs.create_group(run.name, source.text("NX_class"));
    copy.set_integer("index", index++);
    copy_attributes(source, copy);
    joining.take_members(source, copy);
  }
}

}  // namespace keyscope::recording
