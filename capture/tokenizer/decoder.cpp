#include "capture/tokenizer/decoder.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "capture/tokenizer/characters.hpp"
#include "capture/tokenizer/pre_tokenizer.hpp"

namespace keyscope::tokenizer {

void DecodedTokens::add(std::string_view token, bool is_added) {
  text.append(token);
  offset.push_back(static_cast<std::int64_t>(text.size()));
  added.push_back(is_added);
}

namespace {

// A step that rewrites each token by itself; in a fused text, which is one token, each token's share of it.
class TokenwiseDecoder : public Decoder {
 public:
  void decode(DecodedTokens& tokens) const override {
    std::string text;
    text.reserve(tokens.text.size());
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::string_view token =
          std::string_view(tokens.text).substr(begin, tokens.offset[i + 1] - begin);
      begin = tokens.offset[i + 1];
      if (tokens.fused)
        append(token, {0, true, tokens.size() > 1, tokens.added[i]}, text);
      else
        append(token, {i, i + 1 == tokens.size(), false, tokens.added[i]}, text);
      tokens.offset[i + 1] = static_cast<std::int64_t>(text.size());
    }
    tokens.text = std::move(text);
  }

 protected:
  struct Place {
    std::size_t i;
    bool is_last, is_share, is_added;
  };

 private:
  virtual void append(std::string_view token, const Place& place, std::string& text) const = 0;
};

class ByteLevelDecoder : public TokenwiseDecoder {
  void append(std::string_view token, const Place& place, std::string& text) const override {
    const auto bytes = bytes_of_characters(token);
    // An added "é" is meant as written; the alphabet would make one stray byte of it.
    std::string buffer;
    const bool as_written = !bytes || (place.is_added && replace_invalid_utf8(*bytes, buffer) != *bytes);
    text.append(as_written ? token : *bytes);
  }
};

// <0x0A> and the like become their byte.
class ByteFallbackDecoder : public TokenwiseDecoder {
  void append(std::string_view token, const Place& place, std::string& text) const override {
    const int byte = place.is_share ? -1 : byte_of(token);
    byte < 0 ? text.append(token) : text.append(1, static_cast<char>(byte));
  }

  static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  }

  static int byte_of(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
    const int high = hex_digit(token[3]);
    const int low = hex_digit(token[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
  }
};

class ReplaceDecoder : public Decoder {
 public:
  ReplaceDecoder(std::unique_ptr<SplitPattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void decode(DecodedTokens& tokens) const override {
    std::string text;
    text.reserve(tokens.text.size());
    if (tokens.fused) {
      replace_across(tokens, text);
    } else {
      std::size_t begin = 0;
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        const std::size_t end = tokens.offset[i + 1];
        const std::string_view token = std::string_view(tokens.text).substr(begin, end - begin);
        pattern_->find_all(token, [&](std::size_t from, std::size_t to, bool is_match) {
          text.append(is_match ? content_ : token.substr(from, to - from));
          check_length(text.size());
        });
        begin = end;
        tokens.offset[i + 1] = static_cast<std::int64_t>(text.size());
      }
    }
    tokens.text = std::move(text);
  }

 private:
  // A replacement belongs to the token in which its match begins.
  void replace_across(DecodedTokens& tokens, std::string& text) const {
    std::size_t i = 1;  // the offset to move next
    pattern_->find_all(tokens.text, [&](std::size_t from, std::size_t to, bool is_match) {
      const std::size_t start = text.size();
      text.append(is_match ? content_ : tokens.text.substr(from, to - from));
      check_length(text.size());
      for (; i < tokens.offset.size() && static_cast<std::size_t>(tokens.offset[i]) <= to; ++i) {
        const std::size_t into = tokens.offset[i] - from;
        const std::size_t moved = !is_match ? start + into : into > 0 ? text.size() : start;
        tokens.offset[i] = static_cast<std::int64_t>(moved);
      }
    });
  }

  std::unique_ptr<SplitPattern> pattern_;
  std::string content_;
};

class FuseDecoder : public Decoder {
 public:
  void decode(DecodedTokens& tokens) const override { tokens.fused = true; }
};

// Takes up to `start` characters away in front, up to `stop` behind: of every token, of a fused text once.
class StripDecoder : public Decoder {
 public:
  StripDecoder(std::string content, std::int64_t start, std::int64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}

  void decode(DecodedTokens& tokens) const override {
    if (tokens.fused) {
      const auto [begin, end] = kept(tokens.text);
      for (auto& offset : tokens.offset)
        offset = static_cast<std::int64_t>(std::clamp(static_cast<std::size_t>(offset), begin, end) - begin);
      tokens.text = tokens.text.substr(begin, end - begin);
      return;
    }
    std::string text;
    std::size_t from = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::size_t to = tokens.offset[i + 1];
      const std::string_view token = std::string_view(tokens.text).substr(from, to - from);
      const auto [begin, end] = kept(token);
      text.append(token, begin, end - begin);
      from = to;
      tokens.offset[i + 1] = static_cast<std::int64_t>(text.size());
    }
    tokens.text = std::move(text);
  }

 private:
  std::pair<std::size_t, std::size_t> kept(std::string_view text) const {
    const std::size_t n = content_.size();
    std::size_t begin = 0;
    for (std::int64_t i = 0; i < start_ && text.substr(begin).starts_with(content_); ++i) begin += n;
    std::size_t end = text.size();
    for (std::int64_t i = 0; i < stop_ && text.substr(begin, end - begin).ends_with(content_); ++i) end -= n;
    return {begin, end};
  }

  std::string content_;
  std::int64_t start_, stop_;
};

class MetaspaceDecoder : public TokenwiseDecoder {
 public:
  explicit MetaspaceDecoder(Metaspace metaspace) : metaspace_(std::move(metaspace)) {}

 private:
  void append(std::string_view token, const Place& place, std::string& text) const override {
    const bool drop = place.i == 0 && metaspace_.prepend != Metaspace::Prepend::kNever;
    const std::string& replacement = metaspace_.replacement;
    std::size_t done = 0;
    for (auto at = token.find(replacement); at != token.npos; at = token.find(replacement, done)) {
      text.append(token, done, at - done).append(drop ? "" : " ");
      done = at + replacement.size();
    }
    text.append(token, done);
  }

  Metaspace metaspace_;
};

// The end-of-word mark becomes a space, but for the last token.
class WordEndDecoder : public TokenwiseDecoder {
 public:
  explicit WordEndDecoder(std::string suffix) : suffix_(std::move(suffix)) {}

 private:
  void append(std::string_view token, const Place& place, std::string& text) const override {
    std::size_t done = 0;
    for (auto at = token.find(suffix_); at != token.npos; at = token.find(suffix_, done)) {
      text.append(token, done, at - done).append(place.is_last ? "" : " ");
      done = at + suffix_.size();
    }
    text.append(token, done);
  }

  std::string suffix_;
};

class SpacingDecoder : public TokenwiseDecoder {
  void append(std::string_view token, const Place& place, std::string& text) const override {
    text.append(place.i == 0 ? "" : " ").append(token);
  }
};

class DecoderSequence : public Decoder {
 public:
  explicit DecoderSequence(std::vector<std::unique_ptr<Decoder>> steps) : steps_(std::move(steps)) {}
  void decode(DecodedTokens& tokens) const override {
    for (const auto& step : steps_) step->decode(tokens);
  }

 private:
  std::vector<std::unique_ptr<Decoder>> steps_;
};

std::unique_ptr<Decoder> read_decoders(const JsonField& field) {
  std::vector<std::unique_ptr<Decoder>> steps;
  field.member("decoders").for_each([&](const JsonField& step) {
    if (!step.is_null()) steps.push_back(read_decoder(step));
  });
  return std::make_unique<DecoderSequence>(std::move(steps));
}

std::unique_ptr<Decoder> read_strip(const JsonField& field) {
  constexpr std::int64_t kMost = 1 << 20;
  const JsonField content = field.member("content");
  if (content.string().empty()) content.fail("an empty string", "one character");
  return std::make_unique<StripDecoder>(content.string(), field.member("start").integer(0, kMost),
                                        field.member("stop").integer(0, kMost));
}

std::unique_ptr<Decoder> read_word_end(const JsonField& field) {
  std::string suffix = field.string_or("suffix", "</w>");
  if (suffix.empty()) field.member("suffix").fail("an empty string", "the mark at the end of a word");
  return std::make_unique<WordEndDecoder>(std::move(suffix));
}

}  // namespace

std::unique_ptr<Decoder> read_decoder(const std::optional<JsonField>& field) {
  if (!field) return std::make_unique<SpacingDecoder>();
  const std::string type = field->member("type").string();
  if (type == "Sequence") return read_decoders(*field);
  if (type == "ByteLevel") return std::make_unique<ByteLevelDecoder>();
  if (type == "ByteFallback") return std::make_unique<ByteFallbackDecoder>();
  if (type == "Replace")
    return std::make_unique<ReplaceDecoder>(read_split_pattern(field->member("pattern")),
                                            field->member("content").string());
  if (type == "Fuse") return std::make_unique<FuseDecoder>();
  if (type == "Strip") return read_strip(*field);
  if (type == "Metaspace") return std::make_unique<MetaspaceDecoder>(read_metaspace(*field));
  if (type == "BPEDecoder") return read_word_end(*field);
  field->member("type").fail(
      shown(type),
      "Sequence, ByteLevel, ByteFallback, Replace, Fuse, Strip, Metaspace or BPEDecoder "
      "(others are not supported)");
}

}  // namespace keyscope::tokenizer
