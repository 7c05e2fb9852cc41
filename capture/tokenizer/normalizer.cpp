#include "capture/tokenizer/normalizer.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>
#include <unicode/unistr.h>

#include "base/errors.hpp"
#include "base/text.hpp"
#include "capture/tokenizer/characters.hpp"
#include "capture/tokenizer/pre_tokenizer.hpp"

namespace keyscope::tokenizer {
namespace {

void check_icu(UErrorCode status, const char* work) {
  if (U_FAILURE(status) != 0) throw Error(fmt::format("ICU could not {}: {}", work, u_errorName(status)));
}

// The tokenizers library normalises by tables of Unicode 9; to them, what was assigned since has no
// decomposition, combines with nothing and is no mark.
constexpr unsigned kUnicodeOfTables = 9;

class UnicodeForm : public Normalizer {
 public:
  using GetInstance = const icu::Normalizer2* (*)(UErrorCode&);
  explicit UnicodeForm(GetInstance get_instance) {
    UErrorCode status = U_ZERO_ERROR;
    form_ = get_instance(status);
    check_icu(status, "load its normalisation data");
    known_.applyPattern(icu::UnicodeString::fromUTF8(fmt::format("[:age={}.0:]", kUnicodeOfTables)), status);
    check_icu(status, "list the characters of an older Unicode");
    known_.freeze();
  }

  bool normalize(std::string& text) const override {
    UErrorCode status = U_ZERO_ERROR;
    if (form_->isNormalizedUTF8(text, status) != 0) return false;
    std::string normalized;
    icu::StringByteSink<std::string> sink(&normalized, static_cast<std::int32_t>(text.size()));
    icu::FilteredNormalizer2(*form_, known_).normalizeUTF8(0, text, sink, nullptr, status);
    check_icu(status, "normalise a text");
    text = std::move(normalized);
    return false;
  }

 private:
  const icu::Normalizer2* form_;  // ICU's own, never freed
  icu::UnicodeSet known_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  bool normalize(std::string& text) const override {
    if (!text.empty()) text.insert(0, prefix_);
    check_length(text.size());
    return false;
  }

 private:
  std::string prefix_;
};

class Replace : public Normalizer {
 public:
  Replace(std::unique_ptr<SplitPattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  bool normalize(std::string& text) const override {
    std::string replaced;
    bool start_gone = false;
    replaced.reserve(text.size() + text.size() / 4);
    pattern_->find_all(text, [&](std::size_t begin, std::size_t end, bool is_match) {
      // Of a match that is replaced, its last character is what is left.
      std::size_t first = 0;
      if (is_match && begin == 0 && end > 0) next_code_point(text, first);
      start_gone = start_gone || (first > 0 && (content_.empty() || end > first));
      is_match ? replaced.append(content_) : replaced.append(text, begin, end - begin);
      check_length(replaced.size());
    });
    text = std::move(replaced);
    return start_gone;
  }

 private:
  std::unique_ptr<SplitPattern> pattern_;
  std::string content_;
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  bool normalize(std::string& text) const override {
    std::size_t begin = 0;
    std::size_t end = 0;  // behind the last character that is kept
    bool leading = left_;
    for (std::size_t at = 0; at < text.size();) {
      const bool space = (character_classes(next_code_point(text, at)) & kSpace) != 0;
      leading = leading && space;
      if (leading) begin = at;
      if (!space || !right_) end = at;
    }
    text = text.substr(begin, std::max(begin, end) - begin);
    return begin > 0;
  }

 private:
  bool left_, right_;
};

// A combining mark by those tables. In later ones, two of them are letters, and one that was none is a mark.
bool is_accent(char32_t c) {
  if (c == 0x1CF2 || c == 0x1CF3) return true;
  if ((character_classes(c) & kMark) == 0 || c == 0x111C9) return false;
  return unicode_age(c) <= kUnicodeOfTables;
}

// All combining marks, as the tokenizers library does.
class StripAccents : public Normalizer {
 public:
  bool normalize(std::string& text) const override {
    std::string kept;
    bool start_gone = false;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      const bool goes = is_accent(next_code_point(text, at));
      if (!goes) kept.append(text, begin, at - begin);
      start_gone = start_gone || (goes && begin == 0);
    }
    text = std::move(kept);
    return start_gone;
  }
};

// Character by character, as the tokenizers library does: no final sigma.
class Lowercase : public Normalizer {
 public:
  bool normalize(std::string& text) const override {
    std::string lowered;
    for (std::size_t at = 0; at < text.size();) {
      const char32_t c = next_code_point(text, at);
      // U+0130 is the one character whose lower case is two: an i and a combining dot above.
      append_utf8(lowered, c == 0x130 ? U'i' : static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
      if (c == 0x130) append_utf8(lowered, 0x307);
    }
    text = std::move(lowered);
    return false;
  }
};

// What SentencePiece's nmt rules do to control characters and white space.
class Nmt : public Normalizer {
 public:
  bool normalize(std::string& text) const override {
    std::string result;
    bool start_gone = false;
    for (std::size_t at = 0; at < text.size();) {
      const bool is_first = at == 0;
      const char32_t c = next_code_point(text, at);
      start_gone = start_gone || (is_first && is_dropped(c));
      if (!is_dropped(c)) append_utf8(result, is_space(c) ? U' ' : c);
    }
    text = std::move(result);
    return start_gone;
  }

 private:
  static bool is_dropped(char32_t c) {
    return (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F ||
           c == 0x9F;
  }
  static bool is_space(char32_t c) {
    return c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
           c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
  }
};

class ByteLevelNormalizer : public Normalizer {
 public:
  bool normalize(std::string& text) const override {
    std::string characters;
    append_byte_characters(text, characters);
    text = std::move(characters);
    return false;
  }
};

// Far above what any script's decomposition and any known tokenizer's replacements come to.
constexpr std::size_t kMostGrowth = 64;
constexpr std::size_t kShortText = 4096;  // of which prefixes may be

class NormalizerSequence : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> steps) : steps_(std::move(steps)) {}
  bool normalize(std::string& text) const override {
    const std::size_t before = text.size();
    bool start_gone = false;
    for (const auto& step : steps_) {
      start_gone = step->normalize(text) || start_gone;
      // Steps that each double a text would go on for long until the limit of all texts stops them.
      if (text.size() > kMostGrowth * before + kShortText)
        throw InvalidInput(
            fmt::format("the tokenizer's normalizer makes {} bytes of {}; expected at most {} times as many",
                        text.size(), before, kMostGrowth));
    }
    return start_gone;
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

std::unique_ptr<Normalizer> read_normalizers(const JsonField& field) {
  std::vector<std::unique_ptr<Normalizer>> steps;
  field.member("normalizers").for_each([&](const JsonField& step) {
    if (!step.is_null()) steps.push_back(read_normalizer(step));
  });
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

}  // namespace

std::unique_ptr<Normalizer> read_normalizer(const std::optional<JsonField>& field) {
  if (!field) return nullptr;
  const std::string type = field->member("type").string();
  if (type == "Sequence") return read_normalizers(*field);
  if (type == "NFC") return std::make_unique<UnicodeForm>(icu::Normalizer2::getNFCInstance);
  if (type == "NFD") return std::make_unique<UnicodeForm>(icu::Normalizer2::getNFDInstance);
  if (type == "NFKC") return std::make_unique<UnicodeForm>(icu::Normalizer2::getNFKCInstance);
  if (type == "NFKD") return std::make_unique<UnicodeForm>(icu::Normalizer2::getNFKDInstance);
  if (type == "Prepend") return std::make_unique<Prepend>(field->member("prepend").string());
  if (type == "Replace")
    return std::make_unique<Replace>(read_split_pattern(field->member("pattern")),
                                     field->member("content").string());
  if (type == "Strip")
    return std::make_unique<Strip>(field->member("strip_left").boolean(),
                                   field->member("strip_right").boolean());
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  if (type == "Nmt") return std::make_unique<Nmt>();
  if (type == "Precompiled") return read_precompiled(*field);
  field->member("type").fail(
      shown(type),
      "Sequence, NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip, StripAccents, Lowercase, ByteLevel, Nmt or "
      "Precompiled (others are not supported)");
}

}  // namespace keyscope::tokenizer
