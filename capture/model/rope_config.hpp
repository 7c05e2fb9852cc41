#pragma once

#include "capture/model/config.hpp"
#include "capture/model/config_fields.hpp"
#include "capture/model/family.hpp"

namespace keyscope::capture {

// Reads rotary positions into a configuration whose shape has been read: theta, scaling, a theta of layers
// with a window. Older files have `rope_theta` and `rope_scaling` side by side, newer ones both inside
// `rope_parameters`. Where the scaling grows with the length seen, the context grows by its factor.
//   throws FileError naming the field
void read_rope(const ConfigFields& fields, const Family& family, ModelConfig& config);

}  // namespace keyscope::capture
