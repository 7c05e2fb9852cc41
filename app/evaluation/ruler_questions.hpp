#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "app/evaluation/ruler_prompt.hpp"

namespace keyscope::evaluation {

// Questions over documents, of which some are needed for the answer.
struct Questions {
  struct Question {
    std::string text;
    std::vector<std::string> answers;    // any of which is right, each once
    std::vector<std::size_t> own, near;  // documents that are always shown, and those that are shown first
  };
  std::vector<std::string> documents;  // each once, in the order of their texts
  std::vector<Question> all;           // those that have an answer, in the file's order
};

// `qa_1`: a file of SQuAD (arXiv 1606.05250, 1806.03822), such as dev-v2.0.json. A document is a paragraph,
// and near ones are the article's others.
//   throws FileError naming file, place and field
Questions read_squad(const std::filesystem::path& path);

// `qa_2`: a file of HotpotQA (arXiv 1809.09600), such as hotpot_dev_distractor_v1.json. A document is a title
// with its sentences; all ten of a question's are its own.
//   throws FileError as above
Questions read_hotpotqa(const std::filesystem::path& path);

// Units are documents, in an order that is drawn.
//   questions: must outlive what is returned
GrowingPrompt ruler_question(const RulerSample& sample, const Questions& questions, std::size_t which);

}  // namespace keyscope::evaluation
