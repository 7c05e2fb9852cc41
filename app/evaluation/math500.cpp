#include "app/evaluation/math500.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/evaluation/math_answer.hpp"
#include "app/evaluation/math_normal.hpp"
#include "app/evaluation/task_data.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/sha256.hpp"

namespace keyscope::evaluation {

namespace {

constexpr const char* kChatPrompt =
    "{problem}\nPlease reason step by step, and put your final answer within \\boxed{}.";
constexpr const char* kPlainPrompt = "Problem:\n{problem}\n\nSolution:";
// Where the next problem begins: a base model goes on with one. As `until` of minerva_math in the
// lm-evaluation-harness.
constexpr const char* kNextProblem = "Problem:";

const tokenizer::Tokenizer& tokenizer_of(const capture::Model& model) {
  return model.folder_tokenizer().require("problems are text");
}

void check(const MathOptions& options) {
  check_utf8(options.prompt, "--prompt");
  if (!options.prompt.empty() && options.prompt.find("{problem}") == std::string::npos)
    throw UsageError("--prompt: there is no {problem} in it; expected it where the problem stands");
  if (options.samples > 1 && options.temperature == 0)
    throw UsageError(fmt::format(
        "--samples: {} samples of the likeliest answer are all the same; expected --temperature above 0",
        options.samples));
  capture::check_sampling({options.temperature, options.top_p, options.seed});
}

// Of an example by its name, so that it does not depend on what other rows there are.
std::uint64_t seed_of(std::uint64_t seed, const std::string& id) {
  Sha256 hash;
  hash.add(fmt::format("{}/{}", seed, id));
  return std::stoull(hash.hex().substr(0, 16), nullptr, 16);
}

// The ids' text holds the stop text too.
std::string before_stop(std::string text, const std::vector<std::string>& stop_texts) {
  for (const std::string& stop : stop_texts) text.resize(std::min(text.find(stop), text.size()));
  return text;
}

// Turns rows into examples one after another.
class MathCollection {
 public:
  MathCollection(const MathOptions& options, const capture::Model& model)
      : options_(options), model_(model), encoder_(tokenizer_of(model), model.folder(), options.chat) {
    prompt_ = options.prompt;
    if (!prompt_.empty()) return;
    prompt_ = encoder_.has_chat() ? kChatPrompt : kPlainPrompt;
    if (!encoder_.has_chat()) stop_texts_ = {kNextProblem};
  }

  void read(std::span<const std::filesystem::path> paths) {
    set_.bad =
        read_json_rows(paths, options_.skip_bad, [&](const nlohmann::json& row, const std::string& where) {
          if (!options_.rows || std::ssize(set_.rows) < *options_.rows) add(read_math_row(row, where), where);
        }).bad;
  }

  MathSet take() { return std::move(set_); }

 private:
  void add(MathRow row, const std::string& where) {
    const std::string id = row.id.empty() ? fmt::format("row {}", set_.rows.size() + 1) : row.id;
    if (ids_.contains(id))
      throw FileError(where + ": the same \"unique_id\" as on an earlier row, which would count twice");
    Example example;
    example.group = id;
    example.prompt_ids = encoder_.turn(math_prompt(prompt_, row.problem));
    const std::int64_t left = model_.config().context_length - std::ssize(example.prompt_ids);
    if (left < 1)
      throw FileError(fmt::format("{}: the prompt has {} tokens, and the model's context is {}", where,
                                  example.prompt_ids.size(), model_.config().context_length));
    example.answers = {row.answer};
    example.continuation.max_new_tokens = std::min(options_.max_new_tokens, left);
    example.continuation.stop_texts = stop_texts_;
    example.about = {{"subject", row.subject},
                     {"level", row.level ? nlohmann::ordered_json(*row.level) : nlohmann::ordered_json()}};
    for (std::int64_t sample = 0; sample < options_.samples; ++sample) {
      example.id = options_.samples == 1 ? id : fmt::format("{}, sample {}", id, sample + 1);
      example.continuation.sampling = {options_.temperature, options_.top_p,
                                       seed_of(options_.seed, example.id)};
      set_.examples.push_back(example);
    }
    ids_.insert(id);
    set_.rows.push_back(std::move(row));
  }

  const MathOptions& options_;
  const capture::Model& model_;
  PromptEncoder encoder_;
  std::string prompt_;
  std::vector<std::string> stop_texts_;
  MathSet set_;
  std::set<std::string> ids_;
};

}  // namespace

MathSet read_math(const MathOptions& options, const capture::Model& model) {
  check(options);
  MathCollection collection(options, model);
  collection.read(data_files(options.data));
  return collection.take();
}

Scorer math_scorer(const tokenizer::Tokenizer& tokenizer) {
  return [&tokenizer](const Example& example, const capture::Completion& completion) {
    const std::string solution =
        before_stop(tokenizer.decode(completion.generated, true), example.continuation.stop_texts);
    const std::string& answer = example.answers.front();
    return Scores{{"exact", exact_match(solution, answer) ? 1 : 0},
                  {"flexible", flexible_match(solution, answer) ? 1 : 0},
                  {"generated", static_cast<double>(completion.generated.size())}};
  };
}

nlohmann::ordered_json math_settings(const MathOptions& options) {
  return {{"prompt", options.prompt},
          {"chat", chat_word(options.chat)},
          {"max_new_tokens", options.max_new_tokens},
          {"temperature", options.temperature},
          {"top_p", options.top_p},
          {"samples", options.samples},
          {"rows", json_number(options.rows)}};
}

namespace {

std::string answer_of(const nlohmann::json& row, const std::string& where) {
  if (row.contains("answer")) return text_field(row, "answer", where);
  if (!row.contains("solution"))
    throw FileError(fmt::format(
        "{}: neither \"answer\" nor \"solution\" is there; expected the answer, or a solution that boxes it",
        where));
  const auto boxed = boxed_answer(text_field(row, "solution", where));
  if (!boxed)
    throw FileError(fmt::format(
        "{}: \"solution\" boxes no answer, and there is no \"answer\"; expected \\boxed{{…}} in it", where));
  return *boxed;
}

// MATH itself has "Level 5", MATH-500 has 5.
std::optional<std::int64_t> level_of(const nlohmann::json& row, const std::string& where) {
  const auto found = row.find("level");
  if (found == row.end() || found->is_null()) return std::nullopt;
  if (const auto level = json_integer<std::int64_t>(*found)) return level;
  const std::string text = found->is_string() ? found->get<std::string>() : "";
  if (text.size() == 7 && text.starts_with("Level ") && text.back() >= '1' && text.back() <= '9')
    return text.back() - '0';
  throw FileError(
      fmt::format("{}: \"level\" is {}; expected a number, such as 5", where, shown_value(*found)));
}

}  // namespace

MathRow read_math_row(const nlohmann::json& row, const std::string& where) {
  MathRow read;
  read.id = row.contains("unique_id") ? text_field(row, "unique_id", where) : "";
  read.problem = text_field(row, "problem", where);
  read.answer = answer_of(row, where);
  for (const char* field : {"subject", "type"})  // MATH itself says "type"
    if (read.subject.empty() && row.contains(field)) read.subject = text_field(row, field, where);
  read.level = level_of(row, where);
  if (read.problem.empty() || read.answer.empty())
    throw FileError(fmt::format("{}: \"{}\" is empty; expected a text", where,
                                read.problem.empty() ? "problem" : "answer"));
  return read;
}

std::string math_prompt(std::string_view format, std::string_view problem) {
  return replace_all(std::string(format), "{problem}", problem);
}

namespace {

using Json = nlohmann::ordered_json;
using Indices = std::vector<std::size_t>;  // of problems

// One evaluation's samples, problem by problem.
class Problems {
 public:
  Problems(const ScoreTable& table, std::size_t n_samples, std::uint64_t seed)
      : table_(table), n_samples_(n_samples), seed_(seed) {}

  MathShares shares(std::size_t point, const Indices& problems) const {
    const Indices samples = samples_of(problems);
    const auto mean = [&](const std::vector<double>& values) {
      return bootstrap_score(means_of_each(values, n_samples_), seed_);
    };
    MathShares shares;
    shares.exact = mean(table_.scores("exact", point, samples));
    shares.flexible = mean(table_.scores("flexible", point, samples));
    shares.exact_difference = mean(table_.differences("exact", point, samples));
    shares.flexible_difference = mean(table_.differences("flexible", point, samples));
    shares.n = std::ssize(problems);
    return shares;
  }

  double mean_generated(std::size_t point, const Indices& problems) const {
    const auto tokens = table_.scores("generated", point, samples_of(problems));
    return std::accumulate(tokens.begin(), tokens.end(), 0.0) / static_cast<double>(tokens.size());
  }

  Indices over_budget(std::size_t point, const Indices& problems) const {
    Indices longer;
    for (const std::size_t problem : problems) {
      const ExampleResult& first = table_.result(problem * n_samples_, point);
      const double all =
          static_cast<double>(first.n_prompt) + mean_generated(table_.reference(point), {problem});
      if (table_.grid()[point].evicts() && all > static_cast<double>(first.budget)) longer.push_back(problem);
    }
    return longer;
  }

  std::int64_t budget_rows(std::size_t point, const Indices& problems) const {
    Cell cell{table_.grid()[point], {}};
    for (const std::size_t sample : samples_of(problems))
      cell.results.push_back(&table_.result(sample, point));
    return cell.budget_rows();
  }

 private:
  Indices samples_of(const Indices& problems) const {
    Indices samples;
    for (const std::size_t problem : problems)
      for (std::size_t sample = 0; sample < n_samples_; ++sample)
        samples.push_back(problem * n_samples_ + sample);
    return samples;
  }

  const ScoreTable& table_;
  std::size_t n_samples_;
  std::uint64_t seed_;
};

std::vector<std::pair<std::string, MathShares>> shares_by(const Problems& problems, std::size_t point,
                                                          const std::map<std::string, Indices>& groups) {
  std::vector<std::pair<std::string, MathShares>> shares;
  shares.reserve(groups.size());
  for (const auto& [name, members] : groups) shares.emplace_back(name, problems.shares(point, members));
  return shares;
}

Json shares_json(const MathShares& shares, bool evicts) {
  Json json{{"n", shares.n}};
  add_score(json, "exact", shares.exact);
  add_score(json, "flexible", shares.flexible);
  if (!evicts) return json;
  add_score(json, "exact_difference", shares.exact_difference);
  add_score(json, "flexible_difference", shares.flexible_difference);
  return json;
}

Json named_json(const std::vector<std::pair<std::string, MathShares>>& named, bool evicts) {
  Json json = Json::object();
  for (const auto& [name, shares] : named) json[name] = shares_json(shares, evicts);
  return json;
}

}  // namespace

std::vector<MathCell> math_report(const ScoreTable& table, std::span<const MathRow> rows,
                                  std::size_t n_samples, std::uint64_t seed) {
  const Problems problems(table, n_samples, seed);
  Indices all(rows.size());
  std::iota(all.begin(), all.end(), 0);
  std::map<std::string, Indices> levels, subjects;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const MathRow& row = rows[i];
    if (row.level) levels[fmt::format("{}", *row.level)].push_back(i);
    if (!row.subject.empty()) subjects[row.subject].push_back(i);
  }
  std::vector<MathCell> cells;
  for (std::size_t point = 0; point < table.grid().size(); ++point)
    cells.push_back({point, problems.budget_rows(point, all), problems.shares(point, all),
                     problems.mean_generated(point, all),
                     problems.shares(point, problems.over_budget(point, all)),
                     shares_by(problems, point, levels), shares_by(problems, point, subjects)});
  return cells;
}

Json math_json(std::span<const MathCell> cells, std::span<const GridPoint> grid) {
  Json json{{"cells", Json::array()}};
  for (const MathCell& cell : cells) {
    const GridPoint& point = grid[cell.point];
    Json row = point_json(point, cell.budget_rows);
    row.update(shares_json(cell.all, point.evicts()));
    row["generated"] = cell.generated;
    if (point.evicts()) row["over_budget"] = shares_json(cell.over_budget, true);
    row["by_level"] = named_json(cell.by_level, point.evicts());
    row["by_subject"] = named_json(cell.by_subject, point.evicts());
    json["cells"].push_back(std::move(row));
  }
  return json;
}

std::string math_table(std::span<const MathCell> cells, std::span<const GridPoint> grid) {
  std::string text = fmt::format("{:<22} {:>8} {:>6} {:>9}  {:<24}  {:<24}\n", "policy", "budget", "block",
                                 "generated", "flexible", "exact");
  for (const MathCell& cell : cells) {
    const GridPoint& point = grid[cell.point];
    text += fmt::format("{:<22} {:>8} {:>6} {:>9.0f}  {:<24}  {}\n", point.policy,
                        point.evicts() ? point.budget_text : "-", point.block, cell.generated,
                        with_interval(cell.all.flexible), with_interval(cell.all.exact));
  }
  return text;
}

}  // namespace keyscope::evaluation
