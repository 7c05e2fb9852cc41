#include "app/evaluation/ruler_lists.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <numbers>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace keyscope::evaluation {

namespace {

using TextList = std::vector<std::string>;

// Purposes of draws.
constexpr std::uint64_t kChainNames = 1, kChainPlaces = 2, kChainExample = 3;
constexpr std::uint64_t kListWords = 4, kListOrder = 5, kListExample = 6;
constexpr std::uint64_t kCodedWords = 7, kCodedOrder = 8;

constexpr std::size_t kHops = 4;
constexpr std::size_t kNameLetters = 5, kExampleNameLetters = 3;
constexpr std::int64_t kExampleTokens = 500;
constexpr std::size_t kExampleLines = 5;  // the example has a multiple of it

// So many letters from `first` on.
std::string drawn_letters(std::size_t n, char first, Draws& draws) {
  std::string text;
  for (std::size_t i = 0; i < n; ++i) text += static_cast<char>(first + static_cast<char>(draws.below(26)));
  return text;
}

TextList drawn_codes(std::size_t n, std::size_t n_letters, char first, Draws& draws) {
  TextList codes;
  std::set<std::string> seen{"VAR"};  // which every assignment begins with
  while (codes.size() < n)
    if (std::string code = drawn_letters(n_letters, first, draws); seen.insert(code).second)
      codes.push_back(std::move(code));
  return codes;
}

struct Chain {
  TextList names;
  std::string value;
};

Chain drawn_chain(std::size_t n_letters, Draws& draws) {
  Chain chain;
  chain.names = drawn_codes(kHops + 1, n_letters, 'A', draws);
  chain.value = fmt::format("{}", 10'000 + draws.below(89'999));
  return chain;
}

// The chain's assignments, in order, among so many lines of noise.
RulerText chain_text(const Chain& chain, std::size_t n_lines, Draws draws) {
  TextList lines(n_lines, std::string(kRulerNoise));
  std::vector<std::size_t> places = draws.different(chain.names.size(), n_lines);
  std::ranges::sort(places);
  for (std::size_t i = 0; i < places.size(); ++i)
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(places[i] + i),
                 i == 0 ? fmt::format("VAR {} = {}", chain.names[0], chain.value)
                        : fmt::format("VAR {} = VAR {} ", chain.names[i], chain.names[i - 1]));
  return {fmt::format("Memorize and track the chain(s) of variable assignment hidden in the following "
                      "text.\n\n{}\nQuestion: Find all variables that are assigned the value {} in the text "
                      "above.",
                      fmt::join(lines, "\n"), chain.value),
          fmt::format(" Answer: According to the chain(s) of variable assignment in the text above, {} "
                      "variables are assigned the value {}, they are: ",
                      chain.names.size(), chain.value),
          chain.names};
}

// With its answer, of as many lines as there is room for.
std::string chain_example(const RulerSample& sample) {
  Draws draws(sample.seed, kChainExample);
  const Chain chain = drawn_chain(kExampleNameLetters, draws);
  std::string example;
  for (std::size_t n = kExampleLines;; n += kExampleLines) {
    const RulerText text = chain_text(chain, n, draws);
    const std::string question = text.asked + text.answer_prefix;
    if (n > kExampleLines && std::ssize(sample.tokenizer.encode(question, true)) > kExampleTokens)
      return example;
    example = fmt::format("{} {}\n\n", question, fmt::join(text.outputs, " "));
  }
}

}  // namespace

GrowingPrompt ruler_chain(const RulerSample& sample) {
  Draws names(sample.seed, kChainNames);
  const Chain chain = drawn_chain(kNameLetters, names);
  const auto made = [chain, example = chain_example(sample), seed = sample.seed](std::size_t n) {
    RulerText text = chain_text(chain, n, Draws(seed, kChainPlaces));
    text.asked.insert(0, example);
    return text;
  };
  return {kHops + 1, static_cast<std::size_t>(sample.length), made};
}

namespace {

constexpr std::size_t kCommonWords = 10;
constexpr std::int64_t kShortLength = 4096;  // below it lists are shorter
constexpr std::string_view kListPrefix = " Answer: The top 10 words that appear most often in the list are:";

// How often words stand in a list.
struct ListRule {
  std::size_t common, others;
};

TextList counted_words() {
  TextList words;
  for (std::string_view left = words_txt; !left.empty();) {
    const std::size_t end = std::min(left.find('\n'), left.size());
    if (end > 0) words.emplace_back(left.substr(0, end));
    left.remove_prefix(std::min(left.size(), end + 1));
  }
  return words;
}

bool is_in(std::string_view part, std::string_view text) { return text.find(part) != text.npos; }

// In an order that is drawn: words of which none contains one of the first ten.
TextList drawn_list_words(Draws& draws) {
  static const TextList all = counted_words();
  TextList words;
  for (const std::size_t place : shuffled(all.size(), draws)) {
    const std::string& word = all[place];
    const auto common = std::span(words).first(std::min(words.size(), kCommonWords));
    const auto clashes = [&](const std::string& one) {
      return is_in(one, word) || (words.size() < kCommonWords && is_in(word, one));
    };
    if (std::ranges::none_of(common, clashes)) words.push_back(word);
  }
  return words;
}

std::string numbered(const TextList& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    fmt::format_to(std::back_inserter(text), "{}{}. {}", i == 0 ? "" : " ", i + 1, words[i]);
  return text;
}

// A list of the first n words, of which the first ten are the common ones.
std::string list_text(const TextList& words, std::size_t n, const ListRule& rule, Draws draws) {
  TextList entries;
  for (std::size_t i = 0; i < n; ++i)
    entries.insert(entries.end(), i < kCommonWords ? rule.common : rule.others, words[i]);
  TextList ordered;
  for (const std::size_t place : shuffled(entries.size(), draws)) ordered.push_back(entries[place]);
  return fmt::format(
      "Below is a numbered list of words. In these words, some appear more often than others. Memorize the "
      "ones that appear most often.\n{}\nQuestion: What are the 10 most common words in the above list?",
      numbered(ordered));
}

TextList common_of(const TextList& words) {
  return {words.begin(), words.begin() + static_cast<std::ptrdiff_t>(kCommonWords)};
}

}  // namespace

namespace {

GrowingPrompt common_words(std::uint64_t seed, bool is_short) {
  Draws example_draws(seed, kListExample), draws(seed, kListWords);
  const TextList shown = drawn_list_words(example_draws);
  const std::string example =
      list_text(shown, is_short ? 20 : 40, is_short ? ListRule{3, 1} : ListRule{10, 3}, example_draws) +
      fmt::format("{} {}\n", kListPrefix, numbered(common_of(shown)));
  const auto words = std::make_shared<const TextList>(drawn_list_words(draws));
  const auto made = [=, rule = is_short ? ListRule{6, 1} : ListRule{30, 3}](std::size_t n) {
    return RulerText{example + list_text(*words, n, rule, Draws(seed, kListOrder)), std::string(kListPrefix),
                     common_of(*words)};
  };
  return {kCommonWords + 1, words->size(), made};
}

// Whether even a short prompt of long lists would be as good as too long: by one that is the same for all
// samples, so that all of a length have lists of the same kind.
bool too_long(const RulerSample& sample) {
  constexpr std::uint64_t kAnySeed = 0;
  const GrowingPrompt growing = common_words(kAnySeed, false);
  const RulerText least = growing.made(growing.least);
  return 8 * std::ssize(sample.tokenizer.encode(least.asked + least.answer_prefix, true)) > 7 * sample.length;
}

}  // namespace

GrowingPrompt ruler_common_words(const RulerSample& sample) {
  return common_words(sample.seed, sample.length < kShortLength || too_long(sample));
}

namespace {

constexpr std::size_t kCodeLetters = 6;
constexpr std::int64_t kTokensPerCode = 50;  // of the length, for each that there is
constexpr std::int64_t kCodesAnswer = 50;    // tokens of the length that are generated
constexpr double kZeta = std::numbers::pi * std::numbers::pi / 6;
constexpr std::size_t kLeastCoded = 100;  // from where on the first five stand differently often

}  // namespace

GrowingPrompt ruler_frequent_words(const RulerSample& sample) {
  Draws draws(sample.seed, kCodedWords);
  const std::int64_t n_codes = std::max<std::int64_t>(5, (sample.length - kCodesAnswer) / kTokensPerCode);
  TextList codes = drawn_codes(static_cast<std::size_t>(n_codes), kCodeLetters, 'a', draws);
  codes.front() = "...";
  const auto made = [codes = std::move(codes), seed = sample.seed](std::size_t n) {
    TextList words;
    for (std::size_t k = 1; k <= codes.size(); ++k)
      words.insert(words.end(),
                   static_cast<std::size_t>(static_cast<double>(n) / static_cast<double>(k * k) / kZeta),
                   codes[k - 1]);
    std::string text;
    Draws order(seed, kCodedOrder);
    for (const std::size_t place : shuffled(words.size(), order))
      text.append(text.empty() ? "" : " ").append(words[place]);
    return RulerText{
        fmt::format(
            "Read the following coded text and track the frequency of each coded word. Find the three "
            "most frequently appeared coded words. {}\nQuestion: Do not provide any explanation. "
            "Please ignore the dots '....'. What are the three most frequently appeared words in the "
            "above coded text?",
            text),
        " Answer: According to the coded text above, the three most frequently appeared words are:",
        {codes.begin() + 1, codes.begin() + 4}};
  };
  return {kLeastCoded, static_cast<std::size_t>(4 * sample.length), made};
}

}  // namespace keyscope::evaluation
