#include "capture/replay/replay_file.hpp"

#include "base/errors.hpp"
#include "capture/recording/layout.hpp"
#include "capture/recording/output_path.hpp"
#include "capture/replay/replay_layout.hpp"

namespace keyscope::replay {

using recording::hdf5::Dataset;
using recording::hdf5::Group;

template <typename Work>
void ReplayFile::guarded(Work work) {
  try {
    work();
  } catch (const FileError&) {
    file_.check_output();
    throw;
  }
}

ReplayFile::ReplayFile(const recording::PartFile& place, const Source& source, const ReplayPlan& plan,
                       const std::function<void()>& after_chunk, const std::function<void()>& after_layer)
    : place_(place), plan_(plan), file_(place.create()) {
  try {
    guarded([&] {
      Group root = file_.root();
      create_replay_layout(root, source, plan, after_chunk, after_layer);
      file_.flush();
    });
    recording::sync_path(place.part());
    recording::sync_path(recording::folder_of(place.part()));
  } catch (...) {
    file_.abandon();
    place.remove();
    throw;
  }
}

Group ReplayFile::run_group(std::size_t run) const {
  return file_.root().open_group("entry").open_group("runs").open_group(plan_.runs[run].name);
}

void ReplayFile::flush_and_sync() {
  file_.flush();
  recording::sync_data(file_.descriptor(), place_.part().string());
}

void ReplayFile::write_layer(std::size_t run, int layer, const std::vector<HeadEvictions>& heads) {
  guarded([&] {
    const Group group = run_group(run).open_group(recording::layer_group_name(layer));
    Dataset evicted_at = group.open_dataset("evicted_at"), margin = group.open_dataset("evicted_margin");
    for (std::size_t head = 0; head < heads.size(); ++head) {
      const hsize_t n_tokens = heads[head].evicted_at.size();
      evicted_at.write(std::span<const std::int32_t>(heads[head].evicted_at), {head, 0}, {1, n_tokens});
      margin.write(std::span<const float>(heads[head].evicted_margin), {head, 0}, {1, n_tokens});
    }
  });
}

void ReplayFile::count_run(std::size_t run) {
  guarded([&] {
    flush_and_sync();
    const std::int64_t n_blocks = plan_.runs[run].n_prompt_blocks;
    Dataset counter = run_group(run).open_dataset("blocks_done");
    counter.write(std::span<const std::int64_t>(&n_blocks, 1));
    flush_and_sync();
  });
  ++runs_done_;
}

void ReplayFile::finish(bool complete) {
  try {
    guarded([&] {
      file_.root().open_group("entry").open_group("provenance").set_integer("complete", complete ? 1 : 0);
      flush_and_sync();
      file_.close();
    });
  } catch (...) {
    file_.abandon();
    if (runs_done_ == 0) place_.remove();
    throw;
  }
  if (runs_done_ == 0) return place_.remove();
  if (complete || !std::filesystem::exists(place_.out())) place_.publish();
}

}  // namespace keyscope::replay
