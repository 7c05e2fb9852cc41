#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::tokenizer {

// A model's `tokenizer.json` (the format of Hugging Face's tokenizers library) with a BPE or Unigram model:
// byte-level (GPT-2, Llama 3, Qwen) and SentencePiece-style (normaliser or Metaspace, byte fallback: Llama 2,
// Mistral, TinyStories). Ids equal the library's for the same file, with the tokens that Transformers adds
// from the files beside it. Or its `tokenizer.model`, by SentencePiece itself, where there is no other. Of a
// GGUF file, what it holds of a tokenizer.json.
// Immutable after loading: safe from several threads.
class Tokenizer {
 public:
  // DIR/tokenizer.json, else DIR/tokenizer.model; none where there is neither. A GGUF file has its own.
  static std::optional<std::filesystem::path> file_in(const std::filesystem::path& folder);

  // Reads the file that a folder has (or the file itself).
  //   throws FileError on a missing or damaged file, and where it asks for something unsupported, by name
  static std::unique_ptr<Tokenizer> load(const std::filesystem::path& folder_or_file);

  // The same from a file's text; `name` stands for the file in messages.
  static std::unique_ptr<Tokenizer> parse(std::string_view json, const std::string& name);

  virtual ~Tokenizer() = default;

  // The ids of UTF-8 text as Transformers' `tokenizer(text)` gives them: special tokens written in the text
  // are recognised; the post-processor's (BOS and the like) are added if `add_special`. Invalid UTF-8 is read
  // as U+FFFD, as Python's decoding with errors="replace" would.
  //   throws InvalidInput on text of more than 512 MiB, where a split pattern takes too long, and where a
  //   character has no token and there is none for the unknown
  virtual std::vector<std::int32_t> encode(std::string_view text, bool add_special) const = 0;

  // The text of ids, special tokens included unless `skip_special`. Bytes that are no UTF-8 (a character's
  // tokens cut apart) are kept; the library shows U+FFFD for them. Added tokens show their content as
  // written, or normalised where that is how they are found. An id that no token has adds nothing: models pad
  // their vocabularies, so such ids can be generated.
  virtual std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const = 0;

  // Ids with the bytes that each adds to decode(ids): a space that the decoder strips in front of the text is
  // missing from its token, and a byte token is one byte.
  virtual recording::TokenText token_text(std::span<const std::int32_t> ids) const = 0;

  virtual std::int64_t vocab_size() const = 0;  // largest id + 1, added tokens included
};

// Ids as a JSON text gives them: [1, 80, 147].
//   array: may be a discarded value
//   where: for messages
//   throws FileError where it is no array, and where an entry of it is no integer from 0 to `largest`
std::vector<std::int32_t> ids_from_json(const nlohmann::json& array, const std::string& where,
                                        std::int64_t largest = std::numeric_limits<std::int32_t>::max());

// The tokenizer of a model's folder or GGUF file, or why there is none: a model works without one, on token
// ids.
class FolderTokenizer {
 public:
  FolderTokenizer() = default;  // none, without a reason
  explicit FolderTokenizer(const std::filesystem::path& folder);

  const Tokenizer* get() const { return tokenizer_.get(); }  // null where there is none

  //   why: what a tokenizer is needed for, as the end of a message
  //   throws FileError where there is none
  const Tokenizer& require(std::string_view why) const;

  // Why the file that is there cannot be used; empty where it can, and where there is no file.
  const std::string& refusal() const { return refusal_; }

 private:
  std::filesystem::path folder_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::string refusal_;
};

// What is put around the ids of a text: "begin of text" and the like.
class PostProcessor {
 public:
  PostProcessor() = default;  // adds nothing

  // The `post_processor` field: null, TemplateProcessing (its `single`), BertProcessing, RobertaProcessing,
  // ByteLevel (which only concerns offsets) and Sequence.
  //   throws FileError on another type, by name, and on templates that contradict themselves
  explicit PostProcessor(const std::optional<JsonField>& field);

  // One template: ids before and after the text's.
  PostProcessor(std::vector<std::int32_t> before, std::vector<std::int32_t> after);

  void apply(std::vector<std::int32_t>& ids) const;

 private:
  static constexpr std::int32_t kText = -1;  // the place of the text in a template
  using Template = std::vector<std::int32_t>;

  void read(const JsonField& field);
  static Template read_template(const JsonField& field);

  std::vector<Template> templates_;  // applied in this order
};

}  // namespace keyscope::tokenizer
