#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// The right answer to a recording's prompt, as its capture was told; empty where it was not.
std::string right_answer(const recording::RecordingInfo& info);

// Whether the answer stands in what a run generated. Nothing answers an empty answer.
bool is_answered(const recording::TokenText& generated, std::string_view answer);

enum class AnswerMark { kNone, kRight, kWrong };

// What each generated token is beside the answer: right where it holds a part of the answer, wherever that
// stands; in a text without it, right as far as the text, but for spaces in front, begins as the answer does,
// and wrong from there on to the answer's length. Nothing else is marked.
//   returns (generated.size())
std::vector<AnswerMark> mark_answer(const recording::TokenText& generated, std::string_view answer);

}  // namespace keyscope::measures
