#include "app/adoption/adoption_files.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "analysis/errors.hpp"
#include "app/adoption/adoption_figures.hpp"
#include "app/adoption/adoption_json.hpp"
#include "app/adoption/adoption_page.hpp"
#include "app/figures/nexus.hpp"
#include "app/figures/output_file.hpp"
#include "app/validation/page_pictures.hpp"
#include "app/validation/prompts_origin.hpp"
#include "capture/model/strict_json.hpp"

namespace keyscope::adoption {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJson = "report.json";

// Pictures of an earlier report that this one has not.
void remove_figures(const fs::path& folder, std::span<const figures::Figure> kept) {
  for (const std::string_view name : adoption_figure_names())
    if (std::ranges::find(kept, name, &figures::Figure::name) == kept.end())
      fs::remove(folder / fmt::format("{}.svg", name));
}

}  // namespace

void make_way(const fs::path& out, std::span<const Task> tasks, bool discard) {
  const fs::path report = out / kJson;
  if (!fs::exists(report)) return;
  const nlohmann::json json = capture::parse_json_object(capture::read_small_file(report), report.string());
  std::vector<std::string> earlier, asked;
  for (const Task& task : tasks) asked.push_back(task.name);
  try {
    for (const auto& task : json.at("tasks")) earlier.push_back(task.at("task"));
  } catch (const nlohmann::json::exception&) {
    throw FileError(fmt::format("{}: is no report of this program; take another --out", report.string()));
  }
  if (discard) {
    for (const char* name : {kJson, "report.html", "report.h5"}) fs::remove(out / name);
    remove_figures(out / "figures", {});
    return;
  }
  if (earlier != asked)
    throw FileError(
        fmt::format("{}: a report of other tasks is there ({}; asked for are {}); take another "
                    "--out, or --force to replace it",
                    report.string(), fmt::join(earlier, ", "), fmt::join(asked, ", ")));
}

void write_adoption(const Adoption& adoption, const capture::Model& model,
                    std::span<const validation::Prompt> prompts, recording::Provenance provenance,
                    const std::filesystem::path& out) {
  const std::vector<figures::Figure> all = adoption_figures(adoption);
  const auto pictures = validation::draw_pictures(all, out / "figures");
  remove_figures(out / "figures", all);
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
  figures::write_file(out / kJson, json.dump(2, ' ', false, kReplace) + "\n", true);
}

}  // namespace keyscope::adoption
