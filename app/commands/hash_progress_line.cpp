#include "app/commands/hash_progress_line.hpp"

#include <cstdint>
#include <memory>

#include "app/commands/progress.hpp"

namespace keyscope::commands {

capture::HashProgress hash_progress_line(bool quiet) {
  constexpr std::int64_t kMegabyte = 1'000'000;
  return [progress = std::make_shared<Progress>("MB", quiet)](std::int64_t n_hashed, std::int64_t n_bytes) {
    progress->update(n_hashed / kMegabyte, n_bytes / kMegabyte, "hashing the weights");
  };
}

}  // namespace keyscope::commands
