#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::evaluation {

// Tokens [first, end) of a prompt.
struct TokenRange {
  std::int64_t first = 0, end = 0;

  std::int64_t size() const { return end - first; }
  bool operator==(const TokenRange&) const = default;
};

// What of a prompt its answer stands on: a needle with the value that is asked for, say. Ranges are ascending
// and apart.
struct Evidence {
  std::vector<TokenRange> places = {};   // none: they are not known
  std::vector<TokenRange> answers = {};  // in those places, the right answers themselves, as far as found
  std::optional<TokenRange> question = {};

  // Every token of places and question, ascending.
  std::vector<std::int32_t> positions() const;
  bool operator==(const Evidence&) const = default;
};

// What is right: to say all answers, or any one of them.
enum class WantedAnswers { kAll, kAny };

// An answer that stands in more places than this has none that it depends on.
inline constexpr std::size_t kMostPlaces = 8;

// Finds texts in a prompt by the bytes that its tokens add to it. A token that a text shares with its
// neighbours belongs to it.
class EvidenceFinder {
 public:
  EvidenceFinder(const tokenizer::Tokenizer& tokenizer, std::span<const std::int32_t> prompt_ids);

  // The question where it stands last, from its first token to the prompt's end, and what the answer stands
  // on: these texts, each where it stands first before the question. Where one is not found, no places.
  Evidence of_texts(std::span<const std::string> texts, std::span<const std::string> answers,
                    std::string_view question) const;

  // The same of answers that nothing else is known of: the sentences, or lines, in which one of them stands
  // as whole words. One that stands nowhere, or in more than kMostPlaces, has none; where all answers are
  // wanted and one has none, no places.
  Evidence of_answers(std::span<const std::string> answers, WantedAnswers wanted,
                      std::string_view question) const;

 private:
  // Bytes [first, end) of the prompt's text.
  struct Bytes {
    std::size_t first, end;
  };

  TokenRange tokens_of(Bytes bytes) const;
  // Where an answer stands as whole words in these bytes.
  std::vector<Bytes> find_answer(std::string_view answer, Bytes within) const;
  Bytes sentence_around(Bytes bytes, std::size_t end) const;  // end: of what there may be of it
  // The question's place in the text; its end where there is none.
  std::size_t find_question(std::string_view question, Evidence& evidence) const;

  recording::TokenText prompt_;
};

}  // namespace keyscope::evaluation
