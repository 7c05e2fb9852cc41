#include "app/measures/answer.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"

namespace keyscope::measures {

namespace {

// Bytes [first, end) of the generated text, of which those before `differs` are right.
struct MarkedBytes {
  std::size_t first = 0, differs = 0, end = 0;
};

MarkedBytes compare(std::string_view text, std::string_view answer) {
  if (const std::size_t at = text.find(answer); at != std::string_view::npos)
    return {at, at + answer.size(), at + answer.size()};
  const std::size_t first = std::min(text.find_first_not_of(" \t\n"), text.size());
  const std::size_t end = std::min(first + answer.size(), text.size());
  const auto same = std::ranges::mismatch(text.substr(first, end - first), answer);
  return {first, first + static_cast<std::size_t>(same.in2 - answer.begin()), end};
}

}  // namespace

std::string right_answer(const recording::RecordingInfo& info) {
  try {
    const auto configuration = parse_json(info.provenance.configuration);
    const auto answer = configuration.is_object() ? configuration.find("answer") : configuration.end();
    if (answer != configuration.end() && answer->is_string()) return answer->get<std::string>();
  } catch (const Error&) {
    // Recordings may come from elsewhere, and hold no configuration.
  }
  return {};
}

bool is_answered(const recording::TokenText& generated, std::string_view answer) {
  return !answer.empty() && generated.text.find(answer) != std::string::npos;
}

std::vector<AnswerMark> mark_answer(const recording::TokenText& generated, std::string_view answer) {
  std::vector<AnswerMark> marks(generated.id.size(), AnswerMark::kNone);
  if (answer.empty() || marks.empty()) return marks;
  const MarkedBytes bytes = compare(generated.text, answer);
  for (std::size_t token = 0; token < marks.size(); ++token) {
    const auto first = static_cast<std::size_t>(generated.offset[token]);
    const auto end = static_cast<std::size_t>(generated.offset[token + 1]);
    if (end <= bytes.first || first >= bytes.end) continue;
    // A token that the two part in is wrong.
    const bool right = std::min(end, bytes.end) <= bytes.differs;
    marks[token] = right ? AnswerMark::kRight : AnswerMark::kWrong;
  }
  return marks;
}

}  // namespace keyscope::measures
