#include "app/evaluation/haystack.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/evaluation/draws.hpp"
#include "app/evaluation/text_file.hpp"

namespace keyscope::evaluation {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSentences = 1, kTurn = 2;  // purposes of draws

bool is_white(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

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

std::vector<fs::path> files_of(const fs::path& file_or_folder) {
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
  for (const fs::path& path : files_of(file_or_folder))
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

}  // namespace keyscope::evaluation
