#include "app/commands/eval_steps.hpp"

#include <fmt/format.h>

#include "analysis/errors.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/interrupt.hpp"
#include "app/commands/option_checks.hpp"
#include "app/commands/progress.hpp"
#include "app/commands/provenance_now.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/canvas_cairo.hpp"
#include "app/figures/nexus.hpp"
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

void EvalOptions::add_to(CLI::App& command) {
  command.add_option("--model", model, "A model folder in Hugging Face layout")->required();
  command
      .add_option("--policy", policies,
                  policy_help() + "; repeatable, and none always runs as what they are compared with")
      ->allow_extra_args(false);
  command
      .add_option("--budget", budgets,
                  "N: rows kept per KV head, such as 128, or a share of each prompt, such as 25%; a list")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--block", blocks, "B: prompt tokens per block; a list")
      ->delimiter(',')
      ->check(one_or_more())
      ->capture_default_str();
  command.add_option("--out", out, "Folder for results; an interrupted evaluation goes on there")
      ->check(not_empty());
  command.add_option("--json", json.path, "All numbers as JSON into a file; - is stdout");
  command.add_option("--figure", figures, "Also draw into this file: .png, .svg, .pdf or .h5; repeatable")
      ->allow_extra_args(false);
  command.add_option("--dtype", dtype, "auto, float32, bfloat16 or float16")->capture_default_str();
  command.add_option("--device", device, "auto, cpu or cuda")->capture_default_str();
  command.add_option("--threads", threads, "Threads for inference (default: all cores; one for tiny models)")
      ->check(one_or_more());
  command.add_option("--seed", seed, "Seed of what is drawn: examples, policies, the bootstrap")
      ->check(zero_or_more())
      ->capture_default_str();
  command.add_flag("--force", force, "Replace files; discard results of other settings in --out");
  command.add_flag("--quiet", quiet, "No progress");
}

void check_outputs(const EvalOptions& options) {
  for (const std::string& path : options.figures) {
    if (!figures::is_nexus_path(path)) figures::format_of(path);
    recording::output_path(path, options.force);
  }
  if (options.json.given()) require_writable(options.json, options.model);
}

evaluation::Settings asked_settings(const EvalOptions& options, const std::string& task,
                                    const Json& task_settings) {
  evaluation::Settings settings;
  settings.task = task;
  settings.policies = evaluation::parse_policies(options.policies);
  settings.budgets = evaluation::parse_budgets(options.budgets);
  settings.blocks = options.blocks;
  settings.seed = options.seed;
  settings.task_settings = task_settings;
  evaluation::check_grid(settings);
  return settings;
}

std::shared_ptr<const capture::Model> load_eval_model(const EvalOptions& options) {
  capture::ModelOptions asked;
  asked.dtype = parse_dtype(options.dtype);
  asked.device = parse_device(options.device);
  asked.threads = options.threads;
  auto model = capture::Model::load(options.model, asked);
  if (model->tokenizer() == nullptr)
    throw FileError(fmt::format("{}: there is no tokenizer.json; an evaluation needs one", options.model));
  return model;
}

evaluation::Evaluation run_examples(const EvalOptions& options, const capture::Model& model,
                                    evaluation::Settings& settings,
                                    std::span<const evaluation::Example> examples,
                                    const evaluation::Scorer& scorer,
                                    std::unique_ptr<evaluation::ResultFolder>& folder) {
  evaluation::check_examples(examples, model);
  settings.task_settings["examples_sha256"] = evaluation::examples_sha256(examples);
  if (!options.out.empty()) {
    folder = std::make_unique<evaluation::ResultFolder>(options.out, evaluation::settings_json(settings),
                                                        options.force);
    folder->begin();
  }
  capture::CaptureControl control;
  OnInterrupt on_interrupt([&] { control.cancel(); });
  Progress progress("tokens", options.quiet);
  return evaluation::evaluate(model, settings, examples, scorer, folder.get(),
                              {control, [&](std::int64_t done, std::int64_t total, const std::string& label) {
                                 progress.update(done, total, label);
                               }});
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
      format_duration(cost.seconds),
      count(static_cast<std::int64_t>(static_cast<double>(cost.tokens_run) / cost.seconds)));
}

recording::Origin eval_origin(const evaluation::Settings& settings, const capture::Model& model) {
  const capture::ModelConfig& config = model.config();
  recording::Origin origin;
  origin.provenance = provenance_now();
  origin.provenance.configuration = evaluation::settings_json(settings).dump();
  origin.provenance.model_sha256 = settings.model_sha256;
  origin.provenance.seed = static_cast<std::int64_t>(settings.seed);
  origin.provenance.device = settings.device;
  origin.model = {config.raw_json, settings.model_name, config.n_layers,
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

}  // namespace keyscope::commands
