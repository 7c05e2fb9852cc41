#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/splitmix.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::evaluation {

// A text that needles are put into, with the places where it can be cut and opened, in bytes.
struct Haystack {
  std::string text;
  std::vector<std::size_t> word_ends;      // ascending, after each word with its punctuation
  std::vector<std::size_t> sentence_ends;  // ascending, among them: after . ! or ?, with quotes and brackets

  // The first n words. Where these end within a sentence, it is closed with a full stop.
  Haystack first_words(std::size_t n) const;
};

// Finds words and sentences.
Haystack make_haystack(std::string text);

// At least n_bytes of sentences from a small grammar, drawn by the seed: plain English, without a digit and
// without a capital letter but at the beginnings. Of a longer text of the same seed it is the beginning.
std::string generated_text(std::size_t n_bytes, std::uint64_t seed);

// A file's text, or those of all files in a folder, in the order of their names, an empty line between two.
//   throws FileError where it cannot be read, is no UTF-8 or has no sentence
std::string read_texts(const std::filesystem::path& file_or_folder);

// At least n_bytes of a text from a sentence on that the seed draws, begun again where it ends.
//   text: with one sentence at least
std::string turned_text(const Haystack& text, std::size_t n_bytes, std::uint64_t seed);

// More than n_tokens of a text as `turned_text` has it, or of generated sentences where it is empty.
Haystack long_haystack(const std::string& text, std::int64_t n_tokens, std::uint64_t seed,
                       const tokenizer::Tokenizer& tokenizer);

// A key with the value that is to be found.
struct Needle {
  std::string key, value;
};

// A needle in a haystack before anything is cut.
struct NeedleCase {
  Haystack haystack;                // with more tokens than the longest length
  Needle needle;                    // which is asked for
  std::vector<Needle> distractors;  // of the same form
  std::vector<double> places;       // [0, 1) for each of them: at which of the haystack's sentence ends
  std::string needle_template;      // "{key}" and "{value}" are filled in
  std::string question_template;    // likewise; the value is what is to follow
};

struct NeedlePrompt {
  std::string text;
  std::vector<std::int32_t> ids;
  std::size_t n_words = 0;           // of the haystack that is left
  std::int64_t needle_token = 0;     // tokens of the haystack alone before the needle
  std::int64_t haystack_tokens = 0;  // of all of it, as it is left
};

// The template `form` with its placeholders filled in; what is filled in is taken as it is, also where it has
// braces of its own.
std::string filled(std::string_view form, const Needle& needle);

// The sentence end where a needle goes: the last one at or before depth_percent of the haystack's tokens, 0
// for its beginning. Tokens up to a sentence end are those of the text up to there by itself, without special
// ones.
std::size_t needle_place(const Haystack& haystack, double depth_percent,
                         const tokenizer::Tokenizer& tokenizer);

// The longest prompt of at most `length` tokens, special ones, needles and question included: as many of the
// haystack's words as fit, the last sentence cut if need be. Distractors stand at other sentence ends than
// the needle, as long as there are such.
//   near: the number of words of a similar prompt, to look there first; 0: none
//   throws UsageError where the needles and the question alone are too long
NeedlePrompt needle_prompt(const NeedleCase& about, std::int64_t length, double depth_percent,
                           const tokenizer::Tokenizer& tokenizer, std::size_t near = 0);

// What examples are made of unless files say otherwise: keys of needles and of phone books. Those are the
// words that the demo model was trained to look up.
std::span<const std::string_view> city_names();
std::span<const std::string_view> first_names();

struct Words {
  std::vector<std::string> words;
  std::vector<std::string> bad_rows;  // that were left out, each naming file and line
};

// The words of a file, one a line, without white space at their ends; the embedded ones where its path is
// empty.
//   skip_bad: go on without a line that is there twice, is no UTF-8, has control characters or is blank
//   throws FileError where it cannot be read or has no line, and naming bad ones unless they are skipped
Words words_of(const std::string& path, std::span<const std::string_view> embedded, bool skip_bad);

// The seed of one sample, which is no other sample's, whatever the two seeds, but by chance.
constexpr std::uint64_t sample_seed_of(std::uint64_t seed, std::int64_t sample) {
  return analysis::splitmix(analysis::splitmix(seed) + static_cast<std::uint64_t>(sample));
}

// Numbers drawn one after another for one purpose, the same on every platform: SplitMix64's stream from a
// seed that was mixed with what tells this purpose from others.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t purpose)
      : seed_(analysis::splitmix(analysis::splitmix(seed) ^ purpose)) {}

  double unit() {
    return analysis::unit_interval(analysis::splitmix(seed_ + n_++ * analysis::kSplitmixStep));
  }
  // Of [0, n), n >= 1.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(unit() * static_cast<double>(n)); }

  // k different entries of [0, n), k <= n, in the order drawn.
  std::vector<std::size_t> different(std::size_t k, std::size_t n) {
    std::vector<std::size_t> all(n);
    for (std::size_t i = 0; i < n; ++i) all[i] = i;
    for (std::size_t i = 0; i < k; ++i) std::swap(all[i], all[i + below(n - i)]);
    all.resize(k);
    return all;
  }

  // So many decimal digits; the first may be 0.
  std::string digits(std::int64_t n) {
    std::string text;
    for (std::int64_t i = 0; i < n; ++i) text += static_cast<char>('0' + below(10));
    return text;
  }

 private:
  std::uint64_t seed_;
  std::uint64_t n_ = 0;
};

// Tokens that may be generated beyond those of the value that is asked for.
inline constexpr std::int64_t kRoomAfterAnswer = 8;

}  // namespace keyscope::evaluation
