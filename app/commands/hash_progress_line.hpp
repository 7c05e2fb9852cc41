#pragma once

#include "capture/model/hash_progress.hpp"

namespace keyscope::commands {

// Shows on stderr how much of a model's weights has been hashed, as Progress does, for as long as it lives.
capture::HashProgress hash_progress_line(bool quiet);

}  // namespace keyscope::commands
