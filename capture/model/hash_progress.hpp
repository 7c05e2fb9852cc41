#pragma once

#include <cstdint>
#include <functional>

namespace keyscope::capture {

// How far the hash over a model's weights has come: bytes of them, of all.
using HashProgress = std::function<void(std::int64_t n_hashed, std::int64_t n_bytes)>;

}  // namespace keyscope::capture
