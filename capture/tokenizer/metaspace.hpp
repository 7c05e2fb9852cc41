#pragma once

#include <string>

#include "base/json.hpp"

namespace keyscope::tokenizer {

// What Metaspace's pre-tokenizer and decoder share: the character that stands for a space, and where one is
// put in front. Files before 2024 say `add_prefix_space` instead of `prepend_scheme`.
struct Metaspace {
  enum class Prepend { kAlways, kFirst, kNever };

  std::string replacement;  // one character, "▁"
  Prepend prepend = Prepend::kAlways;
  bool split = true;  // at every replacement, which begins the next piece
};

//   throws FileError on a replacement that is not one character and on an unknown scheme
Metaspace read_metaspace(const JsonField& field);

}  // namespace keyscope::tokenizer
