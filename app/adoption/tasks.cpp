#include "app/adoption/tasks.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/statistics.hpp"
#include "app/evaluation/longbench.hpp"
#include "app/evaluation/math500.hpp"
#include "app/evaluation/needle_prompt.hpp"
#include "app/evaluation/niah.hpp"
#include "app/evaluation/perplexity.hpp"
#include "app/evaluation/phonebook.hpp"
#include "app/evaluation/ruler.hpp"
#include "base/errors.hpp"

namespace keyscope::adoption {

namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 2;

// The results of all grid points, and what eviction did to them.
class TaskResults {
 public:
  //   results: of all examples, each under n_points grid points, of which `none` is the first
  TaskResults(const Task& task, std::span<const evaluation::ExampleResult> results, std::size_t n_points)
      : task_(task), results_(results), n_points_(n_points) {}

  const evaluation::ExampleResult& at(std::size_t example, std::size_t point) const {
    return results_[example * n_points_ + point];
  }

  // What is scored of an example: of a text its tokens, else the answer as a whole.
  std::int64_t n_scored(std::size_t example) const {
    return is_text() ? n_prompt(example) - first_scored(example) : 1;
  }

  // Of that, what came when something had been evicted. A token is predicted from the one before it.
  std::int64_t n_affected(std::size_t example, std::size_t point) const {
    const std::int64_t evicted = evicted_at(example, point);
    if (is_text())
      return std::max<std::int64_t>(0, n_prompt(example) - std::max(first_scored(example), evicted + 1));
    return n_prompt(example) + at(example, point).n_generated - 2 >= evicted ? 1 : 0;
  }

 private:
  // How many tokens had been read when the next one first met a cache that something was missing from: whole
  // blocks of a prompt, its end, or single tokens of what is generated.
  std::int64_t evicted_at(std::size_t example, std::size_t point) const {
    const evaluation::ExampleResult& result = at(example, point);
    const std::int64_t n_prompt = std::ssize(task_.examples[example].prompt_ids);
    if (n_prompt <= result.budget) return result.budget + 1;
    if (!(result.rows_kept < at(example, 0).rows_kept)) return kNever;
    const std::int64_t block = std::max<std::int64_t>(1, result.block);
    return std::min((result.budget / block + 1) * block, n_prompt);
  }

  bool is_text() const { return task_.kind == TaskKind::kLikelihood; }
  std::int64_t n_prompt(std::size_t example) const { return std::ssize(task_.examples[example].prompt_ids); }
  std::int64_t first_scored(std::size_t example) const {
    return std::max<std::int64_t>(1, task_.examples[example].score_from.value_or(1));
  }

  const Task& task_;
  std::span<const evaluation::ExampleResult> results_;
  std::size_t n_points_;
};

// The score of each example under one grid point, by data set, in the order in which these first come.
//   shares: by which they are divided; examples whose share is 0 are left out
ScoresBySet scores_of(const Task& task, const TaskResults& results, std::size_t point,
                      std::span<const double> shares) {
  ScoresBySet scores;
  std::map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < task.examples.size(); ++i) {
    if (shares[i] == 0) continue;
    const std::string_view set = task.data_sets.empty() ? std::string_view() : task.data_sets[i];
    const auto [place, is_new] = places.try_emplace(set, scores.size());
    if (is_new) scores.emplace_back();
    scores[place->second].push_back(results.at(i, point).score(task.score) / shares[i]);
  }
  return scores;
}

TaskLoss loss_of(const Task& task, const ScoresBySet& full, const ScoresBySet& kept,
                 const analysis::BootstrapOptions& bootstrap) {
  return task.kind == TaskKind::kScore ? score_loss(task.name, full, kept, bootstrap)
                                       : likelihood_loss(task.name, full, kept, bootstrap);
}

// What was affected, and its loss; all but TaskLoss::overall.
TaskLoss affected_loss(const Task& task, const TaskResults& results, std::size_t point,
                       const analysis::BootstrapOptions& bootstrap) {
  std::int64_t n_affected = 0, n_scored = 0;
  std::vector<double> shares;
  for (std::size_t i = 0; i < task.examples.size(); ++i) {
    const std::int64_t affected = results.n_affected(i, point), scored = results.n_scored(i);
    shares.push_back(scored == 0 ? 0 : static_cast<double>(affected) / static_cast<double>(scored));
    n_affected += affected;
    n_scored += scored;
  }
  const ScoresBySet full = scores_of(task, results, 0, shares);
  TaskLoss found = loss_of(task, full, scores_of(task, results, point, shares), bootstrap);
  found.full = analysis::stratified_bootstrap_mean(full, bootstrap);
  found.n_affected = n_affected;
  found.n_scored = n_scored;
  found.after_eviction = n_scored == 0 ? 0 : static_cast<double>(n_affected) / static_cast<double>(n_scored);
  return found;
}

}  // namespace

TaskResult task_result(const Task& task, std::span<const evaluation::ExampleResult> results,
                       std::size_t n_candidates, const analysis::BootstrapOptions& bootstrap) {
  const std::size_t n_points = n_candidates + 1;
  if (results.size() != task.examples.size() * n_points)
    throw InvalidInput(fmt::format("task {}: {} results; expected {} of each of {} examples", task.name,
                                   results.size(), n_points, task.examples.size()));
  TaskResult found;
  TaskOutcome& outcome = found.outcome;
  outcome.name = task.name;
  outcome.metric = task.metric;
  outcome.kind = task.kind;
  outcome.bad_rows = task.bad_rows;
  outcome.n_examples = std::ssize(task.examples);
  for (const evaluation::Example& example : task.examples) outcome.n_tokens += std::ssize(example.prompt_ids);
  const TaskResults points(task, results, n_points);
  const std::vector<double> all(task.examples.size(), 1.0);
  const ScoresBySet full = scores_of(task, points, 0, all);
  outcome.n_data_sets = std::ssize(full);
  outcome.full = analysis::stratified_bootstrap_mean(full, bootstrap);
  for (std::size_t point = 1; point < n_points; ++point) {
    const ScoresBySet kept = scores_of(task, points, point, all);
    outcome.scores.push_back(analysis::stratified_bootstrap_mean(kept, bootstrap));
    found.losses.push_back(affected_loss(task, points, point, bootstrap));
    found.losses.back().overall = loss_of(task, full, kept, bootstrap).loss;
  }
  return found;
}

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

constexpr std::array<Kind, 7> kKinds{{{"niah", nullptr, ""},
                                      {"niah-distractors", nullptr, ""},
                                      {"phonebook", nullptr, ""},
                                      {"perplexity", &TaskListOptions::texts, "--text"},
                                      {"longbench", &TaskListOptions::longbench, "--longbench"},
                                      {"math500", &TaskListOptions::math500, "--math500"},
                                      {"ruler", &TaskListOptions::ruler, "--ruler"}}};

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
  return model.folder_tokenizer().require("tasks are asked as text");
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

// RULER's own rows; those of a task and length are a data set.
Task ruler_task(const TaskListOptions& options, const capture::Model& model) {
  evaluation::RulerOptions read;
  read.data = options.ruler;
  read.samples = options.examples;
  read.skip_bad = options.skip_bad;
  evaluation::RulerSet set = evaluation::ruler_examples(read, model);
  Task task;
  task.name = "ruler";
  task.metric = task.score = "score";
  task.settings = evaluation::ruler_settings(read);
  for (const evaluation::Example& example : set.examples)
    task.data_sets.push_back(fmt::format("{} {}", example.about["task"].get<std::string>(),
                                         example.about["length"].get<std::int64_t>()));
  task.examples = std::move(set.examples);
  task.bad_rows = std::move(set.bad);
  task.scorer = evaluation::ruler_scorer(tokenizer_of(model));
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
  if (name == "ruler") return tasks_.push_back(ruler_task(options, model));
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
