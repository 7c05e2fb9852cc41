#include "app/results/prompts.hpp"

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "app/drawing/cairo_painter.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/nexus.hpp"
#include "base/files.hpp"
#include "base/outputs_together.hpp"
#include "base/text.hpp"
#include "capture/model/config.hpp"
#include "capture/model/model_cache.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::commands {
namespace {

using results::PromptLengths;

struct PromptsArguments {
  std::string file, model, out;
  std::filesystem::path folder;  // of the model
  std::vector<std::int64_t> budgets;
  std::optional<std::int64_t> max_tokens;
  JsonTarget json;
  bool force = false;
};

PromptLengths measure_lengths(const PromptsArguments& arguments, const capture::ModelConfig& config) {
  const tokenizer::FolderTokenizer tokenizer(arguments.folder);
  std::vector<std::int64_t> lengths;
  for (const auto& prompt : results::read_prompts(arguments.file, config, tokenizer, arguments.max_tokens))
    lengths.push_back(std::ssize(prompt.ids));
  return results::measure_lengths(std::move(lengths), arguments.budgets);
}

nlohmann::ordered_json to_json(const PromptLengths& lengths) {
  nlohmann::ordered_json json{{"format", 1},
                              {"n_prompts", lengths.lengths.size()},
                              {"lengths", lengths.lengths},
                              {"mean", lengths.mean},
                              {"median", lengths.median},
                              {"p95", lengths.p95},
                              {"least", lengths.least},
                              {"most", lengths.most},
                              {"histogram", nlohmann::ordered_json::array()},
                              {"budgets", nlohmann::ordered_json::array()}};
  for (const auto& bin : lengths.bins)
    json["histogram"].push_back({{"first", bin.first}, {"end", bin.end}, {"n_prompts", bin.n_prompts}});
  for (std::size_t i = 0; i < lengths.budgets.size(); ++i)
    json["budgets"].push_back(
        {{"budget", lengths.budgets[i]}, {"mean_compression_ratio", lengths.ratios[i]}});
  return json;
}

std::string table_of(const PromptLengths& lengths) {
  const auto count = [](double value) { return format_count(std::llround(value)); };
  std::string table =
      fmt::format("{} prompts: {} to {} tokens, mean {}, median {}, 95th percentile {}\n\n",
                  lengths.lengths.size(), count(double(lengths.least)), count(double(lengths.most)),
                  count(lengths.mean), count(lengths.median), count(lengths.p95));
  table += fmt::format("{:>19}  {:>7}\n", "tokens", "prompts");
  for (const auto& bin : lengths.bins)
    table += fmt::format("{:>8} – {:>8}  {:>7}\n", count(double(bin.first)), count(double(bin.end - 1)),
                         count(double(bin.n_prompts)));
  if (!lengths.budgets.empty()) table += fmt::format("\n{:>8}  {}\n", "budget", "mean of min(1, N / length)");
  for (std::size_t i = 0; i < lengths.budgets.size(); ++i)
    table += fmt::format("{:>8}  {:.3f}\n", count(double(lengths.budgets[i])), lengths.ratios[i]);
  return table;
}

void write_lengths_figure(const PromptsArguments& arguments, const capture::ModelConfig& config,
                          const PromptLengths& lengths) {
  const figures::Figure figure =
      results::prompt_lengths_figure(lengths, std::filesystem::path(arguments.file).filename().string());
  if (!figures::is_nexus_path(arguments.out)) {
    figures::PageOptions page;
    page.replace = arguments.force;
    return figures::draw_to_file(figure, arguments.out, page);
  }
  recording::Origin origin;
  origin.provenance = provenance_now();
  origin.model = capture::model_info(config, capture::model_name(arguments.folder));
  figures::write_nexus(arguments.out, {figure}, origin, arguments.force);
}

void run_prompts(PromptsArguments& arguments) {
  arguments.json.replace = arguments.force;
  if (!arguments.out.empty()) {
    if (!figures::is_nexus_path(arguments.out)) figures::format_of(arguments.out);
    output_path(arguments.out, arguments.force);
  }
  if (arguments.json.given()) require_writable(arguments.json);
  require_different({{"--out", arguments.out}, {"--json", arguments.json.file()}});
  arguments.folder = capture::find_model(arguments.model);
  const capture::ModelConfig config = capture::read_config(arguments.folder);
  const PromptLengths lengths = measure_lengths(arguments, config);
  OutputsTogether outputs;
  if (!arguments.out.empty()) write_lengths_figure(arguments, config, lengths);
  if (arguments.json.given()) write_json(arguments.json, to_json(lengths));
  outputs.commit();
  if (!arguments.json.is_stdout()) say("{}", table_of(lengths));
}

}  // namespace

void add_prompts(CLI::App& app) {
  auto arguments = std::make_shared<PromptsArguments>();
  CLI::App* command =
      app.add_subcommand("prompts", "How long the prompts of a file are, and what budgets keep of them");
  command
      ->add_option("FILE", arguments->file,
                   "A file with a JSON object a line: {\"prompt\": \"text\"} or {\"ids\": [1, 80]}")
      ->required();
  command
      ->add_option(
          "--model", arguments->model,
          "A model folder, or ORG/NAME[@REVISION] in the Hugging Face cache; only its config.json and "
          "tokenizer.json are needed")
      ->required();
  command->add_option("--budget", arguments->budgets, "N: rows kept per KV head, repeatable")
      ->allow_extra_args(false)
      ->check(one_or_more());
  command->add_option("--max-tokens", arguments->max_tokens, "Count only the first N tokens of every prompt")
      ->check(one_or_more());
  command->add_option("--out", arguments->out, "A figure of it: .png, .svg, .pdf or .h5");
  command->add_option("--json", arguments->json.path, "All numbers as JSON into a file; - is stdout");
  command->add_flag("--force", arguments->force, "Replace existing files");
  command->footer(
      "Example:\n  keyscope prompts assets/demo_model/prompts/passages.jsonl --model assets/demo_model "
      "--budget "
      "128 --out lengths.png");
  command->callback([arguments] { run_prompts(*arguments); });
}

}  // namespace keyscope::commands
