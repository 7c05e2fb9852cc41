#include "app/adoption/adoption_report.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "app/adoption/adoption_figures.hpp"
#include "app/adoption/adoption_json.hpp"
#include "app/adoption/adoption_page.hpp"
#include "app/adoption/tasks.hpp"
#include "app/evaluation/example.hpp"
#include "app/evaluation/result_folder.hpp"
#include "app/figures/nexus.hpp"
#include "app/figures/output_file.hpp"
#include "app/results/out_folder.hpp"
#include "app/validation/page_pictures.hpp"
#include "app/validation/prompts_origin.hpp"

namespace keyscope::adoption {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::ordered_json;

constexpr const char* kTask = "report";  // of the settings, which for an evaluation name its task
constexpr const char* kFigures = "figures";
constexpr std::array kFiles{"report.json", "report.html", "report.h5"};
constexpr std::string_view kGeometry = "geometry-";

// What answers depend on. What is made of them does not: another tolerance takes the same answers.
Json report_settings(evaluation::Settings settings, std::span<const Task> tasks) {
  settings.task = kTask;
  Json names = Json::array(), hashes = Json::object();
  for (const Task& task : tasks) {
    names.push_back(task.name);
    hashes[task.name] = evaluation::examples_sha256(task.examples);
  }
  settings.task_settings = {{"tasks", std::move(names)}, {"examples_sha256", std::move(hashes)}};
  return evaluation::settings_json(settings);
}

// Pictures of an earlier report that this one has not.
void remove_figures(const fs::path& folder, std::span<const figures::Figure> kept) {
  for (const std::string_view name : adoption_figure_names())
    if (std::ranges::find(kept, name, &figures::Figure::name) == kept.end())
      fs::remove(folder / fmt::format("{}.svg", name));
}

// What may stand in an array of texts of an earlier report's settings.
std::vector<std::string> texts_of(const Json& settings, const char* name) {
  std::vector<std::string> texts;
  for (const Json& text : settings.value(name, Json::array()))
    if (text.is_string()) texts.push_back(text);
  return texts;
}

// A folder of answers or of geometry, but for what is not of this program.
void remove_results(const fs::path& folder) {
  if (!fs::is_directory(fs::symlink_status(folder))) return;
  for (const fs::path& file : evaluation::folder_files(folder, "", false)) fs::remove(file);
  fs::remove_all(folder / "prompts");
  std::error_code not_empty;
  fs::remove(folder, not_empty);
}

// Of an earlier report of these settings: its pages, and answers to tasks and geometry of budgets that may
// not be asked for now.
void remove_report(const fs::path& out, const Json& settings) {
  for (const char* name : kFiles) fs::remove(out / name);
  remove_figures(out / kFigures, {});
  const std::vector<std::string_view> tasks = task_names();
  for (const std::string& task : texts_of(settings, "tasks"))
    if (std::ranges::find(tasks, task) != tasks.end()) remove_results(out / task);
  for (const std::string& budget : texts_of(settings, "budgets"))
    if (budget.find('/') == budget.npos) remove_results(out / geometry_folder(budget));
}

}  // namespace

std::string geometry_folder(const std::string& budget) { return std::string(kGeometry) + budget; }

bool is_of_report(const fs::path& name) {
  const std::string first = name.begin() == name.end() ? "" : name.begin()->string();
  const std::vector<std::string_view> tasks = task_names();
  return first == results::OutFolder::kSettings || first == kFigures || first.starts_with(kGeometry) ||
         std::ranges::find(kFiles, first) != kFiles.end() || std::ranges::find(tasks, first) != tasks.end();
}

void claim_folder(const fs::path& out, const evaluation::Settings& settings, std::span<const Task> tasks,
                  bool discard) {
  results::OutFolder folder(out, report_settings(settings, tasks), kTask, discard);
  if (const auto& discarded = folder.discarded()) {
    if (discarded->value("task", Json()) != kTask)
      throw FileError(
          fmt::format("{}: of another command; take another --out", folder.settings_file().string()));
    remove_report(out, *discarded);
  }
  folder.make();
  folder.write_settings();
}

void write_adoption(const Adoption& adoption, const capture::Model& model,
                    std::span<const validation::Prompt> prompts, recording::Provenance provenance,
                    const std::filesystem::path& out) {
  const std::vector<figures::Figure> all = adoption_figures(adoption);
  const auto pictures = validation::draw_pictures(all, out / kFigures);
  remove_figures(out / kFigures, all);
  const nlohmann::ordered_json json = adoption_json(adoption);
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;  // skipped rows may be no UTF-8
  provenance.configuration = json.dump(-1, ' ', false, kReplace);
  provenance.model_sha256 = adoption.model.sha256;
  provenance.seed = static_cast<std::int64_t>(adoption.seed);
  provenance.device = adoption.model.device;
  provenance.schedule = "block";
  figures::write_nexus(out / "report.h5", all,
                       validation::prompts_origin(model, adoption.model.name, prompts, std::move(provenance)),
                       true);
  figures::write_file(out / "report.html", adoption_page(adoption, pictures), true);
  figures::write_file(out / "report.json", json.dump(2, ' ', false, kReplace) + "\n", true);
}

}  // namespace keyscope::adoption
