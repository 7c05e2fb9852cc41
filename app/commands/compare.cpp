#include <atomic>
#include <memory>
#include <string>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "app/measures/recording_measures.hpp"
#include "base/errors.hpp"

namespace keyscope::commands {
namespace {

using Json = nlohmann::ordered_json;

struct CompareArguments {
  std::string a, b;
  measures::ComparisonOptions options;
  JsonTarget json;
  bool quiet = false;
};

std::string place(const measures::DatasetDifference& found) {
  return found.layer < 0 ? found.run : fmt::format("{}, layer {}", found.run, found.layer);
}

std::string remark(const measures::DatasetDifference& found) {
  if (!found.agrees()) return "  <- beyond the tolerance";
  return found.rounding > 0 ? fmt::format("  stored rounded, by up to {:.2g} of the largest", found.rounding)
                            : "";
}

void print_difference(const measures::RecordingDifference& difference) {
  for (const std::string& sentence : difference.structure) say("{}\n", sentence);
  if (!difference.structure.empty()) say("\n");
  say("{:<24}{:<20}{:>10}{:>8}{:>16}{:>16}\n", "run", "dataset", "different", "close", "largest |a-b|",
      "largest value");
  for (const auto& found : difference.datasets)
    say("{:<24}{:<20}{:>10}{:>8}{:>16.3g}{:>16.3g}{}\n", place(found), found.dataset, found.n_different,
        found.n_close_calls, found.largest_difference, found.largest_value, remark(found));
}

Json difference_json(const measures::RecordingDifference& difference) {
  Json json{{"format", 1}, {"agree", difference.agrees()}, {"structure", difference.structure}};
  json["datasets"] = Json::array();
  for (const auto& found : difference.datasets) {
    Json entry{{"run", found.run}, {"layer", found.layer < 0 ? Json() : Json(found.layer)}};
    entry["dataset"] = found.dataset;
    entry["agree"] = found.agrees();
    entry["different"] = found.n_different;
    entry["close_calls"] = found.n_close_calls;
    entry["largest_difference"] = found.largest_difference;
    entry["largest_value"] = found.largest_value;
    entry["tolerance"] = found.tolerance;
    json["datasets"].push_back(std::move(entry));
  }
  return json;
}

void run_compare(const CompareArguments& arguments) {
  require_writable(arguments.json);
  const auto a = recording::open_recording(arguments.a), b = recording::open_recording(arguments.b);
  std::atomic<bool> cancelled = false;
  OnInterrupt on_interrupt([&] { cancelled = true; });
  Progress progress("layers", arguments.quiet);
  const auto difference = measures::compare_recordings(
      *a, *b, arguments.options,
      [&](std::int64_t done, std::int64_t total) { progress.update(done, total, ""); }, cancelled);
  progress.clear();
  if (!arguments.json.is_stdout()) print_difference(difference);
  if (arguments.json.given()) write_json(arguments.json, difference_json(difference));
  if (!difference.agrees())
    throw Error(fmt::format("{} and {} differ beyond the tolerance", arguments.a, arguments.b));
}

}  // namespace

void add_compare(CLI::App& app) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command = app.add_subcommand(
      "compare", "Where two recordings of one prompt differ; exit status 0 if nowhere beyond the tolerance");
  command->add_option("A", arguments->a, "A recording, or the .part of a killed capture")->required();
  command->add_option("B", arguments->b, "Another one")->required();
  command
      ->add_option("--tolerance", arguments->options.tolerance,
                   "Of floating-point values, as a share of a dataset's largest")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command
      ->add_option("--close-call", arguments->options.close_call,
                   "Rows evicted by so small a margin may go either way, and margins differ by as much")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--json", arguments->json.path, "Write the differences as JSON; - for stdout");
  command->add_flag("--force", arguments->json.replace, "Replace an existing --json file");
  command->add_flag("--quiet", arguments->quiet, "No progress");
  command->footer("Example:\n  keyscope compare needle.h5 needle.h5");
  command->callback([arguments] { run_compare(*arguments); });
}

}  // namespace keyscope::commands
