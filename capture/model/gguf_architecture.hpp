#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/gguf/gguf.hpp"
#include "capture/model/family.hpp"

namespace keyscope::capture {

// What GGUF calls a tensor of a layer, and what Hugging Face does; both without the layer and ".weight".
struct GgufName {
  std::string_view gguf, hugging_face;
};

// An architecture of GGUF files, and the family that it stands for. A new one joins with its entry in
// known_gguf_architectures(); names of tensors and fields follow from the family.
struct GgufArchitecture {
  std::string_view name;             // general.architecture
  std::string_view model_type;       // of the family
  std::string_view if_key = {};      // of a model that says more than 0 there: ARCHITECTURE.KEY
  bool permuted = false;             // rows of q and k stand in the order of interleaved rotation
  std::vector<GgufName> names = {};  // where they do not follow from the family

  const Family& family() const { return *find_family(model_type); }
};

const std::vector<GgufArchitecture>& known_gguf_architectures();

//   throws FileError where the file names none that is known
const GgufArchitecture& gguf_architecture(const gguf::Container& file);

// A file's metadata that belong to its architecture, by the key without its name: "rope.freq_base" is
// llama.rope.freq_base in a file of Llama. All of it throws FileError naming file and key.
class GgufFields {
 public:
  explicit GgufFields(const gguf::Container& file);

  const gguf::Container& file() const { return file_; }
  const gguf::Value* find(std::string_view key) const;
  const gguf::Value& require(std::string_view key) const;

  // An integer that a model needs; a list of the same one for every layer is one as well.
  std::int64_t count(std::string_view key) const;
  std::int64_t count_or(std::string_view key, std::int64_t otherwise) const;
  std::optional<double> number(std::string_view key) const;  // finite

  const gguf::Tensor* tensor(std::string_view name) const;  // null if there is none

 private:
  const gguf::Container& file_;
  std::string prefix_;
};

}  // namespace keyscope::capture
