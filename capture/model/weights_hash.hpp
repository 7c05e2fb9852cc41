#pragma once

#include <string>

#include "capture/model/model.hpp"

namespace keyscope::capture {

// SHA-256 in hex over what Model::model_sha256 is over, and behind each file's header its data. Tells
// apart checkpoints of one architecture, which model_sha256 does not; reads all weights once.
//   throws FileError where the files cannot be read any more
std::string sha256_with_weights(const Model& model);

}  // namespace keyscope::capture
