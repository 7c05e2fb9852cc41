#include "app/evaluation/needle_prompt.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::evaluation {
namespace {

std::int64_t n_tokens(const tokenizer::Tokenizer& tokenizer, std::string_view text) {
  return std::ssize(tokenizer.encode(text, false));
}

// Which sentence end each distractor stands at, the next free one after that of its place; 0 is the
// beginning.
std::vector<std::size_t> distractor_ends(const NeedleCase& about, const Haystack& haystack,
                                         std::size_t needle_end) {
  const std::size_t n_ends = haystack.sentence_ends.size() + 1;
  std::set<std::size_t> taken{needle_end};
  std::vector<std::size_t> ends;
  for (const double place : about.places) {
    auto end = static_cast<std::size_t>(place * static_cast<double>(n_ends));
    for (std::size_t tried = 0; tried < n_ends && taken.contains(end); ++tried) end = (end + 1) % n_ends;
    taken.insert(end);
    ends.push_back(end);
  }
  return ends;
}

std::size_t byte_of(const Haystack& haystack, std::size_t end) {
  return end == 0 ? 0 : haystack.sentence_ends[end - 1];
}

// With a space to what stands beside it.
void insert_sentence(std::string& text, std::size_t at, const std::string& sentence) {
  std::string inserted = at > 0 ? " " : "";
  inserted += sentence;
  if (at == 0 && !text.empty()) inserted += ' ';
  text.insert(at, inserted);
}

NeedlePrompt assemble(const NeedleCase& about, std::size_t n_words, double depth_percent,
                      const tokenizer::Tokenizer& tokenizer) {
  const Haystack haystack = about.haystack.first_words(n_words);
  const std::size_t needle_end = needle_place(haystack, depth_percent, tokenizer);
  std::vector<std::pair<std::size_t, const Needle*>> sentences{{needle_end, &about.needle}};
  const auto ends = distractor_ends(about, haystack, needle_end);
  for (std::size_t i = 0; i < ends.size(); ++i) sentences.emplace_back(ends[i], &about.distractors[i]);
  std::ranges::stable_sort(sentences, std::greater(), &std::pair<std::size_t, const Needle*>::first);
  NeedlePrompt prompt;
  prompt.text = haystack.text;
  for (const auto& [end, needle] : sentences)
    insert_sentence(prompt.text, byte_of(haystack, end), filled(about.needle_template, *needle));
  prompt.text += filled(about.question_template, about.needle);
  prompt.ids = tokenizer.encode(prompt.text, true);
  prompt.n_words = n_words;
  prompt.needle_token = n_tokens(tokenizer, haystack.text.substr(0, byte_of(haystack, needle_end)));
  prompt.haystack_tokens = n_tokens(tokenizer, haystack.text);
  return prompt;
}

}  // namespace

std::string filled(std::string_view form, const Needle& needle) {
  static constexpr std::string_view kKey = "{key}", kValue = "{value}";
  std::string text;
  while (!form.empty()) {
    const bool is_key = form.starts_with(kKey), is_value = form.starts_with(kValue);
    if (is_key) text += needle.key;
    if (is_value) text += needle.value;
    if (!is_key && !is_value) text += form.front();
    form.remove_prefix(is_key ? kKey.size() : is_value ? kValue.size() : 1);
  }
  return text;
}

std::size_t needle_place(const Haystack& haystack, double depth_percent,
                         const tokenizer::Tokenizer& tokenizer) {
  // In hundredths of a token: whole percents of whole tokens are whole numbers, which doubles have exactly.
  const double limit = depth_percent * static_cast<double>(n_tokens(tokenizer, haystack.text));
  const auto past = std::ranges::partition_point(haystack.sentence_ends, [&](std::size_t end) {
    return 100 * static_cast<double>(n_tokens(tokenizer, haystack.text.substr(0, end))) <= limit;
  });
  return static_cast<std::size_t>(past - haystack.sentence_ends.begin());
}

// First by halving, from twice the distance of the last try around `near`; the rest word by word, since a
// needle's place, and with it a token or two, may change with the haystack.
NeedlePrompt needle_prompt(const NeedleCase& about, std::int64_t length, double depth_percent,
                           const tokenizer::Tokenizer& tokenizer, std::size_t near) {
  const auto made = [&](std::size_t n_words) { return assemble(about, n_words, depth_percent, tokenizer); };
  const auto fits = [&](const NeedlePrompt& prompt) { return std::ssize(prompt.ids) <= length; };
  std::size_t low = 0, high = about.haystack.word_ends.size();
  if (near > 0) {
    low = near - std::min<std::size_t>(near, 2);
    high = std::min(high, near + 2);
    if (!fits(made(low))) low = 0;
  }
  while (low < high) {
    const std::size_t middle = low + (high - low + 1) / 2;
    if (fits(made(middle)))
      low = middle;
    else
      high = middle - 1;
  }
  NeedlePrompt best = made(low);
  while (!fits(best) && low > 0) best = made(--low);
  if (!fits(best))
    throw UsageError(
        fmt::format("--length {}: the needles and the question alone are {} tokens; expected more than that",
                    length, best.ids.size()));
  while (low < about.haystack.word_ends.size()) {
    NeedlePrompt longer = made(low + 1);
    if (!fits(longer)) break;
    best = std::move(longer);
    ++low;
  }
  return best;
}

}  // namespace keyscope::evaluation
