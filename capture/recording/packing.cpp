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

void copy_attributes(const hdf5::Node& from, hdf5::Node& to) {
  for (const std::string& name : from.attribute_names()) {
    if (to.has_attribute(name)) continue;  // NX_class, set with the group
    if (from.is_text(name))
      to.set_text(name, from.text(name));
    else
      to.set_integer(name, from.integer(name));
  }
}

Group same_group(const Group& from, Group& to, const std::string& name) {
  if (to.has_group(name)) return to.open_group(name);
  return to.create_group(name, from.open_group(name).text("NX_class"));
}

Dataset same_dataset(const Group& from, Group& to, const std::string& name) {
  if (!to.has_dataset(name)) return copy_dataset(from, to, name, {.gzip = kGzip});
  Dataset copy = to.open_dataset(name);
  const Shape expected = from.open_dataset(name).shape();
  if (copy.shape() != expected)
    throw FileError(fmt::format("{}: was compressed with shape {}, and is {} now", copy.where(),
                                hdf5::format_shape(copy.shape()), hdf5::format_shape(expected)));
  return copy;
}

void copy_members(const Group& from, Group& to) {
  for (const std::string& name : from.names()) {
    if (name.starts_with("partial_attention")) continue;  // the journal has served
    if (from.has_dataset(name)) {
      Dataset copy = same_dataset(from, to, name);
      copy_attributes(from.open_dataset(name), copy);
      continue;
    }
    const Group child = from.open_group(name);
    Group copy = same_group(from, to, name);
    copy_attributes(child, copy);
    copy_members(child, copy);
  }
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
    : recording_(std::move(recording)), packed_(recording_.string() + ".packing") {
  std::error_code ignored;
  std::filesystem::remove(packed_, ignored);  // of a process that was killed
}

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
  copy_members(from, to);
  file().flush();
  file().close();
}

void Packing::finish() {
  try {
    write_rest();
    sync_path(packed_);
    std::filesystem::rename(packed_, recording_);
    file_.reset();
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

namespace {

using hdf5::ElementType;

// Whole rows of one leading index, about a megabyte; matrices in squares, tall ones by many short rows.
Shape chunk_of(Shape chunk) {
  if (chunk.size() == 2 && chunk[0] > chunk[1] && chunk[1] > 0)
    return {std::clamp<hsize_t>(kRowChunkBytes / (4 * chunk[1]), 1, chunk[0]), chunk[1]};
  if (chunk.size() == 3 && chunk[1] == chunk[2])
    return {1, std::min(chunk[1], kMatrixChunk), std::min(chunk[2], kMatrixChunk)};
  const hsize_t row = chunk.size() == 3 ? chunk[2] : 1;
  if (chunk.size() > 1) chunk[0] = 1;
  const std::size_t along = chunk.size() == 1 ? 0 : 1;
  chunk[along] = std::clamp<hsize_t>(kRowChunkBytes / (4 * row), 1, std::max<hsize_t>(chunk[along], 1));
  for (hsize_t& extent : chunk) extent = std::max<hsize_t>(extent, 1);
  return chunk;
}

hdf5::DatasetOptions layout_of(const Dataset& from, const Shape& shape, int gzip) {
  hdf5::DatasetOptions layout;
  if (shape.empty()) return layout;
  layout.chunk = chunk_of(shape);
  layout.max_shape = shape.size() == 1 ? Shape{H5S_UNLIMITED} : shape;
  layout.shuffle = gzip > 0 && from.type() != ElementType::kUInt8;
  layout.gzip = gzip;
  layout.cache_bytes = 2 * kRowChunkBytes;
  return layout;
}

bool is_empty(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](hsize_t extent) { return extent == 0; });
}

}  // namespace

DatasetCopy::DatasetCopy(const Dataset& from, Group& to, const std::string& name,
                         const CopyOptions& options) {
  if (from.type() == ElementType::kOther) throw FileError(from.where() + ": cannot be copied");
  const Shape shape = options.shape.empty() ? from.shape() : options.shape;
  const hdf5::DatasetOptions layout = layout_of(from, shape, options.gzip);
  to_ = to.create_dataset(name, from.type(), shape, layout);
  chunk_ = layout.chunk;
  next_.resize(shape.size(), 0);
  done_ = is_empty(shape);
}

Shape DatasetCopy::next_count() const {
  Shape count = chunk_;
  for (std::size_t axis = 0; axis < count.size(); ++axis)
    count[axis] = std::min(count[axis], to_.shape()[axis] - next_[axis]);
  return count;
}

void DatasetCopy::advance() {
  for (std::size_t axis = next_.size(); axis-- > 0;) {
    next_[axis] += chunk_[axis];
    if (next_[axis] < to_.shape()[axis]) return;
    next_[axis] = 0;
  }
  done_ = true;
}

template <typename T>
void DatasetCopy::copy_chunk(const Dataset& from, const Shape& count) {
  std::vector<T> values(hdf5::n_elements(count, from.where()));
  from.read(std::span<T>(values), next_, count);
  to_.write(std::span<const T>(values), next_, count);
}

void DatasetCopy::step(const Dataset& from) {
  if (done_) return;
  const Shape count = next_count();
  switch (to_.type()) {
    case ElementType::kUInt8:
      copy_chunk<std::uint8_t>(from, count);
      break;
    case ElementType::kInt32:
      copy_chunk<std::int32_t>(from, count);
      break;
    case ElementType::kInt64:
      copy_chunk<std::int64_t>(from, count);
      break;
    case ElementType::kFloat16:
    case ElementType::kFloat32:
      copy_chunk<float>(from, count);
      break;
    case ElementType::kFloat64:
    case ElementType::kOther:  // was refused
      copy_chunk<double>(from, count);
      break;
  }
  advance();
}

Dataset copy_dataset(const Group& from_group, Group& to_group, const std::string& name,
                     const CopyOptions& options, const std::function<void()>& after_chunk) {
  const Dataset from = from_group.open_dataset(name, kRowChunkBytes, options.shape);
  DatasetCopy copying(from, to_group, name, options);
  while (!copying.done()) {
    copying.step(from);
    if (after_chunk) after_chunk();
  }
  return std::move(copying.copy());
}

}  // namespace keyscope::recording
