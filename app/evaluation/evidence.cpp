#include "app/evaluation/evidence.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "app/evaluation/text_scores.hpp"

namespace keyscope::evaluation {
namespace {

// Also every byte of a character beyond ASCII.
bool is_word_part(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c & 0x80) != 0;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_white(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_white(text.back())) text.remove_suffix(1);
  return text;
}

// Ascending; those that overlap are one.
std::vector<TokenRange> joined(std::vector<TokenRange> ranges) {
  std::ranges::sort(ranges, {}, &TokenRange::first);
  std::vector<TokenRange> apart;
  for (const TokenRange& range : ranges) {
    if (!apart.empty() && range.first < apart.back().end)
      apart.back().end = std::max(apart.back().end, range.end);
    else
      apart.push_back(range);
  }
  return apart;
}

}  // namespace

std::vector<std::int32_t> Evidence::positions() const {
  std::vector<TokenRange> all = places;
  if (question) all.push_back(*question);
  std::vector<std::int32_t> positions;
  for (const TokenRange& range : joined(std::move(all)))
    for (std::int64_t token = range.first; token < range.end; ++token)
      positions.push_back(static_cast<std::int32_t>(token));
  return positions;
}

EvidenceFinder::EvidenceFinder(const tokenizer::Tokenizer& tokenizer,
                               std::span<const std::int32_t> prompt_ids)
    : prompt_(tokenizer.token_text(prompt_ids)) {}

// Tokens without text are passed over.
TokenRange EvidenceFinder::tokens_of(Bytes bytes) const {
  const auto token_at = [&](std::size_t byte) {
    return std::ranges::upper_bound(prompt_.offset, static_cast<std::int64_t>(byte)) -
           prompt_.offset.begin() - 1;
  };
  return {token_at(bytes.first), token_at(bytes.end - 1) + 1};
}

std::size_t EvidenceFinder::find_question(std::string_view question, Evidence& evidence) const {
  question = trimmed(question);
  const std::size_t at = question.empty() ? std::string::npos : prompt_.text.rfind(question);
  if (at == std::string::npos) return prompt_.text.size();
  evidence.question = {tokens_of({at, at + 1}).first, prompt_.size()};
  return at;
}

std::vector<EvidenceFinder::Bytes> EvidenceFinder::find_answer(std::string_view answer, Bytes within) const {
  answer = trimmed(answer);
  std::vector<Bytes> found;
  if (answer.empty()) return found;
  const std::string_view text = std::string_view(prompt_.text).substr(0, within.end);
  for (std::size_t at = text.find(answer, within.first); at != text.npos; at = text.find(answer, at + 1)) {
    const std::size_t end = at + answer.size();
    const bool begins = at == 0 || !is_word_part(text[at - 1]) || !is_word_part(text[at]);
    const bool ends = end == text.size() || !is_word_part(text[end]) || !is_word_part(text[end - 1]);
    if (begins && ends) found.push_back({at, end});
  }
  return found;
}

Evidence EvidenceFinder::of_texts(std::span<const std::string> texts, std::span<const std::string> answers,
                                  std::string_view question) const {
  Evidence evidence;
  const std::string_view before = std::string_view(prompt_.text).substr(0, find_question(question, evidence));
  std::vector<TokenRange> places, found;
  for (const std::string& text : texts) {
    const std::string_view wanted = trimmed(text);
    const std::size_t at = wanted.empty() ? before.npos : before.find(wanted);
    if (at == before.npos) return evidence;
    const Bytes bytes{at, at + wanted.size()};
    places.push_back(tokens_of(bytes));
    for (const std::string& answer : answers)
      for (const Bytes& within : find_answer(answer, bytes)) found.push_back(tokens_of(within));
  }
  evidence.places = joined(std::move(places));
  evidence.answers = joined(std::move(found));
  return evidence;
}

// From behind what ends the sentence before to what ends this one.
EvidenceFinder::Bytes EvidenceFinder::sentence_around(Bytes bytes, std::size_t end) const {
  const std::string_view text = std::string_view(prompt_.text).substr(0, end);
  const auto ends_at = [&](std::size_t at) {
    if (text[at] == '\n') return true;
    const bool mark = text[at] == '.' || text[at] == '!' || text[at] == '?';
    return mark && (at + 1 == text.size() || is_white(text[at + 1]));
  };
  while (bytes.first > 0 && !ends_at(bytes.first - 1)) --bytes.first;
  while (bytes.first < bytes.end && is_white(text[bytes.first])) ++bytes.first;
  if (ends_at(bytes.end - 1)) return bytes;  // "Washington D.C."
  while (bytes.end < text.size() && !ends_at(bytes.end)) ++bytes.end;
  if (bytes.end < text.size() && text[bytes.end] != '\n') ++bytes.end;
  return bytes;
}

Evidence EvidenceFinder::of_answers(std::span<const std::string> answers, WantedAnswers wanted,
                                    std::string_view question) const {
  Evidence evidence;
  const std::size_t end = find_question(question, evidence);
  std::vector<TokenRange> places, found;
  for (const std::string& answer : answers) {
    std::vector<TokenRange> sentences, here;
    for (const Bytes& bytes : find_answer(answer, {0, end})) {
      here.push_back(tokens_of(bytes));
      sentences.push_back(tokens_of(sentence_around(bytes, end)));
    }
    sentences = joined(std::move(sentences));
    if (sentences.empty() || sentences.size() > kMostPlaces) {
      if (wanted == WantedAnswers::kAll) return evidence;
      continue;
    }
    std::ranges::move(sentences, std::back_inserter(places));
    std::ranges::move(here, std::back_inserter(found));
  }
  evidence.places = joined(std::move(places));
  evidence.answers = joined(std::move(found));
  return evidence;
}

}  // namespace keyscope::evaluation
