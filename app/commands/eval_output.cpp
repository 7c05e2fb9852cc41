#include "app/commands/eval_output.hpp"

#include <cstdint>
#include <filesystem>

#include <fmt/format.h>

#include "app/commands/provenance_now.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/canvas_cairo.hpp"
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

}  // namespace

void check_outputs(const EvalOptions& options) {
  for (const std::string& path : options.figures) {
    if (!figures::is_nexus_path(path)) figures::format_of(path);
    recording::output_path(path, options.force);
  }
  require_writable(options.json_target(), options.model.folder());
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
  for (const fs::path path : options.figures) {
    if (figures::is_nexus_path(path)) {
      figures::write_nexus(path, made, origin, options.force);
      continue;
    }
    const auto beside = [&](const figures::Figure& figure) {
      return path.parent_path() / (path.stem().string() + "-" + figure.name + path.extension().string());
    };
    for (std::size_t i = 0; i < made.size(); ++i)
      draw(made[i], i == 0 ? path : beside(made[i]), options.force);
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
