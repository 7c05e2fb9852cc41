#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "app/commands/capture.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "app/drawing/cairo_painter.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/nexus.hpp"
#include "app/measures/answer.hpp"
#include "app/measures/head_measures.hpp"
#include "app/measures/recording_measures.hpp"
#include "app/window/window.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/outputs_together.hpp"

namespace keyscope::commands {

namespace {

// One layer and KV head of a recording.
struct HeadChoice {
  int layer = 0;
  int kv_head = 0;
};

// The head where unlike keys receive the most attention: the largest Spearman correlation of the first run.
HeadChoice most_telling_head(const std::vector<measures::RunMeasures>& runs) {
  HeadChoice best;
  double highest = -2;  // below every correlation
  if (runs.empty()) return best;
  for (const auto& head : runs.front().heads)
    if (head.spearman && *head.spearman > highest) {
      highest = *head.spearman;
      best = {head.layer, head.kv_head};
    }
  return best;
}

// Draws the demo's pictures of one head into `folder` and all of them into one NeXus file; its own earlier
// files are replaced. Returns what it wrote.
std::vector<std::filesystem::path> write_demo_figures(const recording::Recording& recording, HeadChoice head,
                                                      const std::filesystem::path& folder) {
  const auto info = recording.info();
  const auto nexus_path = folder / "figures.h5";
  figures::NexusWriter nexus(nexus_path, {info->provenance, info->model, info->prompt}, true);
  figures::PageOptions page;
  page.replace = true;
  const measures::MeasuredHeads heads(recording);
  std::vector<std::filesystem::path> files;
  std::atomic<bool> cancelled = false;
  OnInterrupt on_interrupt([&] { cancelled = true; });
  for (const auto name : figures::figure_names()) {
    if (cancelled) throw Cancelled("interrupted");
    if (!figures::is_recorded(*info, name)) continue;
    figures::FigureRequest request;
    request.name = name;
    request.layer = head.layer;
    if (figures::scope_of(name) == figures::FigureScope::kQueryHead)
      request.query_head = head.kv_head * info->model.group_size(head.layer);
    else
      request.kv_head = head.kv_head;
    const figures::Figure figure = figures::build_figure(heads, request);
    files.push_back(folder / (request.name + ".png"));
    figures::draw_to_file(figure, files.back(), page);
    nexus.add(figure);
  }
  nexus.finish();
  files.push_back(nexus_path);
  return files;
}

}  // namespace

// The main job on the embedded default: capture, analyze, figures, window.

namespace {

namespace fs = std::filesystem;

// Half of the prompt, in whole blocks: enough to keep the answer, little enough to lose it.
constexpr std::int64_t kBudget = 512;
constexpr std::int64_t kBlock = 64;
constexpr std::int64_t kGenerate = 12;

struct DemoArguments {
  std::string out = "keyscope-demo";
  bool no_window = false;
  bool quiet = false;
};

// A prompt whose right answer is known.
struct DemoPrompt {
  fs::path file;
  std::string expected;
};

DemoPrompt read_demo_prompt(const fs::path& folder) {
  const fs::path list = folder / "prompts.json";
  const auto json = parse_json(read_small_file(list));
  const bool sound = json.is_array() && !json.empty() && json[0].is_object() && json[0].contains("file") &&
                     json[0]["file"].is_string() && json[0].contains("expected") &&
                     json[0]["expected"].is_string();
  if (!sound)
    throw FileError(
        fmt::format("{}: expected an array of objects with \"file\" and \"expected\"", list.string()));
  return {folder / json[0]["file"].get<std::string>(), json[0]["expected"].get<std::string>()};
}

capture::CaptureOptions demo_options(const std::string& answer) {
  capture::CaptureOptions options;
  for (const char* policy : {"none", "keydiff", "sink", "tova", "random"})
    options.policies.push_back(analysis::parse_policy(policy));
  options.budget = kBudget;
  options.block_size = kBlock;
  options.generate = kGenerate;
  options.answer = answer;
  options.record_values = true;
  options.record_logits = true;
  options.command = command_line();
  return options;
}

std::vector<measures::RunMeasures> analyze_demo(const recording::Recording& recording, bool quiet) {
  std::atomic<bool> cancelled = false;
  OnInterrupt on_interrupt([&] { cancelled = true; });
  Progress progress("heads", quiet);
  using measures::Part;
  return measures::measure_recording(
      recording, {}, {Part::kAgreement, Part::kVolume, Part::kMass},
      [&](std::int64_t done, std::int64_t total, const std::string& label) {
        progress.update(done, total, label);
      },
      cancelled);
}

void print_answers(const recording::RecordingInfo& info, const std::string& expected) {
  say("\nThe question at the end of the text has one right answer, {}. What each policy's cache still "
      "knows:\n",
      expected);
  for (const auto& run : info.runs) {
    std::string answer = run.generated.text;
    const bool right = measures::is_answered(run.generated, expected);
    answer.erase(std::min(answer.find('\n'), answer.size()));
    say("  {:<10}{:<16}{}\n", run.plan.name, answer, right ? "right" : "wrong");
  }
}

// The recording, its table and its figures, which get their names together.
//   returns the head that the figures are of
HeadChoice make_demo(const DemoArguments& arguments, const fs::path& recording_path) {
  const fs::path assets = assets_folder(), out = arguments.out;
  const DemoPrompt prompt = read_demo_prompt(assets / "demo_model/prompts");
  const auto model = capture::Model::load(assets / "demo_model", {.device = "cpu"});
  capture::CaptureOptions options = demo_options(prompt.expected);
  options.prompt_ids = model->tokenizer()->encode(read_file(prompt.file), true);
  OutputsTogether outputs;
  print_plan(*model, capture::plan_capture(*model, options), recording_path, arguments.quiet);
  capture_to_file(*model, options, {recording_path, true, arguments.quiet});

  const fs::path part = outputs.part_of(recording_path);
  try {
    const auto recording = recording::open_recording(part.string());
    const auto info = recording->info();
    const auto runs = analyze_demo(*recording, arguments.quiet);
    say("{}: {} tokens of {}, blocks of {}; means over {} layers and {}\n\n", info->model.name,
        info->n_prompt(), prompt.file.filename().string(), kBlock, info->layers.size(),
        figures::describe_kv_heads(*info));
    print_run_summary(*info, runs);
    print_answers(*info, prompt.expected);

    const HeadChoice head = most_telling_head(runs);
    const auto files = write_demo_figures(*recording, head, out);
    outputs.commit();
    say("\nRecording  {}\n", recording_path.string());
    for (const auto& file : files) say("Figure     {}\n", file.string());
    return head;
  } catch (const Cancelled&) {
    throw Cancelled(fmt::format("interrupted; the recording is in {}", part.string()));
  } catch (const FileError& error) {
    throw FileError(fmt::format("{}; the recording is in {}", error.what(), part.string()));
  }
}

void run_demo(const DemoArguments& arguments) {
  const fs::path out = arguments.out;
  std::error_code error;
  fs::create_directories(out, error);
  if (error) throw FileError(fmt::format("{}: the folder cannot be made: {}", out.string(), error.message()));
  const fs::path recording_path = out / "demo.h5";
  const HeadChoice head = make_demo(arguments, recording_path);
  std::fflush(stdout);

  if (arguments.no_window) return;
  if (!window::has_display()) {
    say(stderr, "No display, so no window; on a desktop: keyscope view {}\n", recording_path.string());
    return;
  }
  window::WindowRequest request;
  request.path = recording_path;
  request.selection.run = "keydiff";
  request.selection.layer = head.layer;
  request.selection.kv_head = head.kv_head;
  window::run_window(request);
}

}  // namespace

void add_demo(CLI::App& app) {
  auto arguments = std::make_shared<DemoArguments>();
  CLI::App* command = app.add_subcommand(
      "demo", "The embedded model reads a text under five policies: table, figures, recording, window");
  command
      ->add_option("--out", arguments->out, "Folder for what it writes; its own earlier files are replaced")
      ->capture_default_str();
  command->add_flag("--no-window", arguments->no_window, "Do not open the window");
  command->add_flag("--quiet", arguments->quiet, "No progress");
  command->footer("Example:\n  keyscope demo --no-window");
  command->callback([arguments] { run_demo(*arguments); });
}

}  // namespace keyscope::commands
