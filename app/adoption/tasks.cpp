#include "app/adoption/tasks.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.hpp"
#include "app/evaluation/drawn_words.hpp"
#include "app/evaluation/longbench.hpp"
#include "app/evaluation/math500.hpp"
#include "app/evaluation/niah.hpp"
#include "app/evaluation/perplexity.hpp"
#include "app/evaluation/phonebook.hpp"

namespace keyscope::adoption {
namespace {

using Paths = std::vector<std::filesystem::path>;

constexpr int kSizes = 4;                   // of what is made up: the largest and its halves
constexpr std::int64_t kLeastTokens = 128;  // of a prompt with needles, unless the longest is shorter
constexpr std::int64_t kLeastEntries = 4;   // of a phone book
constexpr std::array kDepths{5.0, 25.0, 50.0, 75.0, 95.0};
constexpr std::int64_t kDistractors = 3;
constexpr std::int64_t kTokensPerEntry = 24;  // of a phone book, more than any tokenizer needs

// Entries of the largest phone book: as many as fit, and as there are names.
std::int64_t most_entries(std::int64_t n_tokens) {
  return std::clamp(n_tokens / kTokensPerEntry, kLeastEntries, std::ssize(evaluation::first_names()));
}

// A task's name and, where it needs them, its files.
struct Kind {
  std::string_view name;
  Paths TaskListOptions::*files = nullptr;
  std::string_view option;
};

constexpr std::array<Kind, 6> kKinds{{{"niah", nullptr, ""},
                                      {"niah-distractors", nullptr, ""},
                                      {"phonebook", nullptr, ""},
                                      {"perplexity", &TaskListOptions::texts, "--text"},
                                      {"longbench", &TaskListOptions::longbench, "--longbench"},
                                      {"math500", &TaskListOptions::math500, "--math500"}}};

bool has_files(const Kind& kind, const TaskListOptions& options) {
  return kind.files != nullptr && !(options.*kind.files).empty();
}

// Those asked for; if none are, those that can be asked with what was given.
std::vector<std::string_view> asked_names(const TaskListOptions& options) {
  std::vector<std::string_view> names;
  for (const Kind& kind : kKinds) {
    const auto n = std::ranges::count(options.names, kind.name);
    if (n > 1) throw UsageError(fmt::format("task {}: given twice", kind.name));
    if (n == 1 && kind.files != nullptr && !has_files(kind, options))
      throw UsageError(fmt::format("task {}: needs {} FILE", kind.name, kind.option));
    if (n == 0 && !options.names.empty() && has_files(kind, options))
      throw UsageError(fmt::format("{}: given, but the task {} is not asked for", kind.option, kind.name));
    if (n == 1 || (options.names.empty() && (kind.files == nullptr || has_files(kind, options))))
      names.push_back(kind.name);
  }
  for (const std::string& name : options.names)
    if (std::ranges::find(kKinds, name, &Kind::name) == kKinds.end())
      throw UsageError(
          fmt::format("task {}: unknown; expected one of {}", name, fmt::join(task_names(), ", ")));
  return names;
}

std::int64_t longest(const TaskListOptions& options, const capture::Model& model) {
  return options.length > 0 ? options.length : model.config().context_length / 2;
}

// The largest and its halves, ascending, none of which is below the least.
std::vector<std::int64_t> halved(std::int64_t most, std::int64_t least) {
  std::vector<std::int64_t> all{most};
  while (std::ssize(all) < kSizes && all.back() / 2 >= least) all.push_back(all.back() / 2);
  std::ranges::reverse(all);
  return all;
}

// How many samples of so many examples each give the number wanted, or a few more.
std::int64_t samples_for(std::int64_t examples, std::size_t each) {
  const auto n = static_cast<std::int64_t>(each);
  return std::max<std::int64_t>(1, (examples + n - 1) / n);
}

const tokenizer::Tokenizer& tokenizer_of(const capture::Model& model) {
  if (model.tokenizer() == nullptr)
    throw UsageError("the model has no tokenizer.json; tasks are asked as text");
  return *model.tokenizer();
}

Task niah_task(std::string_view name, std::int64_t n_distractors, const TaskListOptions& options,
               const capture::Model& model) {
  evaluation::NiahTask niah;
  niah.lengths = halved(longest(options, model), kLeastTokens);
  niah.depths.assign(kDepths.begin(), kDepths.end());
  niah.n_samples = samples_for(options.examples, niah.lengths.size() * niah.depths.size());
  niah.n_distractors = n_distractors;
  Task task;
  task.name = name;
  task.metric = task.score = "recall";
  task.settings = evaluation::niah_settings(niah);
  task.examples = evaluation::niah_examples(niah, options.seed, model.config(), tokenizer_of(model)).examples;
  task.scorer = evaluation::score_lookup;
  return task;
}

Task phonebook_task(const TaskListOptions& options, const capture::Model& model) {
  evaluation::PhonebookTask book;
  book.entries = halved(most_entries(longest(options, model)), kLeastEntries);
  book.n_samples = samples_for(options.examples, book.entries.size());
  Task task;
  task.name = "phonebook";
  task.metric = task.score = "exact";
  task.settings = evaluation::phonebook_settings(book);
  task.examples =
      evaluation::phonebook_examples(book, options.seed, model.config(), tokenizer_of(model)).examples;
  task.scorer = evaluation::score_lookup;
  return task;
}

}  // namespace

// What scorers refer to: at places that stay.
struct TaskList::Sets {
  std::deque<evaluation::PerplexitySet> texts;
  std::deque<evaluation::LongBenchSet> longbench;
};

std::vector<std::string_view> task_names() {
  std::vector<std::string_view> names;
  names.reserve(kKinds.size());
  for (const Kind& kind : kKinds) names.push_back(kind.name);
  return names;
}

TaskList::TaskList(const TaskListOptions& options, const capture::Model& model)
    : sets_(std::make_unique<Sets>()) {
  for (const std::string_view name : asked_names(options)) add(name, options, model);
}

TaskList::~TaskList() = default;

void TaskList::add(std::string_view name, const TaskListOptions& options, const capture::Model& model) {
  if (name == "niah") return tasks_.push_back(niah_task(name, 0, options, model));
  if (name == "niah-distractors") return tasks_.push_back(niah_task(name, kDistractors, options, model));
  if (name == "phonebook") return tasks_.push_back(phonebook_task(options, model));
  Task task;
  task.name = name;
  if (name == "perplexity") {
    evaluation::PerplexityOptions read;
    read.texts = options.texts;
    read.length = longest(options, model);
    read.windows = samples_for(options.examples, options.texts.size());
    const auto& set = sets_->texts.emplace_back(evaluation::read_texts(read, model));
    task.metric = "perplexity";
    task.score = "nll_nats";
    task.kind = TaskKind::kLikelihood;
    task.settings = evaluation::perplexity_settings(read);
    task.examples = set.examples;
    task.scorer = evaluation::perplexity_scorer(set);
  } else if (name == "longbench") {
    evaluation::LongBenchOptions read;
    read.data = options.longbench;
    read.rows = options.examples;
    read.skip_bad = options.skip_bad;
    const auto& set = sets_->longbench.emplace_back(evaluation::read_longbench(read, model));
    task.metric = task.score = "score";
    task.settings = evaluation::longbench_settings(read);
    task.examples = set.examples;
    task.bad_rows = set.bad;
    for (const evaluation::LongBenchRow& row : set.rows) task.data_sets.emplace_back(row.task->name);
    task.scorer = evaluation::longbench_scorer(set, tokenizer_of(model));
  } else {
    evaluation::MathOptions read;
    read.data = options.math500;
    read.rows = options.examples;
    read.skip_bad = options.skip_bad;
    read.seed = options.seed;
    task.metric = "flexible match";
    task.score = "flexible";
    task.settings = evaluation::math_settings(read);
    evaluation::MathSet set = evaluation::read_math(read, model);
    task.examples = std::move(set.examples);
    task.bad_rows = std::move(set.bad);
    task.scorer = evaluation::math_scorer(tokenizer_of(model));
  }
  tasks_.push_back(std::move(task));
}

}  // namespace keyscope::adoption
