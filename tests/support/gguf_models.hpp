#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/scratch_folder.hpp"

namespace keyscope::test {

// Models that lie in tests/capture/model/goldens/ as GGUF files, of every architecture, and in
// tests/capture/inference/goldens/ in Hugging Face layout.
const std::vector<std::string>& gguf_models();

std::filesystem::path gguf_golden(const std::string& name);

// A model's folder in Hugging Face layout, with what its GGUF file cannot say as everyone takes it.
class HuggingFaceTwin {
 public:
  explicit HuggingFaceTwin(const std::string& name);
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  ScratchFolder folder_;
};

}  // namespace keyscope::test
