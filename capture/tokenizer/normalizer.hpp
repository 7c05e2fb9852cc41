#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/json.hpp"

namespace keyscope::tokenizer {

// What is done to text before it is split: Unicode normalisation forms, "▁" for spaces and the like.
class Normalizer {
 public:
  virtual ~Normalizer() = default;

  //   text: valid UTF-8, before and after
  //   returns whether what began the text is gone without a trace: to the tokenizers library, what is left
  //   does not stand where a text starts (Metaspace's `first`)
  virtual bool normalize(std::string& text) const = 0;
};

// The `normalizer` field: null (returns nullptr), NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip,
// StripAccents, Lowercase, ByteLevel, Nmt, Precompiled and Sequence.
//   throws FileError on another type, by name, and on fields of another shape
std::unique_ptr<Normalizer> read_normalizer(const std::optional<JsonField>& field);

// The normaliser `Precompiled`: SentencePiece's table of replacements.
//   throws FileError where the table is damaged
std::unique_ptr<Normalizer> read_precompiled(const JsonField& field);

}  // namespace keyscope::tokenizer
