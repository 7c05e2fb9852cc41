#pragma once

#include <cstddef>
#include <string>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::tokenizer {

// The longest text that is read, and that rewriting may make of one: ICU and the merges count in 32 bits, and
// a damaged file can ask for replacements that double a text again and again.
inline constexpr std::size_t kLongestText = std::size_t{1} << 29U;

//   throws InvalidInput if a text has grown beyond that
inline void check_length(std::size_t n_bytes) {
  if (n_bytes > kLongestText)
    throw InvalidInput(fmt::format("the text: found {} bytes, expected at most {}", n_bytes, kLongestText));
}

}  // namespace keyscope::tokenizer
