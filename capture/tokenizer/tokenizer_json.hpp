#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace keyscope::tokenizer {

// Ids beyond this are taken for damage, not for a vocabulary; today's largest has 262,144 entries.
inline constexpr std::int32_t kLargestId = (1 << 22) - 1;

// Token texts and their ids, both ways, in one block of memory: 128,000 tokens load in milliseconds.
class Vocabulary {
 public:
  enum class Added { kYes, kTextTwice, kIdTwice };

  //   id: 0 … kLargestId
  Added add(std::string_view text, std::int32_t id);

  std::optional<std::int32_t> find(std::string_view text) const;
  bool contains(std::int32_t id) const;
  // The text of an id; empty if no token has it.
  std::string_view text(std::int32_t id) const;

  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::int32_t largest_id() const { return static_cast<std::int32_t>(by_id_.size()) - 1; }  // -1 when empty

 private:
  struct Token {
    std::size_t offset;
    std::uint32_t size;
    std::int32_t id;
  };
  std::string_view text_of(const Token& token) const { return {bytes_.data() + token.offset, token.size}; }
  std::size_t find_slot(std::string_view text) const;
  void grow();

  std::string bytes_;
  std::vector<Token> tokens_;
  std::vector<std::uint32_t> slots_;  // open addressing: index into tokens_ + 1, 0 is free
  std::vector<std::uint32_t> by_id_;  // index into tokens_ + 1, 0 is none
};

// The merges of a BPE model as written, in order of rank, in one block of memory.
class MergeList {
 public:
  struct Pair {
    std::string_view left, right;
  };
  void add(std::string_view left, std::string_view right);
  std::size_t size() const { return entries_.size(); }
  Pair operator[](std::size_t i) const;

 private:
  struct Entry {
    std::size_t offset;
    std::uint32_t left_size, right_size;
  };
  std::string bytes_;
  std::vector<Entry> entries_;
};

// A `tokenizer.json` as read: the two big tables of `model` apart, everything else as a document. The tables
// go straight from the parser to where they are used, which takes a third of the time of a document with all.
// NOLINTNEXTLINE(bugprone-exception-escape): a moved document throws nothing
struct TokenizerJson {
  nlohmann::json document;     // without model.vocab and model.merges
  Vocabulary vocabulary;       // model.vocab
  std::vector<double> scores;  // by id, where model.vocab is a list of tokens with scores (Unigram)
  MergeList merges;            // model.merges, from "a b" or ["a", "b"]
  bool has_vocabulary = false;
  bool has_scores = false;
  bool has_merges = false;
};

// Parses a file's text.
//   file: its name, for messages
//   throws FileError on text that is no JSON (UTF-8 included), nested deeper than 64, a vocabulary that is
//   neither an object of distinct ids 0 … kLargestId nor a list of distinct tokens with finite scores, and
//   merges that are no array of pairs
TokenizerJson parse_tokenizer_json(std::string_view text, const std::string& file);

}  // namespace keyscope::tokenizer
