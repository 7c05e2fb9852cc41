#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/json.hpp"
#include "capture/tokenizer/token_model.hpp"
#include "capture/tokenizer/tokenizer_json.hpp"

namespace keyscope::tokenizer {

// What a pair of neighbouring tokens becomes, and how early: merges of lower rank go first.
struct Merge {
  std::int32_t rank = -1;
  std::int32_t id = -1;
};

// All merges of a BPE model by their pair of ids: a flat hash table, looked up several times a character.
class MergeTable {
 public:
  // Room for `n_merges`; before the first `set`.
  void reserve(std::size_t n_merges);

  // A pair that is set twice keeps the later merge, as the tokenizers library has it.
  //   left, right: not negative
  void set(std::int32_t left, std::int32_t right, Merge merge);

  // nullptr if these two do not merge.
  const Merge* find(std::int32_t left, std::int32_t right) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[find_slot(key_of(left, right))];
    return slot.key == kFree ? nullptr : &slot.merge;
  }

 private:
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge;
  };
  static constexpr std::uint64_t kFree = UINT64_MAX;  // no pair: ids are not negative

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U |
           static_cast<std::uint32_t>(right);
  }
  std::size_t find_slot(std::uint64_t key) const {
    // Fibonacci hashing, Knuth, The Art of Computer Programming 3, section 6.4.
    std::size_t slot = (key * 0x9E3779B97F4A7C15ULL) >> shift_;
    while (slots_[slot].key != key && slots_[slot].key != kFree) slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }

  std::vector<Slot> slots_;  // a power of two of them, at most half full
  unsigned shift_ = 64;
};

// Byte-pair encoding (Sennrich et al., "Neural machine translation of rare words with subword units", 2016)
// as the tokenizers library's `BPE` does it: characters become tokens, bytes (byte_fallback) or the unknown
// token, then the neighbours of lowest rank merge, leftmost first, until none are left.
class BpeModel : public TokenModel {
 public:
  //   parts: moved from; model: the field `model`
  //   throws FileError on merges or an unk_token that name unknown tokens, and dropout
  BpeModel(TokenizerJson& parts, const JsonField& model);

  // O(n log n) in the piece's length, linear where it falls into parts that cannot merge.
  void encode(std::string_view piece, PieceCache& cache, std::vector<std::int32_t>& ids) const override;

  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  struct Symbol {
    std::int32_t id;  // kMerged once it is part of the one before
    std::int32_t previous, next;
  };

  void read_options(const JsonField& model);
  void read_merges(const MergeList& merges, const JsonField& model);
  void read_character_ids();
  void remember_junction(std::string_view left, std::string_view right);
  bool may_join(char32_t left, char32_t right) const;

  std::int32_t character_id(std::string_view character, char32_t code_point) const;  // kNone if unknown
  void encode_in_parts(std::string_view piece, PieceCache& cache, std::vector<std::int32_t>& ids) const;
  void encode_part(std::string_view part, PieceCache& cache, std::vector<std::int32_t>& ids) const;
  std::vector<std::int32_t> initial_ids(std::string_view part) const;
  bool append_byte_tokens(std::string_view text, std::vector<std::int32_t>& ids) const;
  void append_merged(const std::vector<std::int32_t>& initial, std::vector<std::int32_t>& ids) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  std::array<std::int32_t, 0x800> character_ids_{};  // ids of the characters of one and two bytes, or kNone
  std::array<std::int32_t, 256> byte_ids_{};         // ids of <0x00> … <0xFF>, or kNone
  // Last and first character where any merge joins two tokens; pairs of ASCII in the bits.
  std::unordered_set<std::uint64_t> junctions_;
  std::bitset<128UL * 128> ascii_junctions_;
  std::optional<std::int32_t> unknown_id_;
  std::string prefix_, suffix_;  // of characters that continue, of those that end a piece
  bool fuse_unknown_ = false;
  bool byte_fallback_ = false;
  bool ignore_merges_ = false;  // a piece that is a token is taken whole
};

}  // namespace keyscope::tokenizer
