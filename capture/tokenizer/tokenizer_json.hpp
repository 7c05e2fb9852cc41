#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "capture/tokenizer/vocabulary.hpp"

namespace keyscope::tokenizer {

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
struct TokenizerJson {
  nlohmann::json document;  // without model.vocab and model.merges
  Vocabulary vocabulary;    // model.vocab
  MergeList merges;         // model.merges, from "a b" or ["a", "b"]
  bool has_vocabulary = false;
  bool has_merges = false;
};

// Parses a file's text.
//   file: its name, for messages
//   throws FileError on text that is no JSON (UTF-8 included), nested deeper than 64, a vocabulary that is no
//   object of distinct ids 0 … kLargestId, and merges that are no array of pairs
TokenizerJson parse_tokenizer_json(std::string_view text, const std::string& file);

}  // namespace keyscope::tokenizer
