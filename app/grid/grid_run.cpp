#include "app/grid/grid_run.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/drawing/cairo_painter.hpp"
#include "app/evaluation/task_report.hpp"
#include "app/figures/nexus.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"

namespace keyscope::grid {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kTask = "grid";  // of the settings, which for an evaluation name its task
constexpr std::array kFiles{"results.json", "cost.json", "grid.h5"};
constexpr std::array kExtensions{".png", ".svg", ".pdf"};

Json run_json(const GridRun& run) {
  Json json{{"format", 1}, {"task", kTask}};
  results::add_identity(json, run.settings.model);
  json.update(plan_json(run.plan));
  json["budgets"] = Json::array();
  for (const evaluation::AskedBudget& budget : run.settings.budgets) json["budgets"].push_back(budget.text);
  json["blocks"] = run.settings.blocks;
  json["seed"] = run.settings.seed;
  json["tasks"] = Json::array();
  for (const adoption::Task& task : run.tasks) json["tasks"].push_back(task.name);
  json["examples_sha256"] = Json::object();
  for (const adoption::Task& task : run.tasks)
    json["examples_sha256"][task.name] = evaluation::examples_sha256(task.examples);
  return json;
}

// A folder of answers, but for what is not of this program.
void remove_answers(const fs::path& folder) {
  if (!fs::is_directory(fs::symlink_status(folder))) return;
  for (const fs::path& file : evaluation::folder_files(folder, "", false)) fs::remove(file);
  std::error_code not_empty;
  fs::remove(folder, not_empty);
}

}  // namespace

evaluation::Settings asked_settings(const GridPlan& plan, const std::vector<std::string>& budgets,
                                    const std::vector<std::int64_t>& blocks, std::uint64_t seed) {
  std::vector<std::string> policies;
  for (const Method& method : plan.methods) policies.push_back(method.policy);
  return evaluation::asked_grid(policies, budgets, blocks, seed);
}

GridFolder::GridFolder(const fs::path& out, const GridRun& run, bool discard)
    : run_(run), discard_(discard), out_(out, run_json(run), kTask, discard) {
  out_.require_own([](const Json& task) { return task == kTask; });
  for (const adoption::Task& task : run_.tasks)
    evaluation::check_examples(settings_of(task), task.examples, run_.model);
}

evaluation::Settings GridFolder::settings_of(const adoption::Task& task) const {
  evaluation::Settings settings = run_.settings;
  settings.task = task.name;
  settings.task_settings = task.settings;
  settings.task_settings["examples_sha256"] = evaluation::examples_sha256(task.examples);
  return settings;
}

evaluation::Plan GridFolder::plan_left() const {
  evaluation::Plan all;
  for (const adoption::Task& task : run_.tasks) {
    const evaluation::Settings settings = settings_of(task);
    const evaluation::ResultFolder folder(out_.file(task.name), evaluation::settings_json(settings),
                                          discard_);
    const auto plan = evaluation::plan_evaluation(settings, task.examples, &folder);
    all.n_results += plan.n_results;
    all.n_earlier += plan.n_earlier;
    all.tokens_asked += plan.tokens_asked;
  }
  return all;
}

void GridFolder::discard_earlier() const {
  const Json& earlier = *out_.discarded();
  for (const char* name : kFiles) fs::remove(out_.file(name));
  for (const std::string_view figure : grid_figure_names())
    for (const char* extension : kExtensions) fs::remove(out_.file(std::string(figure) + extension));
  const auto known = adoption::task_names();
  for (const Json& task : earlier.value("tasks", Json::array()))
    if (task.is_string() && std::ranges::find(known, task.get_ref<const std::string&>()) != known.end())
      remove_answers(out_.file(task.get<std::string>()));
}

GridScores GridFolder::measure(const evaluation::EvaluationWatch& watch) {
  out_.begin();
  if (out_.discarded()) discard_earlier();
  out_.write_settings();
  GridScores scores{run_.plan, grid_settings(run_.settings), {}, run_.settings.seed};
  for (const adoption::Task& task : run_.tasks) {
    const evaluation::Settings settings = settings_of(task);
    evaluation::ResultFolder folder(out_.file(task.name), evaluation::settings_json(settings), discard_);
    folder.begin();
    const auto report = [&](std::int64_t done, std::int64_t total, const std::string& label) {
      watch.on_progress(done, total, fmt::format("{}: {}", task.name, label));
    };
    auto found = evaluation::evaluate(run_.model, settings, task.examples, task.scorer, &folder,
                                      {watch.control, report});
    scores.tasks.push_back(task_scores(task, found.results, settings));
    std::ranges::move(found.results, std::back_inserter(all_.results));
    all_.n_earlier += found.n_earlier;
    all_.cost.tokens_asked += found.cost.tokens_asked;
    all_.cost.tokens_run += found.cost.tokens_run;
    all_.cost.seconds += found.cost.seconds;
  }
  return scores;
}

void GridFolder::write(const GridFindings& findings, const Json& json,
                       recording::Provenance provenance) const {
  const auto figures = grid_figures(findings, run_.settings.model.name);
  figures::PageOptions page;
  page.replace = true;
  for (const figures::Figure& figure : figures)
    for (const char* extension : kExtensions)
      figures::draw_to_file(figure, out_.file(figure.name + extension), page);
  provenance.configuration = json_text(run_json(run_));
  provenance.model_sha256 = run_.settings.model.sha256;
  provenance.seed = static_cast<std::int64_t>(run_.settings.seed);
  provenance.device = run_.settings.model.device;
  recording::Origin origin;
  origin.provenance = std::move(provenance);
  origin.model = capture::model_info(run_.model.config(), run_.settings.model.name);
  figures::write_nexus(out_.file("grid.h5"), figures, origin, true);
  out_.write("cost.json", json_text(evaluation::cost_json(all_), 2) + "\n");
  out_.write("results.json", json_text(json, 2) + "\n");
}

bool is_of_grid(const fs::path& name) {
  const std::string first = name.begin() == name.end() ? "" : name.begin()->string();
  const auto figures = grid_figure_names();
  const auto tasks = adoption::task_names();
  return first == results::OutFolder::kSettings || std::ranges::find(kFiles, first) != kFiles.end() ||
         std::ranges::find(figures, fs::path(first).stem().string()) != figures.end() ||
         std::ranges::find(tasks, first) != tasks.end();
}

}  // namespace keyscope::grid
