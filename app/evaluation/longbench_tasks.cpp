#include "app/evaluation/longbench_tasks.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "capture/model/strict_json.hpp"

namespace keyscope::evaluation {
namespace {

constexpr std::string_view kStory =
    "You are given a story, which can be either a novel or a movie script, and a question. Answer the "
    "question asconcisely as you can, using a single phrase if possible. Do not provide any "
    "explanation.\n\nStory: {context}\n\nNow, answer the question based on the story asconcisely as you can, "
    "using a single phrase if possible. Do not provide any explanation.\n\nQuestion: {input}\n\nAnswer:";

constexpr std::string_view kArticle =
    "You are given a scientific article and a question. Answer the question as concisely as you can, using a "
    "single phrase or sentence if possible. If the question cannot be answered based on the information in "
    "the article, write \"unanswerable\". If the question is a yes/no question, answer \"yes\", \"no\", or "
    "\"unanswerable\". Do not provide any explanation.\n\nArticle: {context}\n\n Answer the question based "
    "on "
    "the above article as concisely as you can, using a single phrase or sentence if possible. If the "
    "question cannot be answered based on the information in the article, write \"unanswerable\". If the "
    "question is a yes/no question, answer \"yes\", \"no\", or \"unanswerable\". Do not provide any "
    "explanation.\n\nQuestion: {input}\n\nAnswer:";

constexpr std::string_view kText =
    "Read the following text and answer briefly.\n\n{context}\n\nNow, answer the following question based on "
    "the above text, only give me the answer and do not output any other words.\n\nQuestion: "
    "{input}\nAnswer:";

constexpr std::string_view kPassages =
    "Answer the question based on the given passages. Only give me the answer and do not output any other "
    "words.\n\nThe following are given passages.\n{context}\n\nAnswer the question based on the given "
    "passages. Only give me the answer and do not output any other words.\n\nQuestion: {input}\nAnswer:";

constexpr std::string_view kReport =
    "You are given a report by a government agency. Write a one-page summary of the "
    "report.\n\nReport:\n{context}\n\nNow, write a one-page summary of the report.\n\nSummary:";

constexpr std::string_view kMeeting =
    "You are given a meeting transcript and a query containing a question or instruction. Answer the query "
    "in one or more sentences.\n\nTranscript:\n{context}\n\nNow, answer the query based on the above meeting "
    "transcript in one or more sentences.\n\nQuery: {input}\nAnswer:";

constexpr std::string_view kNews =
    "You are given several news passages. Write a one-page summary of all news. "
    "\n\nNews:\n{context}\n\nNow, write a one-page summary of all the news.\n\nSummary:";

constexpr std::string_view kQuestionType =
    "Please determine the type of the question below. Here are some examples of "
    "questions.\n\n{context}\n{input}";

constexpr std::string_view kTrivia =
    "Answer the question based on the given passage. Only give me the answer and do not output any other "
    "words. The following are some examples.\n\n{context}\n\n{input}";

constexpr std::string_view kDialogue =
    "Summarize the dialogue into a few short sentences. The following are some "
    "examples.\n\n{context}\n\n{input}";

constexpr std::string_view kPassageCount =
    "There are some paragraphs below sourced from Wikipedia. Some of them may be duplicates. Please "
    "carefully "
    "read these paragraphs and determine how many unique paragraphs there are after removing duplicates. In "
    "other words, how many non-repeating paragraphs are there in total?\n\n{context}\n\nPlease enter the "
    "final count of unique paragraphs after removing duplicates. The output format should only contain the "
    "number, such as 1, 2, 3, and so on.\n\nThe final answer is: ";

constexpr std::string_view kPassageRetrieval =
    "Here are 30 paragraphs from Wikipedia, along with an abstract. Please determine which paragraph the "
    "abstract is from.\n\n{context}\n\nThe following is an abstract.\n\n{input}\n\nPlease enter the number "
    "of the paragraph that the abstract is from. The answer format must be like \"Paragraph 1\", \"Paragraph "
    "2\", etc.\n\nThe answer is: ";

constexpr std::string_view kCode = "Please complete the code given below. \n{context}Next line of code:\n";

constexpr std::string_view kRepository =
    "Please complete the code given below. \n{context}{input}Next line of code:\n";

using enum LongBenchMetric;

// Chat, first line only, one line.
constexpr std::array<LongBenchTask, 16> kTasks{{
    {"narrativeqa", "single-document QA", kTokenF1, 128, true, false, false, kStory},
    {"qasper", "single-document QA", kTokenF1, 128, true, false, false, kArticle},
    {"multifieldqa_en", "single-document QA", kTokenF1, 64, true, false, false, kText},
    {"hotpotqa", "multi-document QA", kTokenF1, 32, true, false, false, kPassages},
    {"2wikimqa", "multi-document QA", kTokenF1, 32, true, false, false, kPassages},
    {"musique", "multi-document QA", kTokenF1, 32, true, false, false, kPassages},
    {"gov_report", "summarization", kRougeL, 512, true, false, false, kReport},
    {"qmsum", "summarization", kRougeL, 512, true, false, false, kMeeting},
    {"multi_news", "summarization", kRougeL, 512, true, false, false, kNews},
    {"trec", "few-shot learning", kClassShare, 64, false, true, false, kQuestionType},
    {"triviaqa", "few-shot learning", kTokenF1, 32, false, true, false, kTrivia},
    {"samsum", "few-shot learning", kRougeL, 128, false, true, true, kDialogue},
    {"passage_count", "synthetic", kNumberShare, 32, true, false, false, kPassageCount},
    {"passage_retrieval_en", "synthetic", kParagraphShare, 32, true, false, false, kPassageRetrieval},
    {"lcc", "code", kCodeSimilarity, 64, false, false, false, kCode},
    {"repobench-p", "code", kCodeSimilarity, 64, false, false, false, kRepository},
}};

constexpr std::array<std::string_view, 5> kChinese{"multifieldqa_zh", "dureader", "vcsum", "lsht",
                                                   "passage_retrieval_zh"};

}  // namespace

std::span<const LongBenchTask> longbench_tasks() { return kTasks; }

const LongBenchTask* find_longbench_task(std::string_view dataset) {
  if (dataset.ends_with("_e")) dataset.remove_suffix(2);
  const auto* const found = std::ranges::find(kTasks, dataset, &LongBenchTask::name);
  return found == kTasks.end() ? nullptr : found;
}

std::string no_longbench_task(std::string_view dataset) {
  std::vector<std::string_view> names;
  for (const LongBenchTask& task : kTasks) names.push_back(task.name);
  if (std::ranges::find(kChinese, dataset) != kChinese.end())
    return fmt::format(
        "the data set {} is Chinese, and LongBench scores Chinese by words, which takes a segmenter that is "
        "not here; expected an English one: {}",
        dataset, fmt::join(names, ", "));
  return fmt::format("the data set {} is not known; expected one of: {}", capture::shown(dataset),
                     fmt::join(names, ", "));
}

}  // namespace keyscope::evaluation
