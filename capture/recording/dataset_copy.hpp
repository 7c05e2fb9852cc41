#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "capture/recording/hdf5.hpp"

namespace keyscope::recording {

struct CopyOptions {
  hdf5::Shape shape = {};  // how much of it, from the front of every axis; empty: all
  int gzip = 0;            // 1 to 9, after shuffle; 0: the copy is not compressed
};

// A copy of a dataset of numbers in another file, which grows chunk by chunk: memory holds one chunk of it,
// and other work may be done between two. Attributes stay behind.
class DatasetCopy {
 public:
  // Creates the copy, of the same name as `from`.
  //   throws FileError where it cannot be written, or `from` holds something else than numbers
  DatasetCopy(const hdf5::Dataset& from, hdf5::Group& to, const std::string& name,
              const CopyOptions& options);

  bool done() const { return done_; }
  // Copies the next chunk.
  //   from: as given above; it may have been opened again
  void step(const hdf5::Dataset& from);

  hdf5::Dataset& copy() { return to_; }

 private:
  template <typename T>
  void copy_chunk(const hdf5::Dataset& from, const hdf5::Shape& count);
  hdf5::Shape next_count() const;
  void advance();

  hdf5::Dataset to_;
  hdf5::Shape chunk_;
  hdf5::Shape next_;  // where the next chunk starts
  bool done_ = false;
};

// A whole copy at once.
//   after_chunk: called after every chunk; may throw to stop
//   throws FileError as DatasetCopy does
hdf5::Dataset copy_dataset(const hdf5::Group& from, hdf5::Group& to, const std::string& name,
                           const CopyOptions& options = {}, const std::function<void()>& after_chunk = {});

// Attributes of text and whole numbers, or lists of them, that `to` has not yet.
//   but: the one that stays behind; empty: none does
void copy_attributes(const hdf5::Node& from, hdf5::Node& to, std::string_view but = {});

// Puts a dataset of `from` into `to`, in one way or another, without its attributes, unless it is there.
using TakeDataset =
    std::function<hdf5::Dataset(const hdf5::Group& from, hdf5::Group& to, const std::string& name)>;

// Groups and datasets with their attributes, but for the journals of an unfinished prompt.
//   to: groups that it has already are filled
//   n_above: groups that it lies in, for what refuses groups that hold themselves
void copy_members(const hdf5::Group& from, hdf5::Group& to, const TakeDataset& take, int n_above = 0);

}  // namespace keyscope::recording
