// libFuzzer target: any bytes, read as a recording. Start it on small recordings:
//   fuzz_recording -max_len=200000 -rss_limit_mb=4096 CORPUS
// Finds of the form H5… -> H5… are HDF5's own; frames of this project above an exception are ours.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "capture/recording/hdf5_walk.hpp"
#include "tests/capture/recording/read_everything.hpp"
#include "tests/support/scratch_folder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // HDF5 resolves the path of what it opens: a real file it must be. TMPDIR=/dev/shm keeps it off the disk.
  static const keyscope::test::ScratchFolder folder;
  keyscope::recording::hdf5::walk_files(false);
  const std::filesystem::path path = folder.path() / "recording.h5";
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size)).flush())
    std::abort();
  file.close();
  keyscope::recording::read_everything(path.string());
  return 0;
}
