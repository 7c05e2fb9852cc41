#pragma once

#include <span>
#include <string>

#include "app/validation/prompts_file.hpp"
#include "capture/model/model.hpp"
#include "capture/recording/origin.hpp"

namespace keyscope::validation {

// Where figures of many prompts come from: the model, and the tokens of all prompts, one after another.
//   provenance: as it is; the SHA-256 of the ids is added to it
recording::Origin prompts_origin(const capture::Model& model, const std::string& model_name,
                                 std::span<const Prompt> prompts, recording::Provenance provenance);

}  // namespace keyscope::validation
