#pragma once

#include <cstddef>
#include <string_view>

#include "app/evaluation/needle_prompt.hpp"
#include "app/evaluation/ruler_prompt.hpp"

namespace keyscope::evaluation {

// How needles differ from the published ones, which all say the same in the same words.
struct NeedleForms {
  bool paraphrased = false;    // each states its value in one of eight other ways; the question stays
  bool heterogeneous = false;  // numbers, words, uuids, dates, times and codes in one haystack

  bool plain() const { return !paraphrased && !heterogeneous; }
};

// Whether a task's needles are hidden in an essay.
bool is_in_essay(std::string_view niah_task);

// One of the eight `niah_…` tasks. Units are lines of noise, lines of other needles, or words of the essay.
// Keys and values are all different. With heterogeneous needles each of a haystack's is of another kind,
// three more are hidden where there would be one, and the question is for "values" where those asked for
// differ.
//   essay: for those in an essay, with more words than the length has tokens, its white space single spaces;
//   must outlive what is returned
GrowingPrompt ruler_needles(std::string_view niah_task, const RulerSample& sample, const NeedleForms& forms,
                            const Haystack& essay);

}  // namespace keyscope::evaluation
