#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capture/tokenizer/added_tokens.hpp"
#include "capture/tokenizer/decoder.hpp"
#include "capture/tokenizer/token_model.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::tokenizer {

// What all tokenizers do alike: added tokens first, the text between them by what derives from it, special
// tokens around it, and back through a decoder.
class ComposedTokenizer : public Tokenizer {
 public:
  std::vector<std::int32_t> encode(std::string_view text, bool add_special) const override;
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override;
  recording::TokenText token_text(std::span<const std::int32_t> ids) const override;
  std::int64_t vocab_size() const override;

 protected:
  // Before any of the above; `vocabulary` stays where it is.
  void compose(const Vocabulary& vocabulary, AddedTokens added, PostProcessor post_processor,
               std::unique_ptr<Decoder> decoder);

  const AddedTokens& added() const { return *added_; }

 private:
  // Text between added tokens that are matched as they are written.
  //   at_start: of the whole text
  virtual void encode_text(std::string_view text, bool at_start, PieceCache& cache,
                           std::vector<std::int32_t>& ids) const = 0;

  DecodedTokens decode_tokens(std::span<const std::int32_t> ids, bool skip_special) const;

  const Vocabulary* vocabulary_ = nullptr;
  std::optional<AddedTokens> added_;
  PostProcessor post_processor_;
  std::unique_ptr<Decoder> decoder_;
};

// A `tokenizer.model` by SentencePiece, with what tokenizer_config.json beside it says of special tokens.
//   path: of the file, for messages and for what lies beside it; bytes: the file's
//   throws FileError where it is damaged
std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& path, std::string_view bytes);

}  // namespace keyscope::tokenizer
