#include "capture/tokenizer/pre_tokenizer.hpp"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "base/text.hpp"
#include "capture/tokenizer/characters.hpp"
#include "capture/tokenizer/word_scanner.hpp"

namespace keyscope::tokenizer {

namespace {

class PatternSplit : public PreTokenizer {
 public:
  PatternSplit(std::unique_ptr<SplitPattern> pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void split(std::string_view text, bool at_start, PieceSink sink) const override {
    split_at(*pattern_, behavior_, invert_, text, [&](std::size_t begin, std::size_t end) {
      sink(text.substr(begin, end - begin), at_start && begin == 0);
    });
  }

 private:
  std::unique_ptr<SplitPattern> pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class ByteLevelSplit : public PreTokenizer {
 public:
  ByteLevelSplit(bool add_prefix_space, bool use_regex)
      : add_prefix_space_(add_prefix_space), use_regex_(use_regex) {}

  void split(std::string_view text, bool at_start, PieceSink sink) const override {
    std::string with_space;
    if (add_prefix_space_ && text.front() != ' ') {
      with_space.append(" ").append(text);
      text = with_space;
    }
    std::string characters;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = use_regex_ ? find_piece_end(kGpt2Rules, text, at) : text.size();
      characters.clear();
      append_byte_characters(text.substr(at, end - at), characters);
      sink(characters, at_start && at == 0);
      at = end;
    }
  }

 private:
  bool add_prefix_space_, use_regex_;
};

class MetaspaceSplit : public PreTokenizer {
 public:
  explicit MetaspaceSplit(Metaspace metaspace)
      : metaspace_(std::move(metaspace)), at_replacement_(literal_pattern(metaspace_.replacement)) {}

  void split(std::string_view text, bool at_start, PieceSink sink) const override {
    std::string replaced;
    const bool wanted = metaspace_.prepend == Metaspace::Prepend::kAlways ||
                        (metaspace_.prepend == Metaspace::Prepend::kFirst && at_start);
    if (wanted && text.front() != ' ' && !text.starts_with(metaspace_.replacement))
      replaced = metaspace_.replacement;
    for (const char c : text) c == ' ' ? replaced.append(metaspace_.replacement) : replaced.append(1, c);
    if (!metaspace_.split) return sink(replaced, at_start);
    split_at(*at_replacement_, SplitBehavior::kMergedWithNext, false, replaced,
             [&](std::size_t begin, std::size_t end) {
               sink(std::string_view(replaced).substr(begin, end - begin), at_start && begin == 0);
             });
  }

 private:
  Metaspace metaspace_;
  std::unique_ptr<SplitPattern> at_replacement_;
};

class PreTokenizerSequence : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<std::unique_ptr<PreTokenizer>> steps)
      : steps_(std::move(steps)) {}

  void split(std::string_view text, bool at_start, PieceSink sink) const override {
    split_from(0, text, at_start, sink);
  }

 private:
  void split_from(std::size_t step, std::string_view text, bool at_start, PieceSink sink) const {
    if (step == steps_.size()) return sink(text, at_start);
    steps_[step]->split(text, at_start, [&](std::string_view piece, bool piece_at_start) {
      split_from(step + 1, piece, piece_at_start, sink);
    });
  }

  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

// \w+|[^\w\s]+
class WordsAndSymbols : public SplitPattern {
 public:
  void find_all(std::string_view text, StretchSink sink) const override {
    for (std::size_t begin = 0; begin < text.size();) {
      std::size_t end = begin;
      const int kind = kind_of(next_code_point(text, end));
      for (std::size_t next = end; next < text.size(); end = next)
        if (kind_of(next_code_point(text, next)) != kind) break;
      sink(begin, end, kind != kNeither);
      begin = end;
    }
  }

 private:
  enum Kind { kNeither, kWord, kSymbol };
  static Kind kind_of(char32_t c) {
    if (is_word_character(c)) return kWord;
    return (character_classes(c) & kSpace) != 0 ? kNeither : kSymbol;
  }
};

std::unique_ptr<PreTokenizer> read_split(const JsonField& field) {
  return std::make_unique<PatternSplit>(read_split_pattern(field.member("pattern")),
                                        read_split_behavior(field.member("behavior")),
                                        field.boolean_or("invert", false));
}

std::unique_ptr<PreTokenizer> read_pre_tokenizers(const JsonField& field) {
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  field.member("pretokenizers").for_each([&](const JsonField& step) {
    if (!step.is_null()) steps.push_back(read_pre_tokenizer(step));
  });
  return std::make_unique<PreTokenizerSequence>(std::move(steps));
}

std::unique_ptr<PreTokenizer> split_characters(bool (*predicate)(char32_t), SplitBehavior behavior) {
  return std::make_unique<PatternSplit>(character_pattern(predicate), behavior, false);
}

bool is_number(char32_t c) { return (character_classes(c) & kNumber) != 0; }
bool is_space(char32_t c) { return (character_classes(c) & kSpace) != 0; }

// To the tokenizers library, whose table is of Unicode 8; two of its characters are none in later ones.
bool is_punctuation(char32_t c) {
  if (c == 0x166D || c == 0x111C9) return true;
  return (character_classes(c) & kPunctuation) != 0 && unicode_age(c) <= 8;
}

std::unique_ptr<PreTokenizer> read_punctuation(const JsonField& field) {
  const auto behavior = field.optional("behavior");
  return split_characters(is_punctuation,
                          behavior ? read_split_behavior(*behavior) : SplitBehavior::kIsolated);
}

std::unique_ptr<PreTokenizer> read_delimiter_split(const JsonField& field) {
  std::string delimiter = field.member("delimiter").string();
  if (delimiter.empty()) field.member("delimiter").fail("an empty string", "one character");
  return std::make_unique<PatternSplit>(literal_pattern(std::move(delimiter)), SplitBehavior::kRemoved,
                                        false);
}

}  // namespace

std::unique_ptr<PreTokenizer> read_pre_tokenizer(const std::optional<JsonField>& field) {
  if (!field) return nullptr;
  const std::string type = field->member("type").string();
  if (type == "Sequence") return read_pre_tokenizers(*field);
  if (type == "Split") return read_split(*field);
  if (type == "ByteLevel")
    return std::make_unique<ByteLevelSplit>(field->boolean_or("add_prefix_space", true),
                                            field->boolean_or("use_regex", true));
  if (type == "Digits")
    return split_characters(is_number, field->boolean_or("individual_digits", false)
                                           ? SplitBehavior::kIsolated
                                           : SplitBehavior::kContiguous);
  if (type == "Metaspace") return std::make_unique<MetaspaceSplit>(read_metaspace(*field));
  if (type == "Whitespace")
    return std::make_unique<PatternSplit>(std::make_unique<WordsAndSymbols>(), SplitBehavior::kRemoved, true);
  if (type == "WhitespaceSplit") return split_characters(is_space, SplitBehavior::kRemoved);
  if (type == "Punctuation") return read_punctuation(*field);
  if (type == "CharDelimiterSplit") return read_delimiter_split(*field);
  field->member("type").fail(shown(type),
                             "Sequence, Split, ByteLevel, Digits, Metaspace, Whitespace, WhitespaceSplit, "
                             "Punctuation or CharDelimiterSplit (others are not supported)");
}

namespace {

struct Stretch {
  std::size_t begin, end;
  bool delimiter;
};

// A delimiter joins the piece before it, unless that ends with a delimiter already.
void merge_with_previous(const std::vector<Stretch>& stretches, RangeSink sink) {
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const bool joins = !stretches[i].delimiter && i + 1 < stretches.size() && stretches[i + 1].delimiter;
    const std::size_t begin = stretches[i].begin;
    if (joins) ++i;
    sink(begin, stretches[i].end);
  }
}

void merge_with_next(const std::vector<Stretch>& stretches, RangeSink sink) {
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const bool joins = stretches[i].delimiter && i + 1 < stretches.size() && !stretches[i + 1].delimiter;
    const std::size_t begin = stretches[i].begin;
    if (joins) ++i;
    sink(begin, stretches[i].end);
  }
}

void join_rows(const std::vector<Stretch>& stretches, RangeSink sink) {
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const std::size_t begin = stretches[i].begin;
    while (i + 1 < stretches.size() && stretches[i + 1].delimiter == stretches[i].delimiter) ++i;
    sink(begin, stretches[i].end);
  }
}

}  // namespace

SplitBehavior read_split_behavior(const JsonField& field) {
  const std::string name = field.string();
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  field.fail(shown(name), "Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous");
}

void split_at(const SplitPattern& pattern, SplitBehavior behavior, bool invert, std::string_view text,
              RangeSink sink) {
  if (behavior == SplitBehavior::kIsolated || behavior == SplitBehavior::kRemoved) {
    const bool keep_delimiters = behavior == SplitBehavior::kIsolated;
    pattern.find_all(text, [&](std::size_t begin, std::size_t end, bool is_match) {
      if (begin < end && (keep_delimiters || is_match == invert)) sink(begin, end);
    });
    return;
  }
  const auto sink_filled = [&](std::size_t begin, std::size_t end) {
    if (begin < end) sink(begin, end);
  };
  std::vector<Stretch> stretches;
  pattern.find_all(text, [&](std::size_t begin, std::size_t end, bool is_match) {
    stretches.push_back({begin, end, is_match != invert});
  });
  if (behavior == SplitBehavior::kMergedWithPrevious) merge_with_previous(stretches, sink_filled);
  if (behavior == SplitBehavior::kMergedWithNext) merge_with_next(stretches, sink_filled);
  if (behavior == SplitBehavior::kContiguous) join_rows(stretches, sink_filled);
}

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
    regex->fail(shown(expression) + ", which Oniguruma refuses (" + error.what() + ")",
                "a regular expression");
  }
}

void RegexPattern::find_all(std::string_view text, StretchSink sink) const {
  if (text.empty()) return;  // not even an empty match is in it, to the tokenizers library
  std::size_t gap = 0;
  regex_.for_each_match(text, [&](std::span<const Regex::Range> groups) {
    const auto [begin, end] = groups.front();
    if (gap < begin) sink(gap, begin, false);
    sink(begin, end, true);
    gap = end;
  });
  if (gap < text.size()) sink(gap, text.size(), false);
}

}  // namespace keyscope::tokenizer
