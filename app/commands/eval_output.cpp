#include "app/commands/eval_output.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <set>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/commands/provenance_now.hpp"
#include "app/evaluation/figure_names.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/drawing/cairo_painter.hpp"
#include "app/figures/nexus.hpp"
#include "app/session/live_text.hpp"
#include "capture/recording/output_path.hpp"

namespace keyscope::commands {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

void draw(const figures::Figure& figure, const fs::path& path, bool replace) {
  figures::PageOptions page;
  page.replace = replace;
  figures::draw_to_file(figure, path, page);
}

// What a --figure comes to: all figures in one NeXus file; else the first one under the name that was asked
// for, the others with their own behind it.
std::vector<fs::path> figure_files(const fs::path& asked, std::span<const std::string_view> names) {
  std::vector<fs::path> files{asked};
  if (figures::is_nexus_path(asked)) return files;
  for (const std::string_view name : names.subspan(1))
    files.push_back(asked.parent_path() /
                    fmt::format("{}-{}{}", asked.stem().string(), name, asked.extension().string()));
  return files;
}

std::vector<std::string_view> names_of(const std::vector<figures::Figure>& made) {
  std::vector<std::string_view> names;
  names.reserve(made.size());
  for (const figures::Figure& figure : made) names.emplace_back(figure.name);
  return names;
}

void require_different(const std::vector<fs::path>& files) {
  std::set<fs::path> seen;
  for (const fs::path& path : files)
    if (!seen.insert(fs::weakly_canonical(fs::absolute(path))).second)
      throw UsageError(fmt::format("{}: would be written twice; choose another name", path.string()));
}

}  // namespace

void check_outputs(const EvalOptions& options, const evaluation::Settings& settings) {
  const bool compared = !settings.policies.empty();
  const auto names = evaluation::figure_names(settings.task, compared);
  std::vector<fs::path> files;
  for (const std::string& path : options.figures) {
    if (names.empty()) throw UsageError(fmt::format("--figure: {} draws none; leave it away", settings.task));
    if (!figures::is_nexus_path(path)) figures::format_of(path);
    std::ranges::copy(figure_files(path, names), std::back_inserter(files));
  }
  for (const fs::path& path : files)
    if (!lies_in_new_folder(path, options.out)) recording::output_path(path, options.force);
  const JsonTarget json = options.json_target();
  require_writable(json, options.model.folder(), options.out);
  if (json.given() && !json.is_stdout()) files.emplace_back(json.path);
  if (!options.out.empty())
    std::ranges::copy(evaluation::folder_files(options.out, settings.task, compared),
                      std::back_inserter(files));
  require_different(files);
}

recording::Origin eval_origin(const evaluation::Settings& settings, const capture::Model& model) {
  const capture::ModelConfig& config = model.config();
  recording::Origin origin;
  origin.provenance = provenance_now();
  origin.provenance.configuration = evaluation::settings_json(settings).dump();
  origin.provenance.model_sha256 = settings.model.sha256;
  origin.provenance.seed = static_cast<std::int64_t>(settings.seed);
  origin.provenance.device = settings.model.device;
  origin.model = {config.raw_json, settings.model.name, config.n_layers,
                  config.n_heads,  config.n_kv_heads,   config.head_dim};
  return origin;
}

void write_asked_figures(const EvalOptions& options, const std::vector<figures::Figure>& made,
                         const recording::Origin& origin) {
  const std::vector<std::string_view> names = names_of(made);
  for (const fs::path path : options.figures) {
    if (figures::is_nexus_path(path)) {
      figures::write_nexus(path, made, origin, options.force);
      continue;
    }
    const auto files = figure_files(path, names);
    for (std::size_t i = 0; i < made.size(); ++i) draw(made[i], files[i], options.force);
  }
}

void write_folder(const std::vector<figures::Figure>& made, const Json& json, const std::string& task,
                  const evaluation::ResultFolder& folder, const recording::Origin& origin) {
  folder.write("results.json", json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  for (const figures::Figure& figure : made)
    for (const char* extension : {".png", ".svg", ".pdf"})
      draw(figure, folder.file(figure.name + extension), true);
  if (!made.empty()) figures::write_nexus(folder.file(task + ".h5"), made, origin, true);
}

std::string cost_line(const evaluation::Evaluation& evaluation) {
  const auto count = [](std::int64_t n) { return figures::format_count(n); };
  const capture::CompletionCost& cost = evaluation.cost;
  if (cost.tokens_run == 0)
    return fmt::format("All {} results were there.\n", count(std::ssize(evaluation.results)));
  return fmt::format(
      "{} results, {} of them from before; {} tokens asked for, {} run, {} shared (a factor of {:.1f}), {}, "
      "{} "
      "tokens run a second.\n",
      count(std::ssize(evaluation.results)), count(evaluation.n_earlier), count(cost.tokens_asked),
      count(cost.tokens_run), count(cost.tokens_asked - cost.tokens_run),
      static_cast<double>(cost.tokens_asked) / static_cast<double>(cost.tokens_run),
      session::duration_text(cost.seconds),
      count(static_cast<std::int64_t>(static_cast<double>(cost.tokens_run) / cost.seconds)));
}

}  // namespace keyscope::commands
