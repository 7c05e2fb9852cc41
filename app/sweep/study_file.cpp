#include "app/sweep/study_file.hpp"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::sweep {

namespace {

using recording::hdf5::File;
using recording::hdf5::Group;

Group study_of(const File& file, const std::filesystem::path& path) {
  const Group root = file.root();
  if (!root.has_attribute(kStudyFormat))
    throw FileError(
        fmt::format("{}: no merged study: attribute '{}' of / is missing; expected a file that "
                    "`keyscope sweep merge` made",
                    path.string(), kStudyFormat));
  if (const std::int64_t format = root.integer(kStudyFormat); format != kStudyFileFormat)
    throw FileError(fmt::format("{}: a study of format {}; this program reads {}", path.string(), format,
                                kStudyFileFormat));
  return root.open_group(kStudyEntry);
}

}  // namespace

StudyFile::StudyFile(const std::filesystem::path& path) : file_(File::open(path)) {
  const Group study = study_of(file_, path), cells = study.open_group(kCells);
  name_ = study.text("name");
  const std::vector<std::string> ids = cells.read_texts("cell");
  states_ = cells.read_texts("state");
  offsets_ = study.open_dataset(kLineOffset).read<std::int64_t>();
  lines_ = study.open_dataset(kLines);
  if (states_.size() != ids.size() || offsets_.size() != ids.size() + 1 || lines_.shape().size() != 1)
    throw FileError(fmt::format("{}: {} cells have {} states and {} places; expected one each, and an end",
                                study.where(), ids.size(), states_.size(), offsets_.size()));
  if (!std::ranges::is_sorted(offsets_) || offsets_.front() != 0 ||
      std::cmp_not_equal(offsets_.back(), lines_.shape().front()))
    throw FileError(
        fmt::format("{}: its offsets do not ascend from 0 to the end of '{}'", study.where(), kLines));
  for (std::size_t i = 0; i < ids.size(); ++i) rows_.emplace(ids[i], i);
}

std::int64_t StudyFile::n_in_state(const std::string& state) const {
  return std::ranges::count(states_, state);
}

std::optional<std::string> StudyFile::lines(const std::string& id) const {
  const auto row = rows_.find(id);
  if (row == rows_.end() || states_[row->second] != kDone) return std::nullopt;
  const std::int64_t first = offsets_[row->second], n = offsets_[row->second + 1] - first;
  std::string text(static_cast<std::size_t>(n), '\0');
  lines_.read(std::span(reinterpret_cast<std::uint8_t*>(text.data()), text.size()),
              {static_cast<hsize_t>(first)}, {static_cast<hsize_t>(n)});
  return text;
}

bool is_study_file(const std::filesystem::path& path) {
  try {
    return File::open(path).root().has_attribute(kStudyFormat);
  } catch (const FileError&) {
    return false;
  }
}

}  // namespace keyscope::sweep
