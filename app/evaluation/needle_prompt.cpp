#include "app/evaluation/needle_prompt.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "app/evaluation/task_data.hpp"
#include "app/evaluation/text_scores.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

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
  return past - haystack.sentence_ends.begin();
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

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSentences = 1, kTurn = 2;  // purposes of draws

// Whether a word closes a sentence: its last character but quotes and brackets is . ! or ?
bool closes_sentence(std::string_view word) {
  for (bool stripped = true; stripped;) {
    stripped = false;
    for (const std::string_view closing : {"\"", "'", ")", "]", "”", "’", "_"})
      if (word.ends_with(closing)) {
        word.remove_suffix(closing.size());
        stripped = true;
      }
  }
  return word.ends_with('.') || word.ends_with('!') || word.ends_with('?');
}

constexpr auto kAdjectives = std::to_array<std::string_view>(
    {"old", "quiet", "young", "tall", "careful", "weary", "cheerful", "patient", "proud", "gentle", "stern",
     "curious", "clever", "honest", "lonely", "famous"});
constexpr auto kPeople = std::to_array<std::string_view>(
    {"farmer", "teacher", "sailor", "doctor", "painter", "soldier", "merchant", "gardener", "widow", "priest",
     "miller", "clerk", "baker", "shepherd", "judge", "servant"});
constexpr auto kDeeds = std::to_array<std::string_view>(
    {"carried", "found", "watched", "sold", "repaired", "remembered", "described", "forgot", "praised",
     "borrowed", "cleaned", "noticed", "admired", "buried", "kept", "lost"});
constexpr auto kThings = std::to_array<std::string_view>(
    {"lantern", "letter", "garden", "wagon", "clock", "bridge", "basket", "picture", "window", "coat", "boat",
     "table", "song", "horse", "chair", "mirror"});
constexpr auto kPlaces = std::to_array<std::string_view>(
    {"near the river", "behind the church", "in the valley", "at the market", "under the old oak",
     "beside the road", "in the kitchen", "on the hill", "outside the village", "by the harbour",
     "in the forest", "across the field"});
constexpr auto kTimes = std::to_array<std::string_view>({"In the morning", "After supper", "Before the rain",
                                                         "Late in the evening", "That winter",
                                                         "During the feast", "Long ago", "On the way home"});
constexpr auto kReasons = std::to_array<std::string_view>(
    {"because the weather was fine", "although nobody had asked", "while the others slept",
     "and said nothing more about it", "before the bells began to ring", "as everyone had expected",
     "but did not stay for long", "so that the children could see it"});

template <std::size_t n>
std::string_view one_of(const std::array<std::string_view, n>& words, Draws& draws) {
  return words[draws.below(n)];
}

std::string generated_sentence(Draws& draws) {
  const std::string subject = fmt::format("the {} {}", one_of(kAdjectives, draws), one_of(kPeople, draws));
  const std::string deed =
      fmt::format("{} the {} {}", one_of(kDeeds, draws), one_of(kThings, draws), one_of(kPlaces, draws));
  switch (draws.below(4)) {
    case 0:
      return fmt::format("{}, {} {}.", one_of(kTimes, draws), subject, deed);
    case 1:
      return fmt::format("The{} {} {}.", subject.substr(3), deed, one_of(kReasons, draws));
    case 2:
      return fmt::format("The{} {}, and the {} {} it too.", subject.substr(3), deed, one_of(kPeople, draws),
                         one_of(kDeeds, draws));
    default:
      return fmt::format("The{} {}.", subject.substr(3), deed);
  }
}

std::vector<fs::path> text_files(const fs::path& file_or_folder) {
  if (!fs::is_directory(file_or_folder)) return {file_or_folder};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(file_or_folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::ranges::sort(files);
  if (files.empty())
    throw FileError(fmt::format("{}: an empty folder; expected text files", file_or_folder.string()));
  return files;
}

}  // namespace

Haystack Haystack::first_words(std::size_t n) const {
  Haystack cut;
  if (n == 0) return cut;
  n = std::min(n, word_ends.size());
  cut.text = text.substr(0, word_ends[n - 1]);
  cut.word_ends.assign(word_ends.begin(), word_ends.begin() + static_cast<std::ptrdiff_t>(n));
  const auto past = std::ranges::upper_bound(sentence_ends, cut.text.size());
  cut.sentence_ends.assign(sentence_ends.begin(), past);
  if (cut.sentence_ends.empty() || cut.sentence_ends.back() < cut.text.size()) {
    while (!cut.text.empty() && std::string_view(",;:-").find(cut.text.back()) != std::string_view::npos)
      cut.text.pop_back();
    cut.text += '.';
    cut.word_ends.back() = cut.text.size();
    cut.sentence_ends.push_back(cut.text.size());
  }
  return cut;
}

Haystack make_haystack(std::string text) {
  Haystack haystack;
  for (std::size_t at = 0; at < text.size();) {
    while (at < text.size() && is_white(text[at])) ++at;
    const std::size_t first = at;
    while (at < text.size() && !is_white(text[at])) ++at;
    if (at == first) break;
    haystack.word_ends.push_back(at);
    if (closes_sentence(std::string_view(text).substr(first, at - first)))
      haystack.sentence_ends.push_back(at);
  }
  haystack.text = std::move(text);
  return haystack;
}

std::string generated_text(std::size_t n_bytes, std::uint64_t seed) {
  Draws draws(seed, kSentences);
  std::string text;
  while (text.size() < n_bytes) text.append(text.empty() ? "" : " ").append(generated_sentence(draws));
  return text;
}

std::string read_texts(const fs::path& file_or_folder) {
  std::string text;
  for (const fs::path& path : text_files(file_or_folder))
    text.append(text.empty() ? "" : "\n\n").append(read_text_file(path));
  if (make_haystack(text).sentence_ends.empty())
    throw FileError(
        fmt::format("{}: there is no sentence; expected text with full stops", file_or_folder.string()));
  return text;
}

std::string turned_text(const Haystack& text, std::size_t n_bytes, std::uint64_t seed) {
  Draws draws(seed, kTurn);
  std::size_t at = text.sentence_ends[draws.below(text.sentence_ends.size())];
  std::string turned;
  while (turned.size() < n_bytes) {
    std::string_view part = std::string_view(text.text).substr(at);
    if (turned.empty()) part.remove_prefix(std::min(part.size(), part.find_first_not_of(" \t\r\n")));
    turned += part;
    if (!turned.empty()) turned += "\n\n";
    at = 0;
  }
  return turned;
}

Haystack long_haystack(const std::string& text, std::int64_t n_tokens, std::uint64_t seed,
                       const tokenizer::Tokenizer& tokenizer) {
  const Haystack source = make_haystack(text);
  for (auto n_bytes = static_cast<std::size_t>(4 * n_tokens + 1000);; n_bytes *= 2) {
    Haystack haystack =
        make_haystack(text.empty() ? generated_text(n_bytes, seed) : turned_text(source, n_bytes, seed));
    if (std::ssize(tokenizer.encode(haystack.text, false)) > n_tokens) return haystack;
  }
}

namespace {

// Neither list has a word that is part of another, so that one answer cannot be found inside another's.
// clang-format off
constexpr std::array kCities = std::to_array<std::string_view>({
    "Accra", "Amsterdam", "Ankara", "Athens", "Auckland", "Baghdad", "Bangkok", "Barcelona", "Beijing",
    "Belgrade", "Bogota", "Boston", "Brisbane", "Brussels", "Budapest", "Cairo", "Caracas", "Casablanca",
    "Chicago", "Copenhagen", "Dakar", "Damascus", "Delhi", "Denver", "Dublin", "Florence", "Geneva",
    "Glasgow", "Hamburg", "Hanoi", "Havana", "Helsinki", "Houston", "Istanbul", "Jakarta", "Kabul",
    "Karachi", "Kinshasa", "Lagos", "Lahore", "Lima", "Lisbon", "Madrid", "Manila", "Melbourne", "Memphis",
    "Milan", "Montreal", "Mumbai", "Nairobi", "Osaka", "Oslo", "Ottawa", "Prague", "Quito", "Santos",
    "Seattle", "Seoul", "Singapore", "Sydney", "Tehran", "Tokyo", "Toronto", "Zurich",
});
constexpr std::array kNames = std::to_array<std::string_view>({
    "Aaron", "Abigail", "Adrian", "Agatha", "Aisha", "Albert", "Alfredo", "Alicia", "Amara", "Amelia",
    "Amina", "Anders", "Anita", "Antonio", "Arjun", "Astrid", "Aurora", "Axel", "Barbara", "Beatriz",
    "Benjamin", "Bertha", "Bianca", "Bjorn", "Boyd", "Brandon", "Brenda", "Bridget", "Bruno", "Calvin",
    "Camila", "Carlos", "Carmen", "Cedric", "Celeste", "Chandra", "Chloe", "Clara", "Clifford", "Clyde",
    "Connor", "Cyrus", "Daisy", "Damian", "Daphne", "Deborah", "Declan", "Deepak", "Delia", "Dexter",
    "Diego", "Dmitri", "Dolores", "Dorothy", "Douglas", "Duncan", "Dylan", "Eduardo", "Edwin", "Eileen",
    "Elodie", "Elsa", "Emilio", "Enrique", "Erika", "Esther", "Ethan", "Eugene", "Fatima", "Felipe",
    "Fiona", "Floyd", "Gareth", "Gemma", "Gerald", "Gideon", "Gilbert", "Gloria", "Gregory", "Greta",
    "Guido", "Gustavo", "Hannah", "Harold", "Harriet", "Hassan", "Hazel", "Hector", "Heidi", "Hiroshi",
    "Howard", "Hubert", "Imogen", "Ingrid", "Isaac", "Isadora", "Ivana", "Jasmine", "Javier", "Jennifer",
    "Jerome", "Joaquin", "Jocelyn", "Jorge", "Joyce", "Judith", "Julio", "Kaito", "Karim", "Keiko",
    "Kelvin", "Kenji", "Kiran", "Klara", "Kristof", "Kurt", "Lakshmi", "Lamar", "Lars", "Leandro",
    "Leilani", "Lennart", "Leroy", "Lorenzo", "Lucia", "Luther", "Magnus", "Malik", "Marcus", "Margot",
    "Marisol", "Marlene", "Matteo", "Maureen", "Melissa", "Mercedes", "Meredith", "Miguel", "Mildred",
    "Milton", "Miriam", "Mohammed", "Monica", "Morgan", "Nadia", "Naomi", "Nathan", "Nigel", "Nkechi",
    "Noelle", "Norman", "Octavio", "Olivia", "Omar", "Oscar", "Otto", "Pablo", "Paloma", "Pamela",
    "Patricia", "Percy", "Phoebe", "Priya", "Quentin", "Rachel", "Rafael", "Ramona", "Rashid", "Rebecca",
    "Reginald", "Renata", "Ricardo", "Rosalind", "Roxanne", "Rupert", "Samira", "Santiago", "Selma",
    "Sheila", "Silvia", "Simone", "Soren", "Stanley", "Stefan", "Sunita", "Sven", "Sybil", "Tamara",
    "Tariq", "Theodore", "Thelma", "Tobias",
});
// clang-format on

std::u32string_view without_outer_space(std::u32string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

bool is_control(char32_t character) {
  return character < U' ' || (character >= U'\x7F' && character < U'\xA0');
}

// A line's word, which is to stand in a sentence.
std::string checked_word(const std::string& line, const std::string& where) {
  const std::u32string characters = code_points(line);
  if (characters.find(kReplacementCharacter) != characters.npos) throw FileError(where + ": is no UTF-8");
  const std::u32string_view word = without_outer_space(characters);
  if (word.empty()) throw FileError(where + ": is blank; expected a word");
  if (const auto control = std::ranges::find_if(word, is_control); control != word.end())
    throw FileError(fmt::format("{}: has the control character U+{:04X}; expected a word without", where,
                                static_cast<std::uint32_t>(*control)));
  std::string text;
  for (const char32_t character : word) append_utf8(text, character);
  return text;
}

}  // namespace

std::span<const std::string_view> city_names() { return kCities; }
std::span<const std::string_view> first_names() { return kNames; }

Words words_of(const std::string& path, std::span<const std::string_view> embedded, bool skip_bad) {
  if (path.empty()) return {{embedded.begin(), embedded.end()}, {}};
  Words read;
  std::set<std::string> seen;
  const std::filesystem::path file = path;
  read.bad_rows =
      read_lines({&file, 1}, skip_bad, [&](const std::string& line, const std::string& where) {
        std::string word = checked_word(line, where);
        if (!seen.insert(word).second)
          throw FileError(fmt::format("{}: {} is there twice; expected every word once", where, word));
        read.words.push_back(std::move(word));
        return true;
      }).bad;
  return read;
}

}  // namespace keyscope::evaluation
