#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/callback_ref.hpp"
#include "base/json.hpp"
#include "capture/tokenizer/normalizer.hpp"
#include "capture/tokenizer/tokenizer_json.hpp"

namespace keyscope::tokenizer {

// A set of texts with values, searched for all at once. A search takes time proportional to the text, times
// the longest entry where the text is full of its beginnings.
class TextTrie {
 public:
  static constexpr std::int64_t kNone = -1;

  // An entry that is there already keeps its first value.
  //   text: not empty; value: not negative
  void add(std::string_view text, std::int64_t value);

  struct Match {
    std::size_t begin = 0, end = 0;
    std::int64_t value = kNone;  // kNone: nothing was found
  };
  // The leftmost, and there the longest, entry in text[from, …).
  Match find(std::string_view text, std::size_t from) const;

  bool empty() const { return values_.size() == 1; }

 private:
  std::vector<std::int64_t> values_{kNone};                 // of the nodes; the first is the root
  std::array<std::uint32_t, 256> root_{};                   // the root's edges, 0: none
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  // of the others: node and byte to node
};

// A token beside the model's vocabulary, found in the text before anything else is done to it.
struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool single_word = false;  // only between characters that are no word characters
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space behind it
  bool normalized = true;    // is looked for, itself normalised, in the normalised text
  bool special = false;      // left out by decode(…, skip_special)
};

// Receives the parts of a text in order: a token's id, or text between tokens (id is nullopt; never empty).
using AddedTokenSink = CallbackRef<void(std::optional<std::int32_t> id, std::size_t begin, std::size_t end)>;

// The `added_tokens` of a tokenizer: leftmost-longest search for hundreds of them in one pass.
class AddedTokens {
 public:
  //   field: an array, or nothing
  //   throws FileError on fields of another shape and on ids that contradict the vocabulary or each other
  AddedTokens(const std::optional<JsonField>& field, const Vocabulary& vocabulary,
              const Normalizer* normalizer);

  // Searches for the tokens that are not `normalized`, in the text as it is given.
  void split_raw(std::string_view text, AddedTokenSink sink) const { split(raw_, text, sink); }
  // Searches for the others, in normalised text.
  void split_normalized(std::string_view text, AddedTokenSink sink) const { split(normalized_, text, sink); }

  // nullptr if the id is no added token's.
  const AddedToken* find(std::int32_t id) const;
  const AddedToken* find(std::string_view content) const;

  std::int32_t largest_id() const { return largest_id_; }  // -1 if there are none

 private:
  void add(AddedToken token, const JsonField& field, const Vocabulary& vocabulary);
  void split(const TextTrie& trie, std::string_view text, AddedTokenSink sink) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::int32_t, std::size_t> by_id_;  // index into tokens_
  std::unordered_map<std::string, std::size_t> by_content_;
  TextTrie raw_, normalized_;
  std::int32_t largest_id_ = -1;
};

}  // namespace keyscope::tokenizer
