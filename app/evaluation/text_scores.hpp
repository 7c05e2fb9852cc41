#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace keyscope::evaluation {

// How LongBench (arXiv 2308.14508) scores an answer in its English tasks: shares of 1, equal to those of its
// reference implementation (github.com/THUDM/LongBench, LongBench/metrics.py). A task takes the best over its
// right answers.
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

// 100 · (1 - d / (n + m)), rounded half to even, with d = n + m - 2 L and L the length of the longest common
// subsequence of the two texts' n and m code points: `fuzz.ratio` of fuzzywuzzy on python-Levenshtein. 100
// for equal texts, also empty ones. Takes n · m steps and memory for m numbers.
int edit_similarity(std::string_view first, std::string_view second);

// F1 of ROUGE-L on the level of summaries (Lin 2004, section 3.2), as PyPI's `rouge` 1.0.1 computes it:
// sentences end at full stops, words are what spaces part, and every word counts once. For each sentence of
// the reference, the words of its longest common subsequences with the sentences of the prediction are
// gathered; their number over the words of the reference is the recall, over those of the prediction the
// precision. 0 where either text has no sentence.
double rouge_l(std::string_view prediction, std::string_view reference);

// ASCII's white space.
constexpr bool is_white(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// What the metrics of question answering do to text, as Python's `str` and `re` do it: their reference
// implementations are written in Python. Ill-formed UTF-8 counts as U+FFFD.
// The text's code points.
std::u32string code_points(std::string_view text);

// `str.lower()`: by the full mappings of Unicode, of no language in particular.
std::u32string lowered(std::string_view text);

// Whether `str.split()` parts words there: Unicode's White_Space and the four ASCII separators.
bool is_space(char32_t character);

// Whether `\w` of `re` takes it: letters, numbers and the low line.
bool is_word_character(char32_t character);

// `str.split()`: what stands between white space.
std::vector<std::u32string> split_words(std::u32string_view text);

// `re.findall(r"\d+", text)`: the longest runs of decimal digits, of any script.
std::vector<std::u32string> find_numbers(std::u32string_view text);

}  // namespace keyscope::evaluation
