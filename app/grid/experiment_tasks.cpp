#include "app/grid/experiment_tasks.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "app/evaluation/longbench.hpp"
#include "app/evaluation/math500.hpp"
#include "app/evaluation/niah.hpp"
#include "app/evaluation/phonebook.hpp"
#include "app/evaluation/ruler.hpp"
#include "app/evaluation/ruler_needles.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::grid {

namespace {

using adoption::Task;

// What a kind of task is made by.
struct Making {
  const ExperimentTask& described;
  const ReproductionOptions& options;
  const capture::Model& model;

  const tokenizer::Tokenizer& tokenizer() const {
    return model.folder_tokenizer().require("an experiment asks in text");
  }
  std::int64_t length(std::int64_t otherwise) const {
    if (options.length > 0) return options.length;
    return described.length > 0 ? described.length : otherwise;
  }
  std::int64_t samples(std::int64_t otherwise) const {
    if (options.samples > 0) return options.samples;
    return described.samples > 0 ? described.samples : otherwise;
  }
};

// Why it cannot be asked; empty where it was made.
using Make = std::string (*)(const Making&, AskedTask&);

std::string make_niah(const Making& making, AskedTask& asked) {
  evaluation::NiahTask niah;
  niah.lengths = {making.length(4096)};
  niah.depths = {10, 30, 50, 70, 90};
  if (!making.described.depths.empty()) niah.depths = making.described.depths;
  const auto n_depths = static_cast<std::int64_t>(niah.depths.size());
  niah.n_samples = std::max<std::int64_t>(1, (making.samples(100) + n_depths - 1) / n_depths);
  niah.n_distractors = making.described.distractors;
  niah.haystack_path = making.options.haystack;
  niah.max_new_tokens = making.described.max_new_tokens;
  asked.task.score = "recall";
  asked.task.settings = evaluation::niah_settings(niah);
  asked.task.examples =
      evaluation::niah_examples(niah, making.options.seed, making.model.config(), making.tokenizer())
          .examples;
  for (const evaluation::Example& example : asked.task.examples)
    asked.parts.push_back(fmt::format("{}", example.about.at("depth").get<double>()));
  asked.task.scorer = evaluation::score_lookup;
  return "";
}

// Books that are too long for the model are left out, the others asked.
std::string make_phonebook(const Making& making, AskedTask& asked) {
  evaluation::PhonebookTask book;
  book.entries = making.described.entries;
  if (book.entries.empty()) book.entries = {100};
  std::ranges::sort(book.entries);
  book.n_samples = making.samples(5);
  book.max_new_tokens = making.described.max_new_tokens;
  for (; asked.task.examples.empty(); book.entries.pop_back()) try {
      asked.task.settings = evaluation::phonebook_settings(book);
      asked.task.examples =
          evaluation::phonebook_examples(book, making.options.seed, making.model.config(), making.tokenizer())
              .examples;
    } catch (const UsageError& error) {
      if (book.entries.size() == 1) throw;
      asked.left_out = fmt::format("{} entries: {}", book.entries.back(), error.what());
    }
  for (const evaluation::Example& example : asked.task.examples)
    asked.parts.push_back(fmt::format("{}", example.about.at("entries").get<std::int64_t>()));
  asked.task.score = "exact";
  asked.task.scorer = evaluation::score_lookup;
  return "";
}

bool is_among(const std::vector<std::string>& parts, std::string_view part) {
  return parts.empty() || std::ranges::find(parts, part) != parts.end();
}

std::string make_longbench(const Making& making, AskedTask& asked) {
  if (making.options.longbench.empty()) return "it needs LongBench's rows; give --longbench FILE";
  evaluation::LongBenchOptions read;
  read.data = making.options.longbench;
  if (const std::int64_t n = making.samples(0); n > 0) read.rows = n;
  const auto set = std::make_shared<evaluation::LongBenchSet>(evaluation::read_longbench(read, making.model));
  for (std::size_t i = 0; i < set->rows.size(); ++i) {
    const std::string name(set->rows[i].task->name);
    if (!is_among(making.described.parts, name)) continue;
    asked.task.examples.push_back(set->examples[i]);
    asked.task.data_sets.push_back(name);
  }
  if (asked.task.examples.empty())
    return fmt::format("the files have no row of {}", fmt::join(making.described.parts, ", "));
  asked.parts = asked.task.data_sets;
  std::vector<std::string_view> missing;
  for (const evaluation::LongBenchTask& task : evaluation::longbench_tasks())
    if (is_among(making.described.parts, task.name) &&
        std::ranges::find(asked.parts, task.name) == asked.parts.end())
      missing.push_back(task.name);
  if (!missing.empty()) asked.left_out = fmt::format("the files have no row of {}", shown_list(missing));
  asked.task.score = "score";
  asked.task.settings = evaluation::longbench_settings(read);
  asked.task.scorer = evaluation::longbench_scorer(*set, making.tokenizer());
  asked.kept = set;
  return "";
}

std::string make_math500(const Making& making, AskedTask& asked) {
  if (making.options.math500.empty()) return "it needs MATH-500's rows; give --math500 FILE";
  evaluation::MathOptions read;
  read.data = making.options.math500;
  read.seed = making.options.seed;
  if (const std::int64_t n = making.samples(0); n > 0) read.rows = n;
  if (making.described.max_new_tokens > 0) read.max_new_tokens = making.described.max_new_tokens;
  read.samples = making.described.answers;
  read.temperature = making.described.temperature;
  read.top_p = making.described.top_p;
  asked.task.score = "flexible";
  asked.task.settings = evaluation::math_settings(read);
  asked.task.examples = evaluation::read_math(read, making.model).examples;
  asked.task.scorer = evaluation::math_scorer(making.tokenizer());
  return "";
}

std::string make_ruler(const Making& making, AskedTask& asked) {
  const ReproductionOptions& options = making.options;
  evaluation::RulerOptions read;
  read.tasks = making.described.parts;
  read.lengths = {making.length(4096)};
  read.samples = making.samples(50);
  read.haystack_path = options.haystack;
  read.squad = options.squad;
  read.hotpotqa = options.hotpotqa;
  read.seed = options.seed;
  asked.task.score = "score";
  asked.task.settings = evaluation::ruler_settings(read);
  asked.task.examples = evaluation::ruler_examples(read, making.model).examples;
  for (const evaluation::Example& example : asked.task.examples)
    asked.task.data_sets.push_back(example.about.at("task").get<std::string>());
  asked.parts = asked.task.data_sets;
  asked.task.scorer = evaluation::ruler_scorer(making.tokenizer());
  const bool has_questions = !options.squad.empty() && !options.hotpotqa.empty();
  const bool essays = options.haystack.empty() && std::ranges::any_of(asked.parts, evaluation::is_in_essay);
  if (essays || (read.tasks.empty() && !has_questions))
    asked.differs =
        "without RULER's essays and questions (--haystack, --squad, --hotpotqa) prompts are others";
  return "";
}

struct Kind {
  std::string_view name;
  Make make;
  std::vector<std::string> scores;  // of every answer, beside "empty"
};

const std::array kKinds{
    Kind{"niah", make_niah, {"recall", "exact"}}, Kind{"phonebook", make_phonebook, {"recall", "exact"}},
    Kind{"longbench", make_longbench, {"score"}},
    Kind{"math500", make_math500, {"exact", "flexible", "generated"}}, Kind{"ruler", make_ruler, {"score"}}};

// Adds to the scores whether an answer has no words.
evaluation::Scorer with_empty(evaluation::Scorer scorer) {
  return [scorer = std::move(scorer)](const evaluation::Example& example,
                                      const capture::Completion& completion) {
    evaluation::Scores scores = scorer(example, completion);
    const bool empty = completion.text.find_first_not_of(" \t\r\n") == std::string::npos;
    scores.emplace_back("empty", empty ? 1 : 0);
    return scores;
  };
}

}  // namespace

AskedTask ask_task(const ExperimentTask& described, const ReproductionOptions& options,
                   const capture::Model& model) {
  AskedTask asked{described, "", "", {}, {}};
  const auto kind = std::ranges::find(kKinds, described.kind, &Kind::name);
  if (kind == kKinds.end()) {
    std::vector<std::string_view> known;
    for (const Kind& each : kKinds) known.push_back(each.name);
    asked.cannot_run =
        fmt::format("the task \"{}\" is not known; there are {}", described.kind, fmt::join(known, ", "));
    return asked;
  }
  asked.scores = kind->scores;
  asked.scores.emplace_back("empty");
  try {
    asked.cannot_run = kind->make({described, options, model}, asked);
  } catch (const UsageError& error) {  // a length beyond the model's context, say
    asked.cannot_run = error.what();
  }
  if (!asked.cannot_run.empty()) return asked;
  asked.task.name = described.name;
  asked.task.scorer = with_empty(std::move(asked.task.scorer));
  if (!described.score.empty()) asked.task.score = described.score;
  asked.task.metric = asked.task.score;
  return asked;
}

}  // namespace keyscope::grid
