#include "app/evaluation/longbench.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/evaluation/data_files.hpp"
#include "app/evaluation/json_rows.hpp"
#include "app/evaluation/longbench_prompt.hpp"
#include "app/evaluation/longbench_scores.hpp"

namespace keyscope::evaluation {
namespace {

// Turns rows into examples one after another.
class Collection {
 public:
  Collection(const LongBenchOptions& options, const capture::Model& model)
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
    if (model.tokenizer() == nullptr)
      throw FileError(fmt::format("{}: there is no tokenizer.json; expected one, since LongBench is text",
                                  model.folder().string()));
    return *model.tokenizer();
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
  Collection collection(options, model);
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
  using Json = nlohmann::ordered_json;
  return {{"max_tokens", options.max_tokens ? Json(*options.max_tokens) : Json()},
          {"cut", options.cut},
          {"chat", chat_word(options.chat)},
          {"rows", options.rows ? Json(*options.rows) : Json()}};
}

}  // namespace keyscope::evaluation
