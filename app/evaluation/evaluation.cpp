#include "app/evaluation/evaluation.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "analysis/policies/registry.hpp"
#include "app/evaluation/niah.hpp"
#include "app/figures/nexus.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "capture/inference/budget_split.hpp"
#include "capture/model/policy_file.hpp"

namespace keyscope::evaluation {

namespace {

std::string key_of(const Example& example, const GridPoint& point) {
  return result_key(example.id, point.policy, point.budget_text, point.block);
}

capture::CompletionRequest request_of(const AskedResult& asked) {
  const std::int64_t n_prompt = std::ssize(asked.example->prompt_ids);
  return {.prompt_ids = asked.example->prompt_ids,
          .policy = asked.point->spec,
          .budget = asked.point->rows_for(n_prompt),
          .continuation = asked.example->continuation,
          .score_from = asked.example->score_from,
          .watched = asked.example->evidence.positions()};
}

ExampleResult result_of(const capture::ModelConfig& model, const AskedResult& asked,
                        const capture::Completion& completion, Scores scores) {
  return {.id = asked.example->id,
          .policy = asked.point->policy,
          .budget_text = asked.point->budget_text,
          .budget = asked.point->rows_for(completion.n_prompt),
          .block = asked.point->block,
          .n_prompt = completion.n_prompt,
          .rows_kept = completion.rows_kept,
          .n_generated = std::ssize(completion.generated),
          .text = completion.text,
          .answers = asked.example->answers,
          .scores = std::move(scores),
          .anatomy = anatomy_of(model, asked.example->evidence, completion, asked.point->block)};
}

class RunningEvaluation {
 public:
  RunningEvaluation(const capture::Model& model, const Settings& settings, const Scorer& scorer,
                    ResultFolder* folder, const EvaluationWatch& watch)
      : model_(model), settings_(settings), scorer_(scorer), folder_(folder), watch_(watch) {
    if (folder != nullptr) results_ = folder->earlier();
  }

  Evaluation run(std::span<const Example> examples) {
    const std::vector<GridPoint> grid = grid_of(settings_);
    const Plan plan = plan_evaluation(settings_, examples, folder_);
    n_wanted_ = plan.n_results;
    n_done_ = plan.n_earlier;
    tokens_total_ = plan.tokens_asked;
    Evaluation evaluation;
    evaluation.n_earlier = plan.n_earlier;
    for (std::vector<AskedResult>& group : asked_groups(examples, grid)) {
      std::erase_if(group, [&](const AskedResult& asked) {
        return results_.contains(key_of(*asked.example, *asked.point));
      });
      if (!group.empty()) complete(group, evaluation.cost);
    }
    for (const Example& example : examples)
      for (const GridPoint& point : grid) evaluation.results.push_back(results_.at(key_of(example, point)));
    if (folder_ != nullptr) folder_->put_in_order(settings_, examples);
    return evaluation;
  }

 private:
  void complete(const std::vector<AskedResult>& group, capture::CompletionCost& cost) {
    const GroupWatch watch{watch_.control,
                           [&](const AskedResult& asked, const std::string& line) { keep(asked, line); },
                           [&](std::int64_t tokens_done) {
                             watch_.on_progress(tokens_done_ + tokens_done, tokens_total_,
                                                fmt::format("result {} of {}", n_done_ + 1, n_wanted_));
                           }};
    try {
      const auto spent = run_group(model_, settings_, group, scorer_, watch);
      cost.tokens_asked += spent.tokens_asked;
      cost.tokens_run += spent.tokens_run;
      cost.seconds += spent.seconds;
    } catch (const Cancelled&) {
      throw Cancelled(fmt::format("interrupted; {} of {} results are there{}", n_done_, n_wanted_,
                                  folder_ == nullptr ? ", and with --out they would have been kept"
                                                     : ", and the same command goes on"));
    }
    for (const AskedResult& asked : group) tokens_done_ += tokens_of(asked);
  }

  // As it reads back from a line, whether there is a folder or not: text that is no UTF-8 is not told apart.
  void keep(const AskedResult& asked, const std::string& line) {
    if (folder_ != nullptr) folder_->append(line);
    results_.emplace(key_of(*asked.example, *asked.point), parse_result(line, "a result"));
    ++n_done_;
  }

  const capture::Model& model_;
  const Settings& settings_;
  const Scorer& scorer_;
  ResultFolder* folder_;
  const EvaluationWatch& watch_;
  std::map<std::string, ExampleResult> results_;
  std::int64_t tokens_done_ = 0, tokens_total_ = 0;
  std::int64_t n_done_ = 0, n_wanted_ = 0;
};

}  // namespace

std::vector<std::vector<AskedResult>> asked_groups(std::span<const Example> examples,
                                                   std::span<const GridPoint> grid) {
  std::vector<std::vector<AskedResult>> groups;
  for (std::size_t first = 0, end = 0; first < examples.size(); first = end) {
    while (end < examples.size() && examples[end].group == examples[first].group) ++end;
    std::map<std::int64_t, std::vector<AskedResult>> by_block;
    for (const Example& example : examples.subspan(first, end - first))
      for (const GridPoint& point : grid) by_block[point.block].push_back({&example, &point});
    for (auto& [block, asked] : by_block) groups.push_back(std::move(asked));
  }
  return groups;
}

std::int64_t tokens_of(const AskedResult& asked) {
  return std::ssize(asked.example->prompt_ids) +
         std::max<std::int64_t>(0, asked.example->continuation.max_new_tokens - 1);
}

capture::CompletionCost run_group(const capture::Model& model, const Settings& settings,
                                  std::span<const AskedResult> group, const Scorer& scorer,
                                  const GroupWatch& watch) {
  std::vector<capture::CompletionRequest> requests;
  requests.reserve(group.size());
  for (const AskedResult& asked : group) requests.push_back(request_of(asked));
  const capture::CompletionWatch completions{
      watch.control,
      [&](std::size_t request, const capture::Completion& completion) {
        const AskedResult& asked = group[request];
        Scores scores = scorer(*asked.example, completion);
        watch.done(asked, result_line(result_of(model.config(), asked, completion, std::move(scores)),
                                      asked.example->about));
      },
      [&](const capture::CompletionProgress& now) { watch.on_progress(now.tokens_done); }};
  return capture::complete_prompts(model, {group.front().point->block, settings.seed, settings.cache_format},
                                   requests, completions);
}

namespace {

// The example with the shortest prompt has the least budget.
void check_policies(const Settings& settings, std::span<const Example> examples,
                    const capture::Model& model) {
  if (examples.empty()) return;
  const Example& shortest = *std::ranges::min_element(
      examples, {}, [](const Example& example) { return example.prompt_ids.size(); });
  for (const GridPoint& point : grid_of(settings)) {
    if (!point.evicts()) continue;
    const std::int64_t budget = point.rows_for(std::ssize(shortest.prompt_ids));
    try {
      capture::check_slots(model.config(), point.spec,
                           *capture::policy_for(point.spec, settings.seed, model.config()), budget);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("example {} of {} tokens, budget {}: {}", shortest.id,
                                   shortest.prompt_ids.size(), point.budget_text, error.what()));
    }
  }
}

}  // namespace

void check_examples(const Settings& settings, std::span<const Example> examples,
                    const capture::Model& model) {
  std::set<std::string> ids;
  for (const Example& example : examples) {
    if (!ids.insert(example.id).second)
      throw InvalidInput(
          fmt::format("example {}: there are two of that name; expected every one once", example.id));
    const std::int64_t n = std::ssize(example.prompt_ids),
                       all = n + std::max<std::int64_t>(0, example.continuation.max_new_tokens - 1);
    if (all > model.config().context_length)
      throw InvalidInput(fmt::format(
          "example {}: the prompt has {} tokens, {} generated ones follow, and the model's context is {}",
          example.id, n, all - n, model.config().context_length));
  }
  check_policies(settings, examples, model);
}

Plan plan_evaluation(const Settings& settings, std::span<const Example> examples,
                     const ResultFolder* folder) {
  Plan plan;
  for (const Example& example : examples)
    for (const GridPoint& point : grid_of(settings)) {
      ++plan.n_results;
      if (folder != nullptr && folder->earlier().contains(key_of(example, point)))
        ++plan.n_earlier;
      else
        plan.tokens_asked += tokens_of({&example, &point});
    }
  return plan;
}

Evaluation evaluate(const capture::Model& model, const Settings& settings, std::span<const Example> examples,
                    const Scorer& scorer, ResultFolder* folder, const EvaluationWatch& watch) {
  check_examples(settings, examples, model);
  return RunningEvaluation(model, settings, scorer, folder, watch).run(examples);
}

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kExamples = "examples.jsonl";
constexpr const char *kResults = "results.json", *kCost = "cost.json";
constexpr const char* kRecorded =
    "recordings/made.txt";  // which of the recordings there it made, a line each

[[noreturn]] void fail(const fs::path& path, const char* what) {
  throw FileError(fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno)));
}

}  // namespace

std::vector<fs::path> summary_files(const fs::path& out, const std::string& task, bool compared) {
  std::vector<fs::path> files{out / kResults, out / kCost};
  const auto figures = figure_names(task, compared);
  for (const std::string_view name : figures)
    for (const char* extension : {".png", ".svg", ".pdf"})
      files.push_back(out / (std::string(name) + extension));
  if (!figures.empty()) files.push_back(out / (task + ".h5"));
  return files;
}

std::vector<fs::path> folder_files(const fs::path& out, const std::string& task, bool compared) {
  std::vector<fs::path> files = summary_files(out, task, compared);
  files.push_back(out / kExamples);
  files.push_back(out / results::OutFolder::kSettings);
  return files;
}

ResultFolder::ResultFolder(fs::path out, const Json& settings, bool discard)
    : out_(std::move(out), settings, "evaluation", discard) {
  if (out_.goes_on()) read_earlier();
  if (!out_.discarded()) return;
  const Json& earlier = *out_.discarded();
  const auto task = earlier.find("task");
  if (task == earlier.end() || !task->is_string() || task->get_ref<const std::string&>().empty())
    throw FileError(fmt::format("{}: \"task\" is missing; expected an evaluation's settings",
                                out_.settings_file().string()));
  discarded_task_ = *task;
  out_.require_own([&](const Json&) { return !figure_names(discarded_task_, true).empty(); });
}

ResultFolder::~ResultFolder() {
  if (descriptor_ >= 0) close(descriptor_);
}

void ResultFolder::read_earlier() {
  earlier_.clear();
  whole_bytes_ = 0;
  if (!fs::exists(file(kExamples))) return;
  std::ifstream lines(file(kExamples), std::ios::binary);
  std::string line;
  for (std::int64_t number = 1; std::getline(lines, line); ++number) {
    if (lines.eof()) return;  // torn: the line's end is missing
    const std::string where = fmt::format("{}, line {}", file(kExamples).string(), number);
    ExampleResult result = parse_result(line, where);
    const std::string key = result_key(result.id, result.policy, result.budget_text, result.block);
    if (!earlier_.emplace(key, std::move(result)).second)
      throw FileError(where + ": the same example, policy, budget and block as on an earlier line");
    whole_bytes_ += std::ssize(line) + 1;
  }
  require_read(lines, file(kExamples).string());
}

void ResultFolder::begin() {
  out_.begin();
  open_lines();
  if (!discarded_task_.empty()) remove_results_of(discarded_task_);
  out_.write_settings();
}

void ResultFolder::open_lines() {
  const fs::path path = file(kExamples);
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(path, "cannot be written");
  const FileLock lock = try_lock(descriptor_);
  if (lock == FileLock::kBusy)
    throw FileError(fmt::format("{}: another evaluation is writing there", path.string()));
  if (lock == FileLock::kNone)
    fmt::print(
        stderr,
        "keyscope: warning: {}: this file system has no locks ({}), so nothing keeps another evaluation from "
        "writing there as well\n",
        terminal_text(path.string()), std::strerror(errno));
  if (out_.goes_on()) read_earlier();  // to which another run may have added before it ended
  if (ftruncate(descriptor_, whole_bytes_) != 0) fail(path, "cannot be cut after its last whole line");
  sync_data(descriptor_, path.string());
  sync_path(out_.path());
}

void ResultFolder::remove_results_of(const std::string& task) const {
  for (const fs::path& path : summary_files(out_.path(), task, true)) fs::remove(path);
  std::ifstream made(file(kRecorded));
  for (std::string name; std::getline(made, name);)
    if (!name.empty() && name.find('/') == std::string::npos)
      fs::remove(file(fs::path(figures::kRecordingsFolder) / name));
  fs::remove(file(kRecorded));
}

fs::path ResultFolder::new_recording(const std::string& name) const {
  out_.make(figures::kRecordingsFolder);
  const fs::path path = file(fs::path(figures::kRecordingsFolder) / name);
  if (fs::exists(path)) return path;
  const std::string made = fs::exists(file(kRecorded)) ? read_file(file(kRecorded)) : std::string();
  if (("\n" + made).find("\n" + name + "\n") == std::string::npos) out_.write(kRecorded, made + name + "\n");
  return path;
}

void ResultFolder::append(std::string_view line) {
  const fs::path path = file(kExamples);
  write_all(descriptor_, std::string(line) + '\n', path.string());
  sync_data(descriptor_, path.string());
}

void ResultFolder::adopt(const Settings& settings, std::span<const Example> examples, const FindLine& find) {
  const std::vector<GridPoint> grid = grid_of(settings);
  const fs::path path = file(kExamples);
  for (const Example& example : examples)
    for (const GridPoint& point : grid) {
      const std::string key = key_of(example, point);
      if (earlier_.contains(key)) continue;
      const auto line = find(settings, {&example, &point});
      if (!line) continue;
      const std::string where = fmt::format("a result of {}, {}", example.id, point.policy);
      ExampleResult result = parse_result(*line, where);
      if (const std::string found = result_key(result.id, result.policy, result.budget_text, result.block);
          found != key)
        throw FileError(fmt::format(
            "{}: found {}, policy {}, budget {}, block {}; expected {}, policy {}, budget {}, block {}",
            where, shown(result.id), shown(result.policy), shown(result.budget_text), result.block,
            shown(example.id), shown(point.policy), shown(point.budget_text), point.block));
      earlier_.emplace(key, std::move(result));
      write_all(descriptor_, *line + '\n', path.string());
    }
  sync_data(descriptor_, path.string());
}

void ResultFolder::put_in_order(const Settings& settings, std::span<const Example> examples) const {
  const std::string text = read_file(file(kExamples));
  std::map<std::string, std::string_view> lines;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size() - 1);
    const std::string_view line = std::string_view(text).substr(at, end - at + 1);
    const ExampleResult result = parse_result(line, file(kExamples).string());
    lines.emplace(result_key(result.id, result.policy, result.budget_text, result.block), line);
  }
  const std::vector<GridPoint> grid = grid_of(settings);
  std::string ordered;
  ordered.reserve(text.size());
  for (const Example& example : examples)
    for (const GridPoint& point : grid) ordered += lines.at(key_of(example, point));
  if (ordered != text) out_.write(kExamples, ordered);
}

}  // namespace keyscope::evaluation
