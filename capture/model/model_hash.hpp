#pragma once

#include <string>

#include "capture/model/config.hpp"
#include "capture/model/hash_progress.hpp"
#include "capture/model/model.hpp"
#include "capture/model/safetensors.hpp"

namespace keyscope::capture {

// SHA-256 in hex over config.json's bytes, then for each weight file, ascending by name: its name, a zero
// byte, its size as decimal digits, a zero byte, and its safetensors header; where they are asked for, behind
// that its data.
std::string model_hash(const ModelConfig& config, const Checkpoint& checkpoint, bool with_weights,
                       const HashProgress& progress = {});

// That with the weights. Tells checkpoints of one architecture apart, which Model::model_sha256 does not;
// reads all weights once.
//   throws FileError where the files cannot be read any more
std::string sha256_with_weights(const Model& model, const HashProgress& progress = {});

}  // namespace keyscope::capture
