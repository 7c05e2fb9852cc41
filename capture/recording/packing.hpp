#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/files.hpp"
#include "capture/recording/dataset_copy.hpp"
#include "capture/recording/hdf5.hpp"

namespace keyscope::recording {

// The compressed copy of a recording (shuffle and gzip), which takes the recording's place in the end.
//
// Compressing a recording while it grows would move its metadata with every block (see `create_layout`). The
// copy is therefore a file of its own (see own_part), and grows from what the recording will not
// overwrite any more, chunk by chunk, whenever the writer of the recording has nothing else to do. What is
// left when the recording is complete is copied then. All calls come from one thread at a time.
class Packing {
 public:
  explicit Packing(std::filesystem::path recording);
  Packing(const Packing&) = delete;
  Packing& operator=(const Packing&) = delete;
  ~Packing();  // removes a copy that was not finished

  // A layer's rows (keys, queries, values, attention) are final, n_tokens of them.
  void add_layer(const std::string& run, int layer, std::int64_t n_tokens);

  // Copies the next chunk of what was added; false: there is none.
  //   root: of the recording, as its writer has it open
  //   throws FileError where the recording cannot be read or the copy not be created; that the copy could not
  //   be written is reported by `finish`
  bool step(const hdf5::Group& root);

  // Copies the rest of the recording, closed and complete, and puts the copy in its place. Returns the copy's
  // lock (see hdf5::File::keep_lock).
  //   throws FileError; the recording is then as it was
  std::unique_ptr<Descriptor> finish();

 private:
  struct Rows {
    std::string run, layer, name;
    std::int64_t n_tokens = 0;
  };

  hdf5::File& file();
  void begin(const hdf5::Group& root, const Rows& rows);
  void end_rows(const hdf5::Group& root);
  void write_rest();
  void discard() noexcept;

  std::filesystem::path recording_, packed_;
  std::optional<hdf5::File> file_;
  std::deque<Rows> waiting_;
  Rows rows_;  // in work: what `from_` and `copying_` are about
  hdf5::Dataset from_;
  std::optional<DatasetCopy> copying_;
};

}  // namespace keyscope::recording
