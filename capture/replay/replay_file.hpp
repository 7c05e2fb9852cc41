#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "capture/recording/hdf5.hpp"
#include "capture/recording/part_file.hpp"
#include "capture/replay/head_replay.hpp"
#include "capture/replay/replay.hpp"

namespace keyscope::replay {

// An OUT.part that becomes a recording of the source run and of every replayed one. All of its groups,
// attributes and datasets, and the copy of the source run, are on the disk before the first result; results
// then overwrite raw data only, and a run is counted when it is whole, so that a kill at any moment leaves a
// file that opens with the runs done by then.
//
// Rows that runs have in common lie in the file once: keys, queries and values of a replayed run are further
// names (HDF5 hard links) for those of the source run. Where that one generated, it has more tokens, and the
// replayed runs share a copy of the prompt's rows. The attention statistics of replayed runs, in which
// nothing attended, are zeros that all of them share.
class ReplayFile {
 public:
  // Lays the file out and copies the source run.
  //   after_chunk: called every megabyte or so; may throw to stop
  //   after_layer: called after each layer that was copied
  //   throws FileError where the file cannot be written, and leaves none then
  ReplayFile(recording::PartFile& place, const Source& source, const ReplayPlan& plan,
             const std::function<void()>& after_chunk, const std::function<void(int layer)>& after_layer);

  // What follows throws FileError where the file cannot be written.

  //   heads: one per KV head
  void write_layer(std::size_t run, int layer, const std::vector<HeadEvictions>& heads);
  void count_run(std::size_t run);  // when all of its layers were written
  std::size_t runs_done() const { return runs_done_; }

  // Closes the file. It gets its name unless it is cut short and an older file bears that name: then it stays
  // a part. Without a whole run nothing stays.
  void finish(bool complete);

 private:
  recording::hdf5::Group run_group(std::size_t run) const;
  void flush_and_sync();

  recording::PartFile& place_;
  const ReplayPlan& plan_;
  recording::hdf5::File file_;
  std::size_t runs_done_ = 0;
};

}  // namespace keyscope::replay
