#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"

namespace keyscope::tokenizer {

// Token texts on their way back to plain text: token i is text[offset[i], offset[i + 1]).
struct DecodedTokens {
  std::string text;
  std::vector<std::int64_t> offset{0};
  std::vector<bool> added;  // per token: it is an added token, which shows its content as written
  bool fused = false;       // the following steps see one text instead of its tokens

  std::size_t size() const { return added.size(); }
  void add(std::string_view token, bool is_added);
};

// Turns token texts into the text that they stand for. Bytes are kept as they are: where the tokenizers
// library shows U+FFFD for bytes that are no UTF-8 (part of a character), a decoder hands out these bytes, so
// that decode(encode(text)) is the text and every token has its own share of it.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void decode(DecodedTokens& tokens) const = 0;
};

// The `decoder` field: null (a space between tokens, as the tokenizers library joins them), ByteLevel,
// Replace, ByteFallback, Fuse, Strip, Metaspace, BPEDecoder and Sequence.
//   throws FileError on another type, by name, and on fields of another shape
std::unique_ptr<Decoder> read_decoder(const std::optional<JsonField>& field);

}  // namespace keyscope::tokenizer
