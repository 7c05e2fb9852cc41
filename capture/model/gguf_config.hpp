#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "capture/gguf/gguf.hpp"
#include "capture/model/gguf_architecture.hpp"

namespace keyscope::capture {

// What the file says of its model as the text of a config.json, for parse_config: a recording holds it as any
// other. What no config.json has stands under "gguf".
//   throws FileError where the architecture is not known, and on metadata that have no equal there
std::string gguf_config(const gguf::Container& file);

// How its weights are stored, in a few words: "GGUF Q4_K_M".
std::string gguf_quantisation(const gguf::Container& file);

// A part of gguf_config that has a file of its own: theta, what of a head rotates, scaling.
void add_gguf_rope(const GgufFields& from, const Family& family, std::int64_t head_dim,
                   nlohmann::ordered_json& config);

}  // namespace keyscope::capture
