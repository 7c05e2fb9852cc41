#include "capture/tokenizer/split_pattern.hpp"

#include <utility>

#include "base/errors.hpp"
#include "capture/tokenizer/regex_pattern.hpp"
#include "base/text.hpp"
#include "capture/tokenizer/word_scanner.hpp"

namespace keyscope::tokenizer {
namespace {

class LiteralPattern : public SplitPattern {
 public:
  explicit LiteralPattern(std::string text) : text_(std::move(text)) {}

  void find_all(std::string_view text, StretchSink sink) const override {
    std::size_t gap = 0;
    for (std::size_t at = text.find(text_); at != std::string_view::npos; at = text.find(text_, gap)) {
      if (gap < at) sink(gap, at, false);
      gap = at + text_.size();
      sink(at, gap, true);
    }
    if (gap < text.size()) sink(gap, text.size(), false);
  }

 private:
  std::string text_;
};

class CharacterPattern : public SplitPattern {
 public:
  explicit CharacterPattern(bool (*predicate)(char32_t)) : predicate_(predicate) {}

  void find_all(std::string_view text, StretchSink sink) const override {
    std::size_t gap = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      if (!predicate_(next_code_point(text, at))) continue;
      if (gap < begin) sink(gap, begin, false);
      sink(begin, at, true);
      gap = at;
    }
    if (gap < text.size()) sink(gap, text.size(), false);
  }

 private:
  bool (*predicate_)(char32_t);
};

}  // namespace

std::unique_ptr<SplitPattern> literal_pattern(std::string text) {
  return std::make_unique<LiteralPattern>(std::move(text));
}

std::unique_ptr<SplitPattern> character_pattern(bool (*predicate)(char32_t)) {
  return std::make_unique<CharacterPattern>(predicate);
}

std::unique_ptr<SplitPattern> read_split_pattern(const JsonField& pattern) {
  if (!pattern.is_object()) pattern.fail_type("an object with \"String\" or \"Regex\"");
  if (const auto literal = pattern.optional("String")) {
    std::string text = literal->string();
    if (text.empty()) literal->fail("an empty string", "text to look for");
    return literal_pattern(std::move(text));
  }
  const auto regex = pattern.optional("Regex");
  if (!regex) pattern.fail("neither", "\"String\" or \"Regex\"");
  const std::string expression = regex->string();
  if (auto scanner = word_scanner_for(expression)) return scanner;
  try {
    return std::make_unique<RegexPattern>(expression);
  } catch (const InvalidInput& error) {
    regex->fail(in_quotes(expression) + ", which PCRE2 refuses (" + error.what() + ")",
                "a regular expression");
  }
}

}  // namespace keyscope::tokenizer
