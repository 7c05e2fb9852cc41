#include "capture/tokenizer/word_scanner.hpp"

#include <array>

#include "base/text.hpp"
#include "capture/tokenizer/characters.hpp"

namespace keyscope::tokenizer {
namespace {

// One character of a text: its classes and where the next one starts.
struct Character {
  unsigned classes = 0;  // 0 at the end of the text, and for symbols, controls, unassigned code points
  std::size_t end = 0;

  bool is(unsigned wanted) const { return (classes & wanted) != 0; }
};

Character character_at(std::string_view text, std::size_t at) {
  if (at >= text.size()) return {0, at};
  Character character;
  character.end = at;
  character.classes = character_classes(next_code_point(text, character.end));
  return character;
}

// The end of the longest run, from `at`, of characters in any of the wanted classes.
std::size_t run_end(std::string_view text, std::size_t at, unsigned wanted) {
  while (at < text.size()) {
    const Character character = character_at(text, at);
    if (!character.is(wanted)) break;
    at = character.end;
  }
  return at;
}

// [^\s\p{L}\p{N}]+, or with marks [^\s\p{L}\p{M}\p{N}]+
std::size_t other_run_end(std::string_view text, std::size_t at, unsigned unwanted) {
  while (at < text.size()) {
    const Character character = character_at(text, at);
    if (character.is(unwanted)) break;
    at = character.end;
  }
  return at;
}

// In any case; U+017F, the long s, is an s to (?i).
std::size_t letter_end(std::string_view text, std::size_t at, char letter, bool any_case) {
  if (at >= text.size()) return at;
  if (text[at] == letter || (any_case && text[at] == letter - 'a' + 'A')) return at + 1;
  if (any_case && letter == 's' && text.substr(at, 2) == "\u017F") return at + 2;
  return at;
}

// The end of 's, 't, 're, 've, 'm, 'll or 'd at `at`; `at` if there is none.
std::size_t contraction_end(std::string_view text, std::size_t at, bool any_case) {
  if (at + 1 >= text.size() || text[at] != '\'') return at;
  constexpr std::array<std::string_view, 7> kEndings{"s", "t", "re", "ve", "m", "ll", "d"};
  for (const std::string_view ending : kEndings) {
    std::size_t end = at + 1;
    std::size_t i = 0;
    for (; i < ending.size(); ++i) {
      const std::size_t next = letter_end(text, end, ending[i], any_case);
      if (next == end) break;
      end = next;
    }
    if (i == ending.size()) return end;
  }
  return at;
}

// [U]*[L]+ at `at`, where U is kUpperLike and L kLowerLike, as a backtracking matcher finds it; `at` if
// nowhere.
std::size_t cased_word_end(std::string_view text, std::size_t at) {
  std::size_t end = at;
  std::size_t last_shared = at;  // behind the last character of the U run that L would take as well
  while (end < text.size()) {
    const Character character = character_at(text, end);
    if (!character.is(kUpperLike)) break;
    end = character.end;
    if (character.is(kLowerLike)) last_shared = end;
  }
  const std::size_t lower_end = run_end(text, end, kLowerLike);
  return lower_end > end ? lower_end : last_shared;
}

// [U]+[L]* at `at`.
std::size_t capital_word_end(std::string_view text, std::size_t at) {
  const std::size_t end = run_end(text, at, kUpperLike);
  return end == at ? at : run_end(text, end, kLowerLike);
}

// [^\r\n\p{L}\p{N}]? and then a word; without that prefix where it takes all there is of the word.
template <typename WordEnd>
std::size_t prefixed_word_end(std::string_view text, std::size_t at, const Character& first,
                              WordEnd word_end) {
  if (!first.is(kNewline | kLetter | kNumber)) {
    const std::size_t end = word_end(text, first.end);
    if (end > first.end) return end;
  }
  return word_end(text, at);
}

std::size_t word_end(const WordRules& rules, std::string_view text, std::size_t at, const Character& first) {
  switch (rules.words) {
    case WordRules::Words::kAfterSpace: {
      if (first.is(kLetter)) return run_end(text, at, kLetter);
      const std::size_t end = text[at] == ' ' ? run_end(text, at + 1, kLetter) : at;
      return end > at + 1 ? end : at;
    }
    case WordRules::Words::kAfterAny:
      return prefixed_word_end(
          text, at, first, [](std::string_view t, std::size_t from) { return run_end(t, from, kLetter); });
    case WordRules::Words::kWithMarks:
      return prefixed_word_end(text, at, first, [](std::string_view t, std::size_t from) {
        return run_end(t, from, kLetter | kMark);
      });
    case WordRules::Words::kCased: {
      const std::size_t end = prefixed_word_end(text, at, first, cased_word_end);
      return end > at ? end : prefixed_word_end(text, at, first, capital_word_end);
    }
  }
  return at;
}

std::size_t number_end(const WordRules& rules, std::string_view text, std::size_t at,
                       const Character& first) {
  if (rules.most_digits == 0) {
    if (first.is(kNumber)) return run_end(text, at, kNumber);
    const std::size_t end = text[at] == ' ' ? run_end(text, at + 1, kNumber) : at;
    return end > at + 1 ? end : at;
  }
  for (int n = 0; n < rules.most_digits; ++n) {
    const Character character = character_at(text, at);
    if (!character.is(kNumber)) break;
    at = character.end;
  }
  return at;
}

// ` ?[^\s\p{L}\p{N}]+` and what it takes with it.
std::size_t punctuation_end(const WordRules& rules, std::string_view text, std::size_t at) {
  const unsigned unwanted =
      kSpace | kLetter | kNumber | (rules.words == WordRules::Words::kWithMarks ? kMark : 0U);
  const std::size_t start = text[at] == ' ' ? at + 1 : at;
  std::size_t end = other_run_end(text, start, unwanted);
  if (end == start) return at;
  while (end < text.size() && rules.after_punctuation.find(text[end]) != std::string_view::npos) ++end;
  return end;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ : up to the last line end; else all but the last space before a word; else all.
std::size_t space_end(const WordRules& rules, std::string_view text, std::size_t at) {
  std::size_t end = at;
  std::size_t last_start = at;
  std::size_t line_end = at;
  while (end < text.size()) {
    const Character character = character_at(text, end);
    if (!character.is(kSpace)) break;
    last_start = end;
    end = character.end;
    if (character.is(kNewline)) line_end = end;
  }
  if (rules.line_ends && line_end > at) return line_end;
  return end == text.size() || last_start == at ? end : last_start;
}

}  // namespace

std::size_t find_piece_end(const WordRules& rules, std::string_view text, std::size_t at) {
  using Contractions = WordRules::Contractions;
  const Character first = character_at(text, at);
  std::size_t end = at;
  if (rules.contractions == Contractions::kExact || rules.contractions == Contractions::kAnyCase) {
    end = contraction_end(text, at, rules.contractions == Contractions::kAnyCase);
    if (end > at) return end;
  }
  end = word_end(rules, text, at, first);
  if (end > at) return rules.contractions == Contractions::kSuffix ? contraction_end(text, end, true) : end;
  end = number_end(rules, text, at, first);
  if (end > at) return end;
  end = punctuation_end(rules, text, at);
  if (end > at) return end;
  return first.is(kSpace) ? space_end(rules, text, at) : first.end;
}

namespace {

class WordScanner : public SplitPattern {
 public:
  explicit WordScanner(const WordRules& rules) : rules_(rules) {}

  void find_all(std::string_view text, StretchSink sink) const override {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = find_piece_end(rules_, text, at);
      sink(at, end, true);
      at = end;
    }
  }

 private:
  WordRules rules_;
};

struct KnownPattern {
  std::string_view expression;
  WordRules rules;
};

constexpr auto kExact = WordRules::Contractions::kExact;
constexpr auto kAnyCase = WordRules::Contractions::kAnyCase;
constexpr auto kSuffix = WordRules::Contractions::kSuffix;
constexpr auto kNoContractions = WordRules::Contractions::kNone;
constexpr auto kAfterSpace = WordRules::Words::kAfterSpace;
constexpr auto kAfterAny = WordRules::Words::kAfterAny;
constexpr auto kWithMarks = WordRules::Words::kWithMarks;
constexpr auto kCased = WordRules::Words::kCased;

#define KEYSCOPE_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define KEYSCOPE_CASED_1 R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
#define KEYSCOPE_CASED_2 R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
#define KEYSCOPE_REST R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define KEYSCOPE_REST_SLASH R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"

constexpr std::array<KnownPattern, 10> kKnownPatterns{{
    // GPT-2, as released and in tiktoken's spelling
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     {kExact, kAfterSpace, 0, "", false}},
    {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     {kExact, kAfterSpace, 0, "", false}},
    // Llama 3; Qwen 2, 2.5 and 3; the same with up to two digits
    {KEYSCOPE_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)" KEYSCOPE_REST,
     {kAnyCase, kAfterAny, 3, "\r\n", true}},
    {KEYSCOPE_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)" KEYSCOPE_REST,
     {kAnyCase, kAfterAny, 1, "\r\n", true}},
    {KEYSCOPE_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,2}|)" KEYSCOPE_REST,
     {kAnyCase, kAfterAny, 2, "\r\n", true}},
    // cl100k in tiktoken's spelling (GPT-4): a single [\r\n] ends the same white space
    {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
     {kAnyCase, kAfterAny, 3, "\r\n", true}},
    // words with their combining marks (Qwen 3.5)
    {KEYSCOPE_CONTRACTIONS
     R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     {kAnyCase, kWithMarks, 1, "\r\n", true}},
    // o200k (GPT-4o and others), with and without the slash; Mistral's Tekken
    {KEYSCOPE_CASED_1 KEYSCOPE_CONTRACTIONS "?|" KEYSCOPE_CASED_2 KEYSCOPE_CONTRACTIONS
                                            R"(?|\p{N}{1,3}|)" KEYSCOPE_REST_SLASH,
     {kSuffix, kCased, 3, "\r\n/", true}},
    {KEYSCOPE_CASED_1 KEYSCOPE_CONTRACTIONS "?|" KEYSCOPE_CASED_2 KEYSCOPE_CONTRACTIONS
                                            R"(?|\p{N}{1,3}|)" KEYSCOPE_REST,
     {kSuffix, kCased, 3, "\r\n", true}},
    {KEYSCOPE_CASED_1 "|" KEYSCOPE_CASED_2 R"(|\p{N}|)" KEYSCOPE_REST_SLASH,
     {kNoContractions, kCased, 1, "\r\n/", true}},
}};

#undef KEYSCOPE_CONTRACTIONS
#undef KEYSCOPE_CASED_1
#undef KEYSCOPE_CASED_2
#undef KEYSCOPE_REST
#undef KEYSCOPE_REST_SLASH

}  // namespace

constexpr WordRules kGpt2Rules = kKnownPatterns[0].rules;

std::unique_ptr<SplitPattern> word_scanner_for(std::string_view expression) {
  for (const KnownPattern& known : kKnownPatterns)
    if (known.expression == expression) return std::make_unique<WordScanner>(known.rules);
  return nullptr;
}

}  // namespace keyscope::tokenizer
