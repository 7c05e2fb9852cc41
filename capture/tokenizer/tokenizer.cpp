#include "capture/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "capture/gguf/gguf.hpp"
#include "capture/tokenizer/added_tokens.hpp"
#include "capture/tokenizer/bpe_model.hpp"
#include "capture/tokenizer/composed_tokenizer.hpp"
#include "capture/tokenizer/decoder.hpp"
#include "capture/tokenizer/gguf_tokenizer.hpp"
#include "capture/tokenizer/normalizer.hpp"
#include "capture/tokenizer/pre_tokenizer.hpp"
#include "capture/tokenizer/token_model.hpp"
#include "capture/tokenizer/tokenizer_json.hpp"
#include "capture/tokenizer/unigram_model.hpp"

namespace keyscope::tokenizer {

namespace {

constexpr std::uintmax_t kLargestFile = std::uintmax_t{1} << 30U;

std::string read_tokenizer_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);  // fails on what is no regular file
  if (error)
    throw FileError(
        fmt::format("{}: cannot be read ({}); expected a tokenizer.json", path.string(), error.message()));
  if (size > kLargestFile)
    throw FileError(fmt::format("{}: found {} bytes, expected a tokenizer.json of at most {}", path.string(),
                                size, kLargestFile));
  return read_file(path, size);
}

// The `model` field.
std::unique_ptr<TokenModel> read_model(TokenizerJson& parts, const JsonField& model) {
  // Files from before `type` was written have merges or not.
  const std::string otherwise = parts.has_scores ? "Unigram" : "BPE";
  const std::string type = model.string_or("type", otherwise);
  if (type == "BPE") return std::make_unique<BpeModel>(parts, model);
  if (type == "Unigram") return std::make_unique<UnigramModel>(parts, model);
  model.member("type").fail(shown(type), "\"BPE\" or \"Unigram\" (others are not supported)");
}

//   folder: with the files beside tokenizer.json; empty: there are none
std::vector<AddedToken> read_added_tokens(const std::optional<JsonField>& field,
                                          const std::filesystem::path& folder) {
  std::vector<AddedToken> tokens;
  if (field) field->for_each([&](const JsonField& entry) { tokens.push_back(read_added_token(entry)); });
  if (folder.empty()) return tokens;
  const auto others = tokens_beside(folder, tokens);
  tokens.insert(tokens.end(), others.begin(), others.end());
  return tokens;
}

// normalise → added tokens → pre-tokenise → model, and back through the decoder.
class JsonTokenizer : public ComposedTokenizer {
 public:
  JsonTokenizer(TokenizerJson parts, const JsonField& root, const std::filesystem::path& folder)
      : normalizer_(read_normalizer(root.optional("normalizer"))),
        pre_tokenizer_(read_pre_tokenizer(root.optional("pre_tokenizer"))),
        model_(read_model(parts, root.member("model"))) {
    compose(
        model_->vocabulary(),
        {read_added_tokens(root.optional("added_tokens"), folder), model_->vocabulary(), normalizer_.get()},
        PostProcessor(root.optional("post_processor")), read_decoder(root.optional("decoder")));
  }

 private:
  void encode_text(std::string_view text, bool at_start, PieceCache& cache,
                   std::vector<std::int32_t>& ids) const override {
    std::string normalized;
    if (normalizer_) {
      normalized = text;
      at_start = !normalizer_->normalize(normalized) && at_start;
      text = normalized;
    }
    added().split_normalized(text, [&](std::optional<std::int32_t> id, std::size_t begin, std::size_t end) {
      if (id) return ids.push_back(*id);
      const std::string_view part = text.substr(begin, end - begin);
      if (!pre_tokenizer_) return model_->encode(part, cache, ids);
      pre_tokenizer_->split(part, at_start && begin == 0,
                            [&](std::string_view piece, bool) { model_->encode(piece, cache, ids); });
    });
  }

  std::unique_ptr<Normalizer> normalizer_;
  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  std::unique_ptr<TokenModel> model_;
};

std::unique_ptr<Tokenizer> make_tokenizer(std::string_view text, const std::string& name,
                                          const std::filesystem::path& folder) {
  TokenizerJson parts = parse_tokenizer_json(text, name);
  const nlohmann::json document = std::move(parts.document);
  return std::make_unique<JsonTokenizer>(std::move(parts), JsonField(document, name, ""), folder);
}

}  // namespace

std::optional<std::filesystem::path> Tokenizer::file_in(const std::filesystem::path& folder) {
  std::error_code error;
  if (gguf::is_gguf(folder)) return folder;
  for (const char* name : {"tokenizer.json", "tokenizer.model"})
    if (std::filesystem::exists(folder / name, error)) return folder / name;
  return std::nullopt;
}

std::unique_ptr<Tokenizer> Tokenizer::load(const std::filesystem::path& folder_or_file) {
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(folder_or_file, error);
  const auto path =
      is_folder ? file_in(folder_or_file).value_or(folder_or_file / "tokenizer.json") : folder_or_file;
  if (gguf::is_gguf(path)) return parse(gguf_tokenizer_json(gguf::Container(path)), path.string());
  const std::string text = read_tokenizer_file(path);
  return path.extension() == ".model" ? load_sentencepiece(path, text)
                                      : make_tokenizer(text, path.string(), folder_of(path));
}

std::unique_ptr<Tokenizer> Tokenizer::parse(std::string_view json, const std::string& name) {
  return make_tokenizer(json, name, {});
}

FolderTokenizer::FolderTokenizer(const std::filesystem::path& folder) : folder_(folder) {
  try {
    if (Tokenizer::file_in(folder)) tokenizer_ = Tokenizer::load(folder);
  } catch (const FileError& error) {
    refusal_ = error.what();
  }
}

const Tokenizer& FolderTokenizer::require(std::string_view why) const {
  if (tokenizer_) return *tokenizer_;
  if (!refusal_.empty()) throw FileError(fmt::format("{}; {}", refusal_, why));
  throw FileError(
      fmt::format("{}: found neither tokenizer.json nor tokenizer.model; {}", folder_.string(), why));
}

std::vector<std::int32_t> ComposedTokenizer::encode(std::string_view text, bool add_special) const {
  check_length(text.size());
  std::string buffer;
  const std::string_view valid = replace_invalid_utf8(text, buffer);
  std::vector<std::int32_t> ids;
  ids.reserve(valid.size() / 4 + 8);
  PieceCache cache;
  added().split_raw(valid, [&](std::optional<std::int32_t> id, std::size_t begin, std::size_t end) {
    if (id) return ids.push_back(*id);
    encode_text(valid.substr(begin, end - begin), begin == 0, cache, ids);
  });
  if (add_special) post_processor_.apply(ids);
  return ids;
}

std::string ComposedTokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  return decode_tokens(ids, skip_special).text;
}

recording::TokenText ComposedTokenizer::token_text(std::span<const std::int32_t> ids) const {
  DecodedTokens tokens = decode_tokens(ids, false);
  return {{ids.begin(), ids.end()}, std::move(tokens.text), std::move(tokens.offset)};
}

std::int64_t ComposedTokenizer::vocab_size() const {
  return std::int64_t{1} + std::max(vocabulary_->largest_id(), added().largest_id());
}

DecodedTokens ComposedTokenizer::decode_tokens(std::span<const std::int32_t> ids, bool skip_special) const {
  DecodedTokens tokens;
  tokens.offset.reserve(ids.size() + 1);
  for (const std::int32_t id : ids) {
    const AddedToken* token = added().find(id);
    if (token != nullptr && skip_special && added().is_special(token->content)) continue;
    tokens.add(token != nullptr ? added().decoded(id) : vocabulary_->text(id), token != nullptr);
  }
  decoder_->decode(tokens);
  return tokens;
}

void ComposedTokenizer::compose(const Vocabulary& vocabulary, AddedTokens added, PostProcessor post_processor,
                                std::unique_ptr<Decoder> decoder) {
  vocabulary_ = &vocabulary;
  added_ = std::move(added);
  post_processor_ = std::move(post_processor);
  decoder_ = std::move(decoder);
}

namespace {

std::int32_t read_id(const JsonField& field) {
  return static_cast<std::int32_t>(field.integer(0, kLargestId));
}

// ["</s>", 2]
std::int32_t read_token_and_id(const JsonField& field) {
  std::int32_t id = 0;
  int n = 0;
  field.for_each([&](const JsonField& entry) {
    if (n++ == 1) id = read_id(entry);
  });
  if (n != 2) field.fail_type("a token and its id");
  return id;
}

}  // namespace

PostProcessor::PostProcessor(const std::optional<JsonField>& field) {
  if (field) read(*field);
}

PostProcessor::PostProcessor(std::vector<std::int32_t> before, std::vector<std::int32_t> after) {
  before.push_back(kText);
  before.insert(before.end(), after.begin(), after.end());
  templates_.push_back(std::move(before));
}

void PostProcessor::read(const JsonField& field) {
  const std::string type = field.member("type").string();
  if (type == "Sequence") {
    field.member("processors").for_each([&](const JsonField& step) { read(step); });
  } else if (type == "TemplateProcessing") {
    templates_.push_back(read_template(field));
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    templates_.push_back(
        {read_token_and_id(field.member("cls")), kText, read_token_and_id(field.member("sep"))});
  } else if (type != "ByteLevel") {
    field.member("type").fail(shown(type),
                              "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel or Sequence "
                              "(others are not supported)");
  }
}

PostProcessor::Template PostProcessor::read_template(const JsonField& field) {
  Template ids;
  const auto special_tokens = field.optional("special_tokens");
  field.member("single").for_each([&](const JsonField& part) {
    if (const auto sequence = part.optional("Sequence")) {
      const JsonField id = sequence->member("id");
      if (id.string() != "A") id.fail(shown(id.string()), "\"A\", the only text of a single sequence");
      ids.push_back(kText);
      return;
    }
    const auto special = part.optional("SpecialToken");
    if (!special) part.fail("neither", "\"Sequence\" or \"SpecialToken\"");
    const JsonField name = special->member("id");
    const auto tokens = special_tokens ? special_tokens->optional(name.string()) : std::nullopt;
    if (!tokens) name.fail(shown(name.string()), "a name from special_tokens");
    tokens->member("ids").for_each([&](const JsonField& id) { ids.push_back(read_id(id)); });
  });
  const auto n_texts = std::count(ids.begin(), ids.end(), kText);
  if (n_texts != 1) field.member("single").fail(std::to_string(n_texts) + " places for the text", "one");
  return ids;
}

void PostProcessor::apply(std::vector<std::int32_t>& ids) const {
  for (const Template& parts : templates_) {
    std::vector<std::int32_t> framed;
    framed.reserve(ids.size() + parts.size());
    for (const std::int32_t part : parts) {
      if (part == kText) {
        framed.insert(framed.end(), ids.begin(), ids.end());
      } else {
        framed.push_back(part);
      }
    }
    ids = std::move(framed);
  }
}

std::vector<std::int32_t> ids_from_json(const nlohmann::json& array, const std::string& where,
                                        std::int64_t largest) {
  if (!array.is_array())
    throw FileError(fmt::format("{}: found {}, expected a JSON array of token ids, such as [1, 80, 147]",
                                where, array.is_discarded() ? "no JSON" : shown_value(array)));
  std::vector<std::int32_t> ids;
  ids.reserve(array.size());
  for (const nlohmann::json& entry : array) {
    const auto id = json_integer(entry, 0, largest);
    if (!id)
      throw FileError(fmt::format("{}: entry {} is {}, expected a token id from 0 to {}", where, ids.size(),
                                  shown_value(entry), largest));
    ids.push_back(static_cast<std::int32_t>(*id));
  }
  return ids;
}

}  // namespace keyscope::tokenizer
