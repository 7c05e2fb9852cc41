#pragma once

// HDF5 files for this project: every call to the C library stands behind these classes, is checked, and is
// made under one process-wide lock. Opening refuses what a file from elsewhere must not be able to do: links
// that leave the file or the place where they stand, external storage, unknown filters, and declared sizes
// far beyond the bytes that are stored. Of virtual datasets, which read from other files, those alone are
// followed that stand for a whole dataset of a recording that is a study's result; HDF5 itself never follows
// one.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "capture/recording/hdf5_dataset.hpp"
#include "capture/recording/hdf5_drivers.hpp"

namespace keyscope::recording::hdf5 {

class Sources;  // files that virtual datasets of a file read from

class Group : public Node {
 public:
  Group() = default;
  //   file_bytes: 0: of a file being written
  //   sources: null: virtual datasets are refused
  Group(Handle handle, std::string file, std::string path, std::uint64_t file_bytes,
        std::shared_ptr<Sources> sources = nullptr);

  const std::string& path() const { return path_; }  // in its file: "/entry/runs"

  // Creates a group with its NeXus class.
  Group create_group(const std::string& name, const std::string& nx_class);
  Dataset create_dataset(const std::string& name, ElementType type, const Shape& shape,
                         const DatasetOptions& options = {});
  // A second name for a dataset of the same file: its bytes lie there once.
  void link_dataset(const std::string& name, const Dataset& dataset);
  // A dataset that stands for one of another file.
  //   file: relative to the folder that this file lies in, or absolute
  //   path: of the dataset in it
  Dataset create_virtual(const std::string& name, const Dataset& source, const std::string& file,
                         const std::string& path);
  // A list of UTF-8 texts, for Dataset::write_texts.
  //   n_bytes: of the longest, which each of them takes before compression
  Dataset create_texts(const std::string& name, hsize_t n_texts, std::size_t n_bytes, int gzip);
  std::vector<std::string> read_texts(const std::string& name) const;
  // A scalar text dataset, such as NXdata's `title`.
  void create_text(const std::string& name, const std::string& text);

  // Names of all members, ascending.
  //   throws FileError if one of them is a link to another file
  std::vector<std::string> names() const;
  bool has(const std::string& name) const;
  bool has_group(const std::string& name) const;
  bool has_dataset(const std::string& name) const;

  // `name` is a direct member, reached by a hard link; anything else, a path to one below included,
  //   throws FileError saying what was found there
  Group open_group(const std::string& name) const;
  Group peek(const std::string& name) const;  // for its names and attributes alone: see require_sound
  //   needed: as much of the dataset as will be read, where that is less than all; this must be stored
  Dataset open_dataset(const std::string& name, std::size_t cache_bytes = 0, const Shape& needed = {}) const;

 private:
  std::string path_of(const std::string& name) const;
  H5I_type_t member_type(const std::string& name) const;  // H5I_BADID: not there, or not by a hard link
  Handle open_member(const std::string& name, H5I_type_t type) const;
  Handle open_data(const std::string& name, std::size_t cache_bytes) const;

  std::string file_;
  std::string path_;
  std::uint64_t file_bytes_ = 0;  // 0: a file being written
  std::shared_ptr<Sources> sources_;
};

class File {
 public:
  File() = default;

  // A new file; throws FileError if one is there already.
  //   name: what messages call it, where that is to become its name
  static File create(const std::filesystem::path& path, const std::filesystem::path& name = {});
  // An existing file, for reading only. Takes no lock on it, so that a recording can be read on file systems
  // without locks.
  //   follow: whether virtual datasets may be read, as above
  static File open(const std::filesystem::path& path, bool follow = true);

  File(File&&) noexcept = default;
  File& operator=(File&&) = delete;
  ~File();  // a file being written that was not closed is abandoned

  Group root() const;
  std::uint64_t size() const;  // in bytes, with what is allocated and not yet written
  int descriptor() const { return output_->descriptor; }  // of a file being written, for fsync and the like

  // What could not be written is known only here: writing to groups and datasets goes on without effect after
  // a failure (see OutputState).
  void check_output() const;  // throws FileError if a write has failed
  // What HDF5 makes of a file that could not be written is not worth reporting; why it could not, is.
  template <typename Work>
  void guarded(Work work) const {
    try {
      work();
    } catch (const FileError&) {
      check_output();
      throw;
    }
  }
  // A file being written stays locked as long as what is returned lives, also when it is closed.
  std::unique_ptr<Descriptor> keep_lock() const;  // throws FileError
  void flush();  // into the operating system; never calls fsync; throws as check_output does
  void close();  // with every object still open in it; throws as check_output does

  // Closes without writing anything more.
  void abandon() noexcept;

 private:
  File(Handle handle, std::string name, std::uint64_t bytes)
      : name_(std::move(name)), bytes_(bytes), handle_(std::move(handle)) {}

  std::string name_;
  std::uint64_t bytes_ = 0;              // of an existing file
  std::shared_ptr<const Texts> texts_;   // of an existing file: see require_sound
  std::unique_ptr<OutputState> output_;  // of a file being written; outlives the handle
  std::shared_ptr<Sources> sources_;
  Handle handle_;
};

}  // namespace keyscope::recording::hdf5
