#include "app/sweep/merge.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/figures/nexus.hpp"
#include "app/figures/nexus_panel.hpp"
#include "app/sweep/study_figures.hpp"
#include "app/sweep/study_file.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "capture/recording/joint_recording.hpp"
#include "capture/recording/recording.hpp"
#include "capture/recording/recording_layout.hpp"

namespace keyscope::sweep {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using recording::JointRun;
using recording::hdf5::Dataset;
using recording::hdf5::DatasetOptions;
using recording::hdf5::ElementType;
using recording::hdf5::File;
using recording::hdf5::Group;

constexpr std::size_t kMostDamages = 20;      // that are named
constexpr std::size_t kMostErrorBytes = 400;  // of a failure, in the table
constexpr hsize_t kBytesAtOnce = 1 << 20;

// Bytes that come in pieces, into a dataset that grows by large ones.
class ByteColumn {
 public:
  explicit ByteColumn(Group& group) {
    DatasetOptions options;
    options.chunk = {kBytesAtOnce};
    options.max_shape = {H5S_UNLIMITED};
    options.gzip = recording::kGzip;
    options.cache_bytes = 2 * kBytesAtOnce;
    dataset_ = group.create_dataset(kLines, ElementType::kUInt8, {0}, options);
  }

  void add(std::string_view bytes) {
    waiting_ += bytes;
    ends_.push_back(n_written_ + std::ssize(waiting_));
    if (waiting_.size() >= kBytesAtOnce) write();
  }

  // Where each piece begins, and where the last one ends.
  const std::vector<std::int64_t>& finish() {
    write();
    return ends_;
  }

 private:
  void write() {
    if (waiting_.empty()) return;
    const auto first = static_cast<hsize_t>(n_written_), n = static_cast<hsize_t>(waiting_.size());
    dataset_.resize({first + n});
    dataset_.write(std::span(reinterpret_cast<const std::uint8_t*>(waiting_.data()), waiting_.size()),
                   {first}, {n});
    n_written_ += std::ssize(waiting_);
    waiting_.clear();
  }

  Dataset dataset_;
  std::string waiting_;
  std::int64_t n_written_ = 0;
  std::vector<std::int64_t> ends_{0};
};

// Cells whose recordings are runs of one, in the study's order.
class Joints {
 public:
  //   throws FileError where the file is no whole recording, or none that goes with the others
  void add(const Cell& cell, const fs::path& file, const std::string& policy) {
    const auto info = recording::open_recording(file.string())->info();
    const auto known = places_.find(cell.joint);
    if (known == places_.end())
      first_ = {joints_.size(), info};
    else if (first_.joint != known->second)
      first_ = {known->second,
                recording::open_recording(joints_[known->second].runs.front().file.string())->info()};
    if (const std::string refusal = recording::joint_refusal(*info, *first_.info); !refusal.empty())
      throw FileError(fmt::format("{}: {}, expected what goes with the other recordings of its prompt",
                                  file.string(), refusal));
    const auto [place, is_new] = places_.try_emplace(cell.joint, joints_.size());
    if (is_new) joints_.emplace_back();
    Joint& joint = joints_[place->second];
    const int number = ++joint.n_of_policy[policy];
    joint.runs.push_back({file, number == 1 ? policy : fmt::format("{}-{}", policy, number)});
  }

  //   after_run: called now and then with runs that are written, and all of them
  void write(Group& root, const fs::path& folder, bool copy,
             const std::function<void(std::int64_t done, std::int64_t total)>& after_run) const {
    std::int64_t n_runs = 0, n_done = 0;
    for (const Joint& joint : joints_) n_runs += std::ssize(joint.runs);
    for (std::size_t i = 0; i < joints_.size(); ++i) {
      recording::write_joint_recording(
          root, folder, i == 0 ? "entry" : fmt::format("entry_{}", i + 1), joints_[i].runs,
          copy ? recording::JointStorage::kCopied : recording::JointStorage::kVirtual,
          [&](std::int64_t runs) { after_run(n_done + runs, n_runs); });
      n_done += std::ssize(joints_[i].runs);
    }
  }

  std::int64_t size() const { return std::ssize(joints_); }

 private:
  struct Joint {
    std::vector<JointRun> runs;
    std::map<std::string, int> n_of_policy;
  };
  // Of one joint, whose cells mostly follow each other: the first recording of each may be too much to keep.
  struct First {
    std::size_t joint = 0;
    std::shared_ptr<const recording::RecordingInfo> info;
  };
  First first_;
  std::vector<Joint> joints_;
  std::unordered_map<std::string, std::size_t> places_;
};

// A run is named after its policy, without its options, in letters that any tool takes as a group's name.
std::string run_name(const std::string& policy) {
  return figures::nexus_name(policy.substr(0, policy.find(':')));
}

// Of a message, without a part of a character at its end.
std::string beginning(std::string text) {
  if (text.size() <= kMostErrorBytes) return text;
  std::size_t end = kMostErrorBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
  return text;
}

// Models in few letters: without their folders, where that tells them apart.
std::vector<std::string> model_labels(const std::vector<std::string>& names) {
  std::vector<std::string> labels;
  for (const std::string& name : names) {
    const fs::path path = fs::path(name).lexically_normal();
    labels.push_back((path.has_filename() ? path : path.parent_path()).filename().string());
  }
  return std::set(labels.begin(), labels.end()).size() == names.size() ? labels : names;
}

class Merging {
 public:
  //   spool: a folder for what waits to be written
  Merging(const SweepFolder& folder, const Plan& plan, const ReadMeasures& read_measures, Group& study,
          const fs::path& spool)
      : folder_(folder),
        plan_(plan),
        read_measures_(read_measures),
        labels_(model_labels(plan.study.models)),
        finished_(folder.finished()),
        failed_(folder.failed()),
        lines_(study),
        outcome_(spool) {}

  void add_cells(const MergeOptions& options) {
    DigestSet seen;
    CellReader cells(folder_, plan_);
    for (std::int64_t i = 0; const auto cell = cells.next(); ++i) {
      if (options.progress) options.progress(i, plan_.n_cells, "cells");
      if (const Digest id = *Digest::parse(cell->id); seen.insert(id).second) add(*cell, id);
    }
  }

  void write(Group& study, Group& root, const fs::path& folder, const MergeOptions& options) {
    const auto& offsets = lines_.finish();
    study.create_dataset(kLineOffset, ElementType::kInt64, {offsets.size()})
        .write(std::span<const std::int64_t>(offsets));
    Group cells = study.create_group(kCells, signal_.empty() ? "NXcollection" : "NXdata");
    write_table(cells, outcome_.table, signal_);
    const auto n_absent = outcome_.n_failed + outcome_.n_missing + outcome_.n_damaged;
    const auto figures = study_figures(samples_, plan_.study.name, n_absent);
    for (const figures::Figure& figure : figures) figures::add_figure(study, figure, outcome_.n_figures++);
    if (figures.empty()) study.set_text("default", kCells);
    if (joints_.size() > 0) root.set_integer("keyscope_format", recording::kFormat);
    joints_.write(root, folder, options.copy, [&](std::int64_t done, std::int64_t total) {
      if (options.progress) options.progress(done, total, "recordings");
    });
    outcome_.n_recordings = joints_.size();
  }

  MergeOutcome outcome() && { return std::move(outcome_); }

 private:
  // What a cell gave, and what of it is compared.
  struct Found {
    Result result;
    std::vector<Measure> measures;
  };

  void add(const Cell& cell, const Digest& id) {
    StudyTable& table = outcome_.table;
    const StudyJob& job = plan_.study.jobs[cell.job];
    table.add_row();
    table.set("cell", cell.id);
    table.set("job", cell.job + 1.0);
    table.set("command", job.command);
    table.set("model", plan_.study.models[cell.model]);
    table.set("seed", static_cast<double>(plan_.study.seeds[cell.seed]));
    std::string error;
    const Json about = parse_ordered_json(cell.about);
    const auto found = found_of(cell, id, about, error);
    table.set("state", std::string(state_of(id, found.has_value())));
    table.set("error", beginning(error));
    table.set_members(about);
    lines_.add(found ? found->result.lines : std::string_view());
    if (!found) return;
    for (const Measure& measure : found->measures) add(cell, about, measure);
  }

  void add(const Cell& cell, const Json& about, const Measure& measure) {
    const std::string column =
        measure.policy.empty() ? measure.name : fmt::format("{}.{}", measure.policy, measure.name);
    outcome_.table.set(column, measure.value);
    if (signal_.empty()) signal_ = column;
    const std::string policy = measure.policy.empty() ? about.value("policy", "") : measure.policy;
    // A report has several tasks, whose scores of one name are not one score.
    std::string command = plan_.study.jobs[cell.job].command;
    if (command == "report" && about.contains("task")) command += " " + about.value("task", "");
    add_value({std::move(command), measure.name, labels_[cell.model], policy,
               policy == "none" ? "" : about.value("budget", ""), about.value("block", std::int64_t{0})},
              measure.value);
  }

  void add_value(Sample place, double value) {
    if (!std::isfinite(value)) return;
    const auto key = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", place.command, place.measure, place.model,
                                 place.policy, place.budget, place.block);
    const auto [found, is_new] = places_.try_emplace(key, samples_.size());
    if (is_new) samples_.push_back(std::move(place));
    samples_[found->second].values.push_back(value);
  }

  // What there is of a cell, if it can be used; else why not.
  std::optional<Found> found_of(const Cell& cell, const Digest& id, const Json& about, std::string& error) {
    if (!finished_.contains(id)) {
      if (failed_.contains(id)) error = reason_of(cell.id);
      return std::nullopt;
    }
    const std::string file = folder_.result(cell.id).string();
    try {
      Result result = read_result(folder_, cell.id);
      if (result.head.program_version != plan_.program_version)
        throw FileError(fmt::format("{}: was made by keyscope {}, and the study was planned by {}", file,
                                    result.head.program_version, plan_.program_version));
      auto measures = read_measures_(plan_.study.jobs[cell.job], result.lines, file);
      if (!cell.joint.empty())
        joints_.add(cell, folder_.recording(cell.id), run_name(about.value("policy", "run")));
      return Found{std::move(result), std::move(measures)};
    } catch (const FileError& found) {
      error = fmt::format("{}; delete {}, and run the study once more", found.what(), file);
      if (outcome_.damages.size() < kMostDamages) outcome_.damages.emplace_back(error);
      return std::nullopt;
    }
  }

  std::string reason_of(const std::string& id) const {
    try {
      return read_failure(folder_, id).error;
    } catch (const FileError& error) {
      return error.what();
    }
  }

  const char* state_of(const Digest& id, bool usable) {
    if (usable) return ++outcome_.n_done, kDone;
    if (finished_.contains(id)) return ++outcome_.n_damaged, kDamaged;
    if (failed_.contains(id)) return ++outcome_.n_failed, kFailed;
    return ++outcome_.n_missing, kMissing;
  }

  const SweepFolder& folder_;
  const Plan& plan_;
  const ReadMeasures& read_measures_;
  const std::vector<std::string> labels_;  // of the models
  const DigestSet finished_, failed_;
  ByteColumn lines_;
  Joints joints_;
  std::vector<Sample> samples_;
  std::unordered_map<std::string, std::size_t> places_;  // of samples
  std::string signal_;                                   // the first column of what came of cells
  MergeOutcome outcome_;
};

std::string plan_text(const Plan& plan) {
  Json models = Json::array();
  for (const PlannedModel& model : plan.models)
    models.push_back(
        {{"name", model.name}, {"sha256", model.sha256}, {"weights_sha256", model.weights_sha256}});
  return json_text(Json{{"study", plan.study.json()}, {"models", std::move(models)}});
}

}  // namespace

MergeOutcome merge(const SweepFolder& folder, const Plan& plan, const ReadMeasures& read_measures,
                   const fs::path& out, const MergeOptions& options) {
  AtomicFile output(out, options.replace);
  File file = File::create(output.part());
  std::optional<Merging> merging;
  file.guarded([&] {
    Group root = file.root();
    root.set_text("NX_class", "NXroot");
    root.set_text("default", kStudyEntry);
    root.set_integer(kStudyFormat, kStudyFileFormat);
    Group study = root.create_group(kStudyEntry, "NXentry");
    study.create_text("title", "Keyscope: " + plan.study.name);
    study.set_text("name", plan.study.name);
    study.set_text("program", plan.program_version);
    study.set_text(kPlan, plan_text(plan));
    merging.emplace(folder, plan, read_measures, study, folder_of(output.path()));
    merging->add_cells(options);
    merging->write(study, root, folder_of(output.path()), options);
    figures::mark_figure_file(root);
  });
  file.close();
  output.commit();
  return std::move(*merging).outcome();
}

}  // namespace keyscope::sweep
