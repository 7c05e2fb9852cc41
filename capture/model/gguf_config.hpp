#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "capture/gguf/gguf.hpp"

namespace keyscope::capture {

// What GGUF calls a tensor, and what Hugging Face does; both without the layer and ".weight".
struct GgufName {
  std::string_view gguf, hugging_face;
};

// An architecture of GGUF files, and the family of Hugging Face that it stands for. A new one joins with its
// entry in known_gguf_architectures(); whether the family is supported, parse_config says.
struct GgufArchitecture {
  std::string_view name;  // general.architecture
  std::string_view model_type, hugging_face_class;
  std::string_view if_key = {};      // of a model that says more than 0 there: ARCHITECTURE.KEY
  std::vector<GgufName> names = {};  // of layers' tensors, where they differ from Llama's
  bool permuted = false;             // rows of q and k stand in the order of interleaved rotation
  bool norms_plus_one = false;       // norms are stored with the 1 that is added to them
  bool fused = false;                // q, k, v stay one matrix
};

const std::vector<GgufArchitecture>& known_gguf_architectures();

//   throws FileError where the file names none that is known
const GgufArchitecture& gguf_architecture(const gguf::Container& file);

// An integer of the architecture: of `ARCHITECTURE.KEY`, which may list the same one for every layer.
//   throws FileError where it is not there, or differs between layers
std::int64_t gguf_count(const gguf::Container& file, std::string_view key);

// What the file says of its model as the text of a config.json, for parse_config: a recording holds it as any
// other. What no config.json has stands under "gguf".
//   throws FileError as above, and on metadata that have no equal there
std::string gguf_config(const gguf::Container& file);

// How its weights are stored, in a few words: "GGUF Q4_K_M".
std::string gguf_quantisation(const gguf::Container& file);

}  // namespace keyscope::capture
