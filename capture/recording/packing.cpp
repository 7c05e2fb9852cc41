#include "capture/recording/packing.hpp"

#include <algorithm>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "capture/recording/part_file.hpp"
#include "capture/recording/recording_layout.hpp"

namespace keyscope::recording {

namespace {

using hdf5::Dataset;
using hdf5::Group;
using hdf5::Shape;

Group same_group(const Group& from, Group& to, const std::string& name) {
  if (to.has_group(name)) return to.open_group(name);
  return to.create_group(name, from.open_group(name).text("NX_class"));
}

// What was compressed while it grew is there already.
Dataset compressed(const Group& from, Group& to, const std::string& name) {
  if (!to.has_dataset(name)) return copy_dataset(from, to, name, {.gzip = kGzip});
  Dataset copy = to.open_dataset(name);
  const Shape expected = from.open_dataset(name).shape();
  if (copy.shape() != expected)
    throw FileError(fmt::format("{}: was compressed with shape {}, and is {} now", copy.where(),
                                hdf5::format_shape(copy.shape()), hdf5::format_shape(expected)));
  return copy;
}

Group open_layer(const Group& root, const std::string& run, const std::string& layer) {
  return root.open_group("entry").open_group("runs").open_group(run).open_group(layer);
}

// The layer's group in the copy, with those above it; made where they are missing.
Group same_layer(const Group& root, Group& to_root, const std::string& run, const std::string& layer) {
  const Group entry = root.open_group("entry"), runs = entry.open_group("runs");
  Group to_entry = same_group(root, to_root, "entry");
  Group to_runs = same_group(entry, to_entry, "runs");
  Group to_run = same_group(runs, to_runs, run);
  return same_group(runs.open_group(run), to_run, layer);
}

}  // namespace

Packing::Packing(std::filesystem::path recording)
    : recording_(std::move(recording)), packed_(own_part(recording_.string() + ".packing")) {}

Packing::~Packing() { discard(); }

hdf5::File& Packing::file() {
  if (!file_) file_.emplace(hdf5::File::create(packed_));
  return *file_;
}

void Packing::add_layer(const std::string& run, int layer, std::int64_t n_tokens) {
  for (const char* name : {"keys", "queries", "values", "attention"})
    waiting_.push_back({run, layer_group_name(layer), name, n_tokens});
}

void Packing::begin(const Group& root, const Rows& rows) {
  const Group from = open_layer(root, rows.run, rows.layer);
  if (!from.has_dataset(rows.name)) return;
  from_ = from.open_dataset(rows.name);
  Group to_root = file().root();
  Group to = same_layer(root, to_root, rows.run, rows.layer);
  const CopyOptions options{.shape = shape_of_tokens(rows.name, from_.shape(), rows.n_tokens), .gzip = kGzip};
  copying_.emplace(from_, to, rows.name, options);
  rows_ = rows;
}

bool Packing::step(const Group& root) {
  while (!copying_ && !waiting_.empty()) {
    begin(root, waiting_.front());
    waiting_.pop_front();
  }
  if (!copying_) return false;
  copying_->step(from_);
  if (copying_->done()) {
    copying_.reset();
    from_ = {};
  }
  return true;
}

// What is in work now goes on from the recording as it was opened anew.
void Packing::end_rows(const Group& root) {
  if (!copying_) return;
  from_ = open_layer(root, rows_.run, rows_.layer).open_dataset(rows_.name);
  while (!copying_->done()) copying_->step(from_);
  copying_.reset();
  from_ = {};
}

void Packing::write_rest() {
  const hdf5::File recording = hdf5::File::open(recording_);
  const Group from = recording.root();
  Group to = file().root();
  end_rows(from);
  copy_attributes(from, to);
  copy_members(from, to, compressed);
  file().flush();
  file().close();
}

std::unique_ptr<Descriptor> Packing::finish() {
  try {
    auto lock = file().keep_lock();
    write_rest();
    sync_path(packed_);
    std::filesystem::rename(packed_, recording_);
    file_.reset();
    return lock;
  } catch (const std::filesystem::filesystem_error& failure) {
    discard();
    throw FileError(
        fmt::format("{}: cannot replace it by its compressed copy: {}", recording_.string(), failure.what()));
  } catch (...) {
    discard();
    throw;
  }
}

void Packing::discard() noexcept {
  if (!file_) return;
  copying_.reset();
  file_.reset();
  std::error_code ignored;
  std::filesystem::remove(packed_, ignored);
}

}  // namespace keyscope::recording
