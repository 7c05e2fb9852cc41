#pragma once

#include "capture/model/config.hpp"
#include "capture/model/config_fields.hpp"
#include "capture/model/family.hpp"

namespace keyscope::capture {

// Reads which layers see through a sliding window, and how wide it is, into a configuration whose shape has
// been read: by `layer_types` where it is there, else by the family's rule.
//   throws FileError naming the field
void read_windows(const ConfigFields& fields, const Family& family, ModelConfig& config);

}  // namespace keyscope::capture
