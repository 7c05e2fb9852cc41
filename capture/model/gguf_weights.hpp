#pragma once

#include <map>
#include <memory>
#include <string>

#include "capture/gguf/gguf.hpp"
#include "capture/model/stored_weights.hpp"

namespace keyscope::capture {

// A GGUF file's tensors by Hugging Face's names and in its order of rows: rows of q and k as they were before
// they were put into the order of interleaved rotation, norms without the 1 that was added to them, experts
// and projections that are stored as one each by itself. Rotary factors, which belong to the configuration,
// are left out. The file must outlive them.
//   throws FileError on a tensor that the architecture does not have
std::map<std::string, std::unique_ptr<StoredWeight>, std::less<>> gguf_weights(const gguf::Container& file);

}  // namespace keyscope::capture
