#include "app/evaluation/longbench.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "app/evaluation/longbench_report.hpp"
#include "app/evaluation/task_data.hpp"
#include "app/evaluation/text_scores.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace keyscope::evaluation {

namespace {

// What is asked: all of the input, or, where that has a passage of its own, what follows its last
// "Question:".
std::string_view question_of(const LongBenchRow& row) {
  const std::size_t last = row.input.rfind("Question:");
  return std::string_view(row.input).substr(last == std::string::npos ? 0 : last);
}

// Those that may stand in the text: not what a judgement on it is.
std::vector<std::string> answers_of_text(const LongBenchRow& row) {
  std::vector<std::string> answers = row.answers;
  std::erase_if(answers, [](const std::string& answer) {
    const std::string word = lower_case(answer);
    return word == "yes" || word == "no" || word == "unanswerable";
  });
  return answers;
}

// Turns rows into examples one after another.
class LongBenchCollection {
 public:
  LongBenchCollection(const LongBenchOptions& options, const capture::Model& model)
      : options_(options), model_(model), encoder_(tokenizer_of(model), model.folder(), options.chat) {}

  void read(std::span<const std::filesystem::path> paths) {
    set_.bad =
        read_json_rows(paths, options_.skip_bad, [&](const nlohmann::json& row, const std::string& where) {
          const std::string dataset = longbench_dataset(row, options_.task, where);
          if (!has_enough(*find_longbench_task(dataset)))
            add(read_longbench_row(row, options_.task, where), where);
        }).bad;
  }

  LongBenchSet take() { return std::move(set_); }

 private:
  bool has_enough(const LongBenchTask& task) const {
    const auto found = n_rows_.find(task.name);
    return options_.rows && found != n_rows_.end() && found->second >= *options_.rows;
  }

  // The two benchmarks ask the same of other texts: a score over both would be neither's.
  void check_dataset(const LongBenchRow& row, const std::string& where) const {
    const auto found = datasets_.find(row.task->name);
    if (found != datasets_.end() && found->second != row.dataset)
      throw FileError(fmt::format(
          "{}: the row is of {}, and earlier ones are of {}: LongBench and LongBench-E are scored "
          "apart; expected rows of one of them, so evaluate their files one by one",
          where, row.dataset, found->second));
  }

  void add(LongBenchRow row, const std::string& where) {
    check_dataset(row, where);
    std::int64_t& n_rows = n_rows_[row.task->name];
    Example example;
    example.id =
        fmt::format("{}/{}", row.task->name, row.id.empty() ? fmt::format("row {}", n_rows + 1) : row.id);
    if (ids_.contains(example.id))
      throw FileError(fmt::format("{}: the same \"_id\" as on an earlier row of {}, which would count twice",
                                  where, row.task->name));
    example.group = example.id;
    const LongBenchPrompt prompt = prompt_of(row, where);
    example.prompt_ids = prompt.ids;
    example.answers = row.answers;
    if (row.task->metric == LongBenchMetric::kTokenF1)
      example.evidence = EvidenceFinder(*model_.tokenizer(), example.prompt_ids)
                             .of_answers(answers_of_text(row), WantedAnswers::kAny, question_of(row));
    example.continuation = continuation_of(*row.task);
    example.about = {{"task", row.task->name}, {"n_whole", prompt.n_whole}, {"cut", prompt.cut}};
    // trec is scored by them.
    if (!row.all_classes.empty()) example.about["all_classes"] = row.all_classes;
    datasets_.emplace(row.task->name, row.dataset);
    ids_.insert(example.id);
    ++n_rows;
    set_.n_cut += prompt.cut ? 1 : 0;
    row.context = {};
    set_.rows.push_back(std::move(row));
    set_.examples.push_back(std::move(example));
  }

  LongBenchPrompt prompt_of(const LongBenchRow& row, const std::string& where) const {
    const std::int64_t most = model_.config().context_length - row.task->max_new_tokens;
    if (most < 2)
      throw FileError(fmt::format("{}: {} asks for {} new tokens, and the model's context is {}", where,
                                  row.task->name, row.task->max_new_tokens, model_.config().context_length));
    const std::int64_t max_tokens = std::min(options_.max_tokens.value_or(most), most);
    const auto encode = [&](const std::string& text) {
      return row.task->chat ? encoder_.turn(text) : encoder_.plain(text);
    };
    const std::string text = longbench_text(*row.task, row.context, row.input);
    LongBenchPrompt prompt = longbench_prompt(*model_.tokenizer(), text, {max_tokens, most}, encode);
    if (prompt.cut && !options_.cut)
      throw FileError(fmt::format("{}: the prompt has {} tokens; expected at most {}", where, prompt.n_whole,
                                  max_tokens));
    return prompt;
  }

  capture::Continuation continuation_of(const LongBenchTask& task) const {
    capture::Continuation continuation{.max_new_tokens = task.max_new_tokens};
    if (!task.one_line) return continuation;
    const auto ids = model_.tokenizer()->encode("\n", false);
    if (!ids.empty()) continuation.end_ids = {ids.back()};
    continuation.never_empty = true;
    return continuation;
  }

  static const tokenizer::Tokenizer& tokenizer_of(const capture::Model& model) {
    return model.folder_tokenizer().require("LongBench is text");
  }

  const LongBenchOptions& options_;
  const capture::Model& model_;
  PromptEncoder encoder_;
  LongBenchSet set_;
  std::map<std::string_view, std::int64_t> n_rows_;
  std::map<std::string_view, std::string> datasets_;  // of the rows so far, by task
  std::set<std::string> ids_;
};

}  // namespace

LongBenchSet read_longbench(const LongBenchOptions& options, const capture::Model& model) {
  if (!options.task.empty() && find_longbench_task(options.task) == nullptr)
    throw UsageError("--task: " + no_longbench_task(options.task));
  LongBenchCollection collection(options, model);
  collection.read(data_files(options.data));
  return collection.take();
}

Scorer longbench_scorer(const LongBenchSet& set, const tokenizer::Tokenizer& tokenizer) {
  std::map<std::string, const LongBenchRow*> rows;
  for (std::size_t i = 0; i < set.rows.size(); ++i) rows.emplace(set.examples[i].id, &set.rows[i]);
  return [rows = std::move(rows), &tokenizer](const Example& example, const capture::Completion& completion) {
    const LongBenchRow& row = *rows.at(example.id);
    const std::string prediction = tokenizer.decode(completion.generated, true);
    return Scores{{"score", longbench_score(*row.task, prediction, row.answers, row.all_classes)}};
  };
}

nlohmann::ordered_json longbench_settings(const LongBenchOptions& options) {
  return {{"max_tokens", json_number(options.max_tokens)},
          {"cut", options.cut},
          {"chat", chat_word(options.chat)},
          {"rows", json_number(options.rows)}};
}

std::string longbench_text(const LongBenchTask& task, std::string_view context, std::string_view input) {
  std::string text;
  for (std::size_t at = 0; at < task.prompt.size();) {
    const std::size_t open = std::min(task.prompt.find('{', at), task.prompt.size());
    text += task.prompt.substr(at, open - at);
    if (open == task.prompt.size()) break;
    const std::size_t close = task.prompt.find('}', open);
    text += task.prompt.substr(open, close - open + 1) == "{context}" ? context : input;
    at = close + 1;
  }
  return text;
}

std::string without_middle(const tokenizer::Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                           std::int64_t max_tokens) {
  const auto half = static_cast<std::size_t>(max_tokens / 2);
  std::string text;
  // By halves: bytes of two cut characters must not make a third.
  for (const auto kept : {ids.first(half), ids.last(half)}) {
    std::string buffer;
    text += replace_invalid_utf8(tokenizer.decode(kept, true), buffer);
  }
  return text;
}

LongBenchPrompt longbench_prompt(const tokenizer::Tokenizer& tokenizer, std::string_view text,
                                 const LongBenchLimits& limits,
                                 const std::function<std::vector<std::int32_t>(const std::string&)>& encode) {
  const std::vector<std::int32_t> whole = tokenizer.encode(text, true);
  LongBenchPrompt prompt;
  prompt.n_whole = std::ssize(whole);
  std::string shown(text);
  for (std::int64_t left = limits.max_tokens;;) {
    if (std::ssize(whole) > left) {
      if (left < 2)
        throw InvalidInput(fmt::format(
            "the prompt has {} tokens, of which none fit: expected room for more than the {} that "
            "the model takes",
            whole.size(), limits.most_tokens));
      shown = without_middle(tokenizer, whole, left);
      prompt.cut = true;
    }
    prompt.ids = encode(shown);
    const std::int64_t excess = std::ssize(prompt.ids) - limits.most_tokens;
    if (excess <= 0) return prompt;
    left = std::min(left, std::ssize(whole)) - excess;
  }
}

namespace {

std::optional<std::int64_t> length_of(const nlohmann::json& row, const std::string& where) {
  if (!row.contains("length")) return std::nullopt;
  const nlohmann::json& length = row["length"];
  const auto words = json_integer(length, 0, std::numeric_limits<std::int64_t>::max());
  if (!words)
    throw FileError(
        fmt::format("{}: \"length\" is {}; expected a number of words", where, shown_value(length)));
  return words;
}

void check_answers(const LongBenchRow& row, const std::string& where) {
  if (row.answers.empty())
    throw FileError(fmt::format("{}: \"answers\" is empty; expected at least one text", where));
  if (row.task->metric == LongBenchMetric::kClassShare && row.all_classes.empty())
    throw FileError(
        fmt::format("{}: \"all_classes\" is empty; expected the names of the classes, which {} is scored by",
                    where, row.task->name));
  if (row.task->metric != LongBenchMetric::kParagraphShare) return;
  for (const std::string& answer : row.answers) try {
      paragraph_share("", answer);
    } catch (const InvalidInput& error) {
      throw FileError(fmt::format("{}: \"answers\": {}", where, error.what()));
    }
}

}  // namespace

std::string longbench_dataset(const nlohmann::json& row, std::string_view default_task,
                              const std::string& where) {
  std::string dataset = row.contains("dataset") || default_task.empty() ? text_field(row, "dataset", where)
                                                                        : std::string(default_task);
  if (find_longbench_task(dataset) == nullptr)
    throw FileError(fmt::format("{}: {}", where, no_longbench_task(dataset)));
  return dataset;
}

LongBenchRow read_longbench_row(const nlohmann::json& row, std::string_view default_task,
                                const std::string& where) {
  LongBenchRow read;
  read.dataset = longbench_dataset(row, default_task, where);
  read.task = find_longbench_task(read.dataset);
  read.id = row.contains("_id") ? text_field(row, "_id", where) : "";
  read.input = text_field(row, "input", where);
  read.context = text_field(row, "context", where);
  read.answers = texts_field(row, "answers", where);
  if (read.task->metric == LongBenchMetric::kClassShare)
    read.all_classes = texts_field(row, "all_classes", where);
  read.length = length_of(row, where);
  check_answers(read, where);
  return read;
}

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

constexpr std::string_view kReportSummary =
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
    {"gov_report", "summarization", kRougeL, 512, true, false, false, kReportSummary},
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
  names.reserve(kTasks.size());
  for (const LongBenchTask& task : kTasks) names.push_back(task.name);
  if (std::ranges::find(kChinese, dataset) != kChinese.end())
    return fmt::format(
        "the data set {} is Chinese, and LongBench scores Chinese by words, which takes a segmenter that is "
        "not here; expected an English one: {}",
        dataset, shown_list(names));
  return fmt::format("the data set {} is not known; expected one of: {}", shown(dataset), shown_list(names));
}

}  // namespace keyscope::evaluation
