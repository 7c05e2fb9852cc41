#include "capture/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "capture/tokenizer/added_tokens.hpp"
#include "capture/tokenizer/bpe_model.hpp"
#include "capture/tokenizer/decoder.hpp"
#include "capture/tokenizer/normalizer.hpp"
#include "capture/tokenizer/post_processor.hpp"
#include "capture/tokenizer/pre_tokenizer.hpp"
#include "capture/tokenizer/text_limit.hpp"
#include "capture/tokenizer/tokenizer_json.hpp"
#include "base/text.hpp"

namespace keyscope::tokenizer {
namespace {

constexpr std::uintmax_t kLargestFile = std::uintmax_t{1} << 30U;

std::string read_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);  // fails on what is no regular file
  if (error)
    throw FileError(
        fmt::format("{}: cannot be read ({}); expected a tokenizer.json", path.string(), error.message()));
  if (size > kLargestFile)
    throw FileError(fmt::format("{}: found {} bytes, expected a tokenizer.json of at most {}", path.string(),
                                size, kLargestFile));
  std::ifstream file(path, std::ios::binary);
  std::string text(size, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(size)))
    throw FileError(fmt::format("{}: could not be read to its end", path.string()));
  return text;
}

std::filesystem::path tokenizer_file(const std::filesystem::path& folder_or_file) {
  std::error_code error;
  return std::filesystem::is_directory(folder_or_file, error) ? folder_or_file / "tokenizer.json"
                                                              : folder_or_file;
}

// normalise → added tokens → pre-tokenise → merge, and back through the decoder.
class BpeTokenizer : public Tokenizer {
 public:
  BpeTokenizer(TokenizerJson parts, const JsonField& root)
      : normalizer_(read_normalizer(root.optional("normalizer"))),
        pre_tokenizer_(read_pre_tokenizer(root.optional("pre_tokenizer"))),
        model_(parts, root.member("model")),
        added_(root.optional("added_tokens"), model_.vocabulary(), normalizer_.get()),
        post_processor_(root.optional("post_processor")),
        decoder_(read_decoder(root.optional("decoder"))) {}

  std::vector<std::int32_t> encode(std::string_view text, bool add_special) const override {
    check_length(text.size());
    std::string buffer;
    const std::string_view valid = replace_invalid_utf8(text, buffer);
    std::vector<std::int32_t> ids;
    ids.reserve(valid.size() / 4 + 8);
    PieceCache cache;
    added_.split_raw(valid, [&](std::optional<std::int32_t> id, std::size_t begin, std::size_t end) {
      if (id) return ids.push_back(*id);
      encode_text(valid.substr(begin, end - begin), begin == 0, cache, ids);
    });
    if (add_special) post_processor_.apply(ids);
    return ids;
  }

  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override {
    return decode_tokens(ids, skip_special).text;
  }

  recording::TokenText token_text(std::span<const std::int32_t> ids) const override {
    DecodedTokens tokens = decode_tokens(ids, false);
    return {{ids.begin(), ids.end()}, std::move(tokens.text), std::move(tokens.offset)};
  }

  std::int64_t vocab_size() const override {
    return std::int64_t{1} + std::max(model_.vocabulary().largest_id(), added_.largest_id());
  }

 private:
  // Text between added tokens that are matched as they are written.
  void encode_text(std::string_view text, bool at_start, PieceCache& cache,
                   std::vector<std::int32_t>& ids) const {
    std::string normalized;
    if (normalizer_) {
      normalized = text;
      normalizer_->normalize(normalized);
      text = normalized;
    }
    added_.split_normalized(text, [&](std::optional<std::int32_t> id, std::size_t begin, std::size_t end) {
      if (id) return ids.push_back(*id);
      const std::string_view part = text.substr(begin, end - begin);
      if (!pre_tokenizer_) return model_.encode(part, cache, ids);
      pre_tokenizer_->split(part, at_start && begin == 0,
                            [&](std::string_view piece, bool) { model_.encode(piece, cache, ids); });
    });
  }

  DecodedTokens decode_tokens(std::span<const std::int32_t> ids, bool skip_special) const {
    DecodedTokens tokens;
    tokens.offset.reserve(ids.size() + 1);
    for (const std::int32_t id : ids) {
      const AddedToken* added = added_.find(id);
      if (added != nullptr && added->special && skip_special) continue;
      tokens.add(added != nullptr ? std::string_view(added->content) : model_.vocabulary().text(id),
                 added != nullptr);
    }
    decoder_->decode(tokens);
    return tokens;
  }

  std::unique_ptr<Normalizer> normalizer_;
  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  BpeModel model_;
  AddedTokens added_;
  PostProcessor post_processor_;
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::load(const std::filesystem::path& folder_or_file) {
  const auto path = tokenizer_file(folder_or_file);
  return parse(read_file(path), path.string());
}

std::unique_ptr<Tokenizer> Tokenizer::parse(std::string_view json, const std::string& name) {
  TokenizerJson parts = parse_tokenizer_json(json, name);
  const nlohmann::json document = std::move(parts.document);
  return std::make_unique<BpeTokenizer>(std::move(parts), JsonField(document, name, ""));
}

}  // namespace keyscope::tokenizer
