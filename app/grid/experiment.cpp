#include "app/grid/experiment.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace keyscope::grid {

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 40;
constexpr int kMostParts = 1 << 20;  // of a model

std::int64_t count_or_zero(const JsonField& object, const std::string& name) {
  const auto field = object.optional(name);
  return field ? field->integer(1, kMost) : 0;
}

std::string text_of(const JsonField& object, const std::string& name) {
  const JsonField field = object.member(name);
  std::string text = field.string();
  if (text.empty()) field.fail("an empty text", "some words");
  return text;
}

std::string name_in(const JsonField& object, const JsonField& member) {
  return member.path().substr(object.path().empty() ? 0 : object.path().size() + 1);
}

// A file that asks for what is not known to it would otherwise ask for less without a word.
void require_known(const JsonField& object, const std::set<std::string>& known) {
  object.for_each_member([&](const JsonField& member) {
    if (!known.contains(name_in(object, member)))
      member.fail("a field that no experiment has", "another, or none");
  });
}

PublishedModel read_published_model(const JsonField& model) {
  require_known(model, {"repository", "layers", "heads", "kv_heads", "hidden"});
  const auto part = [&](const char* name) {
    return static_cast<int>(model.member(name).integer(1, kMostParts));
  };
  return {text_of(model, "repository"), part("layers"), part("heads"), part("kv_heads"),
          model.member("hidden").integer(1, kMost)};
}

ExperimentTask read_task(const JsonField& task) {
  require_known(task, {"name", "kind", "length", "samples", "parts", "distractors", "depths", "entries",
                       "max_new_tokens", "answers", "temperature", "top_p", "score"});
  ExperimentTask read;
  read.name = text_of(task, "name");
  // Its answers lie in a folder of that name.
  constexpr std::string_view kOfNames = "abcdefghijklmnopqrstuvwxyz0123456789-_";
  if (read.name.find_first_not_of(kOfNames) != std::string::npos)
    task.member("name").fail(shown(read.name), "small letters, digits, - and _");
  read.kind = text_of(task, "kind");
  read.length = count_or_zero(task, "length");
  read.samples = count_or_zero(task, "samples");
  read.distractors = count_or_zero(task, "distractors");
  read.max_new_tokens = count_or_zero(task, "max_new_tokens");
  if (task.optional("answers")) read.answers = count_or_zero(task, "answers");
  if (const auto temperature = task.optional("temperature")) read.temperature = temperature->number();
  if (const auto top_p = task.optional("top_p")) read.top_p = top_p->number();
  if (read.answers > 1 && read.kind != "math500")
    task.member("answers").fail(fmt::format("{} of {}", read.answers, shown(read.kind)),
                                "one, as only those of math500 are drawn");
  read.score = task.string_or("score", "");
  if (const auto parts = task.optional("parts"))
    parts->for_each([&](const JsonField& part) { read.parts.push_back(part.string()); });
  if (const auto depths = task.optional("depths"))
    depths->for_each([&](const JsonField& depth) { read.depths.push_back(depth.number()); });
  if (const auto entries = task.optional("entries"))
    entries->for_each([&](const JsonField& n) { read.entries.push_back(n.integer(1, kMost)); });
  return read;
}

// A number, {"at_most": x}, {"at_least": x}, or both.
void read_published(const JsonField& published, ExperimentRow& read) {
  read.low = read.high = std::nullopt;
  if (!published.is_object()) {
    read.low = read.high = published.number();
    return;
  }
  require_known(published, {"at_most", "at_least"});
  if (const auto least = published.optional("at_least")) read.low = least->number();
  if (const auto most = published.optional("at_most")) read.high = most->number();
  if (!read.published()) published.fail("neither of them", "at_most, at_least, or a number");
  if (read.low && read.high && *read.low > *read.high)
    published.fail("at_least above at_most", "the other way round");
}

double number_or_zero(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

// A row, and after it one for each of its parts that a number was published for.
void read_row(const JsonField& row, std::vector<ExperimentRow>& rows) {
  require_known(row, {"what", "task", "policy", "budget", "block", "against", "share_of", "score", "only",
                      "published", "published_parts", "not_comparable"});
  ExperimentRow read;
  read.what = text_of(row, "what");
  read.task = text_of(row, "task");
  read.policy = text_of(row, "policy");
  if (read.policy != "none") read.budget = text_of(row, "budget");
  read.block = row.member("block").integer(1, kMost);
  for (const char* how : {"against", "share_of"})
    if (const auto against = row.optional(how)) {
      require_known(*against, {"policy", "budget"});
      if (!read.against_policy.empty()) against->fail("both of them", "against or share_of");
      read.share = how == std::string_view("share_of");
      read.against_policy = text_of(*against, "policy");
      if (read.against_policy != "none") read.against_budget = against->string_or("budget", read.budget);
    }
  read.score = row.string_or("score", "");
  if (read.score == kGoneEverywhere && !read.against_policy.empty())
    row.member("score").fail(shown(read.score), "another, as not every example has one to compare");
  if (const auto only = row.optional("only")) {
    if (only->string() != "over_budget") only->fail(shown(only->string()), "\"over_budget\"");
    if (read.budget.empty()) only->fail("a row without a budget", "a policy that has one");
    read.over_budget = true;
  }
  if (const auto published = row.optional("published")) read_published(*published, read);
  read.not_comparable = row.string_or("not_comparable", "");
  rows.push_back(read);
  const auto first_part = std::ssize(rows);
  if (const auto parts = row.optional("published_parts"))
    parts->for_each_member([&](const JsonField& part) {
      ExperimentRow of_part = read;
      of_part.part = name_in(*parts, part);
      of_part.what += ", " + of_part.part;
      of_part.not_comparable = "";
      read_published(part, of_part);
      rows.push_back(std::move(of_part));
    });
  // Members come in the order of their names, in which 1233 is before 478.
  std::ranges::stable_sort(rows.begin() + first_part, rows.end(), {},
                           [](const ExperimentRow& of_part) { return number_or_zero(of_part.part); });
}

void check_rows(const JsonField& file, const Experiment& experiment) {
  if (experiment.rows.empty()) file.member("rows").fail("none", "at least one");
  for (const ExperimentRow& row : experiment.rows)
    if (std::ranges::find(experiment.tasks, row.task, &ExperimentTask::name) == experiment.tasks.end())
      file.member("rows").fail(fmt::format("the task {}", shown(row.task)), "one of \"tasks\"");
  std::set<std::string> names;
  for (const ExperimentTask& task : experiment.tasks)
    if (!names.insert(task.name).second)
      file.member("tasks").fail(fmt::format("{} twice", shown(task.name)), "every name once");
}

}  // namespace

Experiment read_experiment(const std::filesystem::path& file) {
  const nlohmann::json json = parse_json_object(read_small_file(file), file.string());
  const JsonField root(json, file.string(), "");
  require_known(
      root, {"format", "name", "claim", "source", "notes", "models", "tolerance_points", "tasks", "rows"});
  if (const JsonField format = root.member("format"); format.integer(0, kMost) != 1)
    format.fail(fmt::format("{}", format.integer(0, kMost)), "1, the format that this version reads");
  Experiment experiment;
  experiment.name = text_of(root, "name");
  experiment.claim = text_of(root, "claim");
  experiment.source = text_of(root, "source");
  experiment.notes = root.string_or("notes", "");
  experiment.tolerance_points = root.member("tolerance_points").number();
  if (!(experiment.tolerance_points >= 0))
    root.member("tolerance_points").fail(fmt::format("{}", experiment.tolerance_points), "0 or more");
  root.member("models").for_each(
      [&](const JsonField& model) { experiment.models.push_back(read_published_model(model)); });
  if (experiment.models.empty()) root.member("models").fail("none", "at least one");
  root.member("tasks").for_each([&](const JsonField& task) { experiment.tasks.push_back(read_task(task)); });
  root.member("rows").for_each([&](const JsonField& row) { read_row(row, experiment.rows); });
  check_rows(root, experiment);
  return experiment;
}

bool is_published(const Experiment& experiment, const results::ModelIdentity& model,
                  const capture::ModelConfig& config) {
  return std::ranges::any_of(experiment.models, [&](const PublishedModel& published) {
    const auto slash = published.repository.rfind('/');
    const std::string name = published.repository.substr(slash == std::string::npos ? 0 : slash + 1);
    return (model.name == published.repository || model.name == name) &&
           config.n_layers == published.layers && config.n_heads == published.heads &&
           config.n_kv_heads == published.kv_heads && config.hidden_size == published.hidden;
  });
}

analysis::BootstrapMean with_room(const analysis::BootstrapMean& found, bool difference) {
  if (found.n_samples == 0 || found.low != found.high) return found;
  constexpr double kConfidence = 0.95;
  const double room =
      100 * analysis::clopper_pearson_high(0, static_cast<double>(found.n_samples), kConfidence);
  const double least = difference ? -100 : 0;
  analysis::BootstrapMean wider = found;
  wider.low = std::max(least, found.mean - room);
  wider.high = std::min(100.0, found.mean + room);
  return wider;
}

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kAgrees:
      return "agrees";
    case Verdict::kDiffers:
      return "differs";
    case Verdict::kCannotTell:
      break;
  }
  return "cannot tell";
}

Judgement judge(const ExperimentRow& row, const analysis::BootstrapMean& found, double tolerance_points,
                const std::string& why_not) {
  if (!row.published()) return {Verdict::kCannotTell, "no number was published"};
  if (!row.not_comparable.empty()) return {Verdict::kCannotTell, row.not_comparable};
  if (!why_not.empty()) return {Verdict::kCannotTell, why_not};
  if (!std::isfinite(found.low)) return {Verdict::kCannotTell, "too few examples for an interval"};
  constexpr double kFar = std::numeric_limits<double>::infinity();
  const double low = row.low.value_or(-kFar) - tolerance_points;
  const double high = row.high.value_or(kFar) + tolerance_points;
  if (found.low >= low && found.high <= high) return {Verdict::kAgrees, ""};
  if (found.high < low || found.low > high) return {Verdict::kDiffers, ""};
  return {Verdict::kCannotTell, "the interval reaches over what would agree: more examples are needed"};
}

}  // namespace keyscope::grid
