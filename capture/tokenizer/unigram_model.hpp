#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "capture/tokenizer/token_model.hpp"
#include "capture/tokenizer/tokenizer_json.hpp"

namespace keyscope::tokenizer {

// The unigram language model (Kudo, "Subword regularization", 2018) as the tokenizers library's `Unigram` has
// it: of all ways to part a piece into tokens, the one whose scores (log probabilities) add up to most, found
// by Viterbi. Characters in no token are unknown, a row of them one token, or its bytes (byte_fallback).
class UnigramModel : public TokenModel {
 public:
  //   parts: moved from; model: the field `model`
  //   throws FileError on an unk_id that is no token's, and an empty vocabulary
  UnigramModel(TokenizerJson& parts, const JsonField& model);

  //   scores: by id; of a token that no text becomes, minus infinity
  UnigramModel(Vocabulary vocabulary, std::vector<double> scores, std::optional<std::int32_t> unknown_id,
               bool byte_fallback);

  // O(n) in the piece's length, times the longest token.
  //   throws InvalidInput where a character is unknown and the model has no unknown token
  void encode(std::string_view piece, PieceCache& cache, std::vector<std::int32_t>& ids) const override;

  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  // How the best way to a place ends: with a token that begins at `start`.
  struct Step {
    double score = 0;
    std::int32_t start = kNowhere;
    std::int32_t id = 0;
  };
  static constexpr std::int32_t kNowhere = -1;

  void index_tokens();
  void extend(std::string_view piece, std::size_t start, std::vector<Step>& steps) const;
  void append_token(std::string_view token, std::vector<std::int32_t>& ids) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;                  // by id
  std::vector<std::int32_t> sorted_;            // ids by the bytes of their tokens
  std::array<std::size_t, 257> first_bytes_{};  // where in sorted_ the tokens begin that begin with a byte
  std::optional<std::int32_t> unknown_id_;
  double unknown_score_ = std::numeric_limits<double>::infinity();
  bool byte_fallback_ = false;
};

}  // namespace keyscope::tokenizer
