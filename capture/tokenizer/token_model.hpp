#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "capture/tokenizer/tokenizer_json.hpp"

namespace keyscope::tokenizer {

// Pieces that were encoded before, with their ids. One per call of encode, so that models stay immutable.
class PieceCache {
 public:
  // nullptr if the piece is not known.
  const std::vector<std::int32_t>* find(std::string_view piece) const;
  // Takes short pieces until it is full.
  void add(std::string_view piece, const std::int32_t* ids, std::size_t n_ids);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, std::vector<std::int32_t>, Hash, std::equal_to<>> ids_;
};

// How the pieces of a text become tokens.
class TokenModel {
 public:
  virtual ~TokenModel() = default;

  // Appends the ids of a piece.
  //   piece: valid UTF-8, not empty
  virtual void encode(std::string_view piece, PieceCache& cache, std::vector<std::int32_t>& ids) const = 0;

  virtual const Vocabulary& vocabulary() const = 0;
};

}  // namespace keyscope::tokenizer
