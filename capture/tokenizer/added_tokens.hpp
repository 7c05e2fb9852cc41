#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
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
  std::string content;
  bool single_word = false;  // only between characters that are no word characters
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space behind it
  bool normalized = true;    // is looked for, itself normalised, in the normalised text
  bool special = false;      // left out by decode(…, skip_special)
  bool operator==(const AddedToken&) const = default;
};

// What one of a file's lists says of a token: an object, or its content alone.
//   special: what it is where that is not said
//   throws FileError on fields of another shape
AddedToken read_added_token(const JsonField& field, bool special = false);

// Receives the parts of a text in order: a token's id, or text between tokens (id is nullopt; never empty).
using AddedTokenSink = CallbackRef<void(std::optional<std::int32_t> id, std::size_t begin, std::size_t end)>;

// The added tokens of a tokenizer: leftmost-longest search for hundreds of them in one pass.
//
// Their ids are those of the tokenizers library, whatever the file says: a token of the vocabulary keeps its
// id there; another one gets the first id behind the vocabulary and behind all that were added before it.
class AddedTokens {
 public:
  //   tokens: in the order in which they are added; a later one of the same content has its flags count
  AddedTokens(const std::vector<AddedToken>& tokens, const Vocabulary& vocabulary,
              const Normalizer* normalizer);

  // Searches for the tokens that are not `normalized`, in the text as it is given.
  void split_raw(std::string_view text, AddedTokenSink sink) const { split(raw_, text, sink); }
  // Searches for the others, in normalised text.
  void split_normalized(std::string_view text, AddedTokenSink sink) const { split(normalized_, text, sink); }

  // nullptr if the id is no added token's.
  const AddedToken* find(std::int32_t id) const;
  // What a token is decoded to: its content, normalised where that is how it is looked for.
  //   id: one that find knows
  std::string_view decoded(std::int32_t id) const { return decoded_.at(id); }
  bool is_special(std::string_view content) const { return special_.contains(std::string(content)); }

  std::int32_t largest_id() const { return largest_id_; }  // -1 if there are none

 private:
  void add(const AddedToken& token, const Vocabulary& vocabulary);
  void split(const TextTrie& trie, std::string_view text, AddedTokenSink sink) const;

  std::unordered_map<std::int32_t, AddedToken> by_id_;
  std::unordered_map<std::int32_t, std::string> decoded_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::unordered_set<std::string> special_;  // contents that any entry says are special
  TextTrie raw_, normalized_;                // contents to ids
  std::int32_t largest_id_ = -1;
};

// What Transformers 5 adds to the `added_tokens` of a tokenizer.json from the files that lie beside it:
// tokenizer_config.json's `added_tokens_decoder`, named and additional special tokens; where that decoder is
// missing, also special_tokens_map.json's and added_tokens.json's.
//   known: those of tokenizer.json
//   throws FileError where one of the files is damaged
std::vector<AddedToken> tokens_beside(const std::filesystem::path& folder,
                                      const std::vector<AddedToken>& known);

}  // namespace keyscope::tokenizer
