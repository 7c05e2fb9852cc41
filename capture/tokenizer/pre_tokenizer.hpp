#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "base/callback_ref.hpp"
#include "base/json.hpp"

namespace keyscope::tokenizer {

// Receives one piece, never empty. `at_start`: it begins where the whole text begins. The view is valid
// during the call only.
using PieceSink = CallbackRef<void(std::string_view piece, bool at_start)>;

// Cuts text into the pieces that byte-pair merges never cross, and may rewrite them (byte alphabet, "▁").
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;

  //   text: valid UTF-8, not empty
  virtual void split(std::string_view text, bool at_start, PieceSink sink) const = 0;
};

// The `pre_tokenizer` field: null (returns nullptr), Split, ByteLevel, Digits, Metaspace, Whitespace,
// WhitespaceSplit, Punctuation, CharDelimiterSplit and Sequence.
//   throws FileError on another type, by name, and on fields of another shape
std::unique_ptr<PreTokenizer> read_pre_tokenizer(const std::optional<JsonField>& field);

}  // namespace keyscope::tokenizer
