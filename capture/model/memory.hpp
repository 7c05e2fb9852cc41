#pragma once

#include <cstdint>
#include <filesystem>

namespace keyscope::capture {

// Where a model's weights are between uses.
enum class Residency {
  kWhole,     // all of them stay in memory
  kStreamed,  // a layer's come when it is asked for and go when it is released
};

// Bytes that weights take in memory.
struct WeightBytes {
  std::int64_t all = 0;
  std::int64_t outside_layers = 0;  // embedding, last norm, head
  std::int64_t largest_layer = 0;

  // Three layers: the one at work, the one that is being read, and what the system has not taken back yet.
  std::int64_t streamed() const { return outside_layers + 3 * largest_layer; }
};

// All weights in memory if they fit, else one layer after another if that is allowed and fits.
//   throws Error naming what is needed, what is available, and the schedule that would fit if there is one
Residency choose_residency(const WeightBytes& needed, bool may_stream, std::int64_t available);

// The high-water mark of this process's resident memory since it was started, in bytes: pages of mapped
// files included.
//   throws Error where the system does not say
std::int64_t peak_resident_memory();

// Bytes that can still be taken without swapping: what the kernel calls available, or what the limits of the
// process's control group and of the groups around it leave (Slurm, systemd, containers; version 1 and 2) if
// that is less. The largest int64 where nothing is known.
//   root: where /proc and /sys are looked for
std::int64_t available_memory(const std::filesystem::path& root = "/");

}  // namespace keyscope::capture
