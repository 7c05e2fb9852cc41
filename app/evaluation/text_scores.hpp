#pragma once

// How LongBench (arXiv 2308.14508) scores an answer in its English tasks: shares of 1, equal to those of its
// reference implementation (github.com/THUDM/LongBench, LongBench/metrics.py). A task takes the best over its
// right answers.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace keyscope::evaluation {

// What SQuAD (arXiv 1606.05250) compares: in lower case, without ASCII punctuation and the articles a, an,
// the.
std::vector<std::u32string> normalised_words(std::string_view text);

// F1 of the normalised words, each counted as often as it stands: the tasks of question answering.
double token_f1(std::string_view prediction, std::string_view answer);

// The share of the prediction's numbers that are the answer: passage_count.
double number_share(std::string_view prediction, std::string_view answer);

// The share of the prediction's numbers that are N of the answer's first "Paragraph N": passage_retrieval_en.
//   throws InvalidInput where the answer names no paragraph
double paragraph_share(std::string_view prediction, std::string_view answer);

// One over the number of classes that the prediction names, if the answer is among them: trec. As in the
// reference, a class whose name is part of the answer's does not count, but for one that follows such a class
// directly.
double class_share(std::string_view prediction, std::string_view answer,
                   std::span<const std::string> classes);

// Edit similarity of the answer with the prediction's first line that has none of ` # //: lcc and
// repobench-p.
double code_similarity(std::string_view prediction, std::string_view answer);

}  // namespace keyscope::evaluation
