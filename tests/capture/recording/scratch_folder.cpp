#include "tests/capture/recording/scratch_folder.hpp"

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>

namespace keyscope::recording {

ScratchFolder::ScratchFolder(const std::filesystem::path& parent) {
  std::string name = (parent / "keyscope-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no scratch folder under " + parent.string());
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace keyscope::recording
