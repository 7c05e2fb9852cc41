#include "app/commands/view.hpp"

#include <atomic>
#include <charconv>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "app/commands/capture.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "app/figures/catalogue.hpp"
#include "app/session/made_figures.hpp"
#include "app/window/window.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"

namespace keyscope::commands {

namespace {

struct ViewArguments {
  std::string file;
  CaptureCommandOptions live;
  std::string out;
  bool force = false;
  std::string run;
  int layer = -1;
  int kv_head = -1;
  std::int64_t block = -1, token = -1;
  std::string measure, reference;
  std::vector<std::string> beside;
  std::string view;
  std::string projection, colour, density;
  bool queries = false;
  session::FigureSettings settings;
  std::string order, reduction;
  std::string size;
  std::string theme, layout;
  bool fresh = false, in_heads = false;
  bool paused = false;
  float scale = 0;
  std::string screenshot;
  std::string state_file;
};

window::WindowRequest window_request(const ViewArguments& arguments) {
  window::WindowRequest request;
  request.path = arguments.file;
  if (!arguments.run.empty()) request.selection.run = arguments.run;
  if (arguments.layer >= 0) request.selection.layer = arguments.layer;
  if (arguments.kv_head >= 0) request.selection.kv_head = arguments.kv_head;
  if (arguments.block >= 0) request.selection.block = arguments.block;
  if (!arguments.measure.empty()) request.selection.measure = arguments.measure;
  if (!arguments.reference.empty()) request.selection.reference = arguments.reference;
  request.selection.beside = arguments.beside;
  if (arguments.token >= 0) request.selection.token = arguments.token;
  if (!arguments.view.empty()) request.view = view_name(arguments.view);
  if (!arguments.projection.empty())
    request.look.projection = figures::parse_projection(arguments.projection);
  if (!arguments.colour.empty()) request.look.colour = figures::parse_key_colour(arguments.colour);
  request.look.queries = arguments.queries;
  if (!arguments.density.empty()) request.look.density = figures::parse_density(arguments.density);
  request.settings = arguments.settings;
  if (arguments.in_heads && arguments.token < 0)
    throw UsageError("--in-heads: of which token? give its --token");
  if (arguments.in_heads) request.settings.token = arguments.token;
  if (!arguments.order.empty()) request.settings.order = figures::parse_order(arguments.order);
  if (!arguments.reduction.empty())
    request.settings.reduction = figures::parse_reduction(arguments.reduction);
  if (!arguments.size.empty()) {
    const WindowSize size = parse_window_size(arguments.size);
    request.width = size.width;
    request.height = size.height;
  }
  if (!arguments.theme.empty()) {
    if (arguments.theme != "dark" && arguments.theme != "light")
      throw UsageError(fmt::format("--theme: '{}' is not one of dark, light", arguments.theme));
    request.light = arguments.theme == "light";
  }
  request.layout = arguments.layout;
  request.fresh = arguments.fresh;
  request.scale = arguments.scale;
  request.screenshot = arguments.screenshot;
  request.replace_screenshot = arguments.force;
  require_different({{"--out", arguments.out}, {"--screenshot", arguments.screenshot}});
  if (!arguments.screenshot.empty()) output_path(arguments.screenshot, arguments.force);
  request.state_file = arguments.state_file;
  return request;
}

// How figures are made, by the names that `figure` has for it.
void add_figure_settings(CLI::App& command, ViewArguments& arguments) {
  command.add_flag("--ranks", arguments.settings.ranks, "score-attention: ranks instead of values");
  command.add_flag("--linear", arguments.settings.linear,
                   "attention: a linear colour scale instead of a logarithmic one");
  command.add_flag("--retained", arguments.settings.retained_only, "cosine-matrix: only the retained keys");
  command.add_option("--order", arguments.order,
                     "cosine-matrix: position (the default), or dendrogram; token-lives: position, or loss");
  command.add_flag("--in-heads", arguments.in_heads, "token-lives: the life of --token in every head");
  command.add_option("--reduce", arguments.reduction,
                     "How several tokens become one pixel of a large matrix: mean, max, min or first");
}

// What only a live run understands does nothing without one.
void refuse_live_options(const CLI::App& command) {
  for (const char* name :
       {"--prompt",     "--prompt-file", "--prompt-ids", "--chat",     "--system",    "--messages",
        "--max-tokens", "--policy",      "--budget",     "--oracle",   "--positions", "--generate",
        "--ignore-eos", "--answer",      "--schedule",   "--paused",   "--layers",    "--heads",
        "--record",     "--score-last",  "--store",      "--compress", "--dtype",     "--device",
        "--threads",    "--seed",        "--out"})
    if (command.get_option(name)->count() > 0)
      throw UsageError(fmt::format("view: {} is for a live run, and needs a --model", name));
}

void run_view(ViewArguments& arguments, const CLI::App& command) {
  const CLI::Option& block = *command.get_option("--block");
  if (!arguments.live.model_given() && block.count() > 0) arguments.block = block.as<std::int64_t>();
  window::WindowRequest request = window_request(arguments);
  if (!arguments.file.empty() && arguments.live.model_given())
    throw UsageError("view: give a FILE to look at or a --model to run, not both");
  if (!arguments.live.model_given()) refuse_live_options(command);
  if (arguments.live.model_given()) {
    request.live = live_request(arguments.live, arguments.out, arguments.force);
    request.live->paused = arguments.paused;
  }
  std::atomic<bool> interrupted = false;
  {
    // The first Ctrl-C closes the window; a live run then keeps what it recorded.
    OnInterrupt on_interrupt([&] {
      interrupted = true;
      window::request_close();
    });
    window::run_window(request);
  }
  if (interrupted) throw Cancelled("interrupted; the window was closed");
}

}  // namespace

void add_view(CLI::App& app) {
  auto arguments = std::make_shared<ViewArguments>();
  CLI::App* command =
      app.add_subcommand("view", "The window: on a recording, on a figure file, or live on a model");
  command->add_option("file", arguments->file, "A recording, or a figure file of `export`");
  arguments->live.add_to(*command, false, false);
  // One name, two meanings, as everywhere: with --model the tokens per block, on a recording the block to
  // show.
  CLI::Option* block = command->get_option("--block");
  block->get_validator(0)->active(false);  // blocks are counted from 0
  block->description("Live: prompt tokens per block; on a recording: the block to show first");
  command->add_option("--out", arguments->out, "Live: also record into this file");
  command->add_flag("--paused", arguments->paused, "Live: wait before the first block");
  command->add_flag("--force", arguments->force,
                    "Replace an existing --out once the new one is complete, and an existing --screenshot");
  command->add_option("--run", arguments->run, "The run to show first");
  command->add_option("--beside", arguments->beside, "A run to show beside it, repeatable: up to three")
      ->allow_extra_args(false);
  command->add_option("--layer", arguments->layer, "The layer to show first")->check(zero_or_more());
  command->add_option("--kv-head", arguments->kv_head, "The KV head to show first")->check(zero_or_more());
  command->add_option("--token", arguments->token, "The token to hold, by its position")
      ->check(zero_or_more());
  command->add_option("--measure", arguments->measure,
                      "What to colour the map of heads by, as for `figure FILE head-map`");
  command->add_option("--reference", arguments->reference, "The run that the map compares with");
  command->add_option(
      "--view", arguments->view,
      "What to show first: keyspace, text, difference, or any other name that `figure` takes");
  command->add_option(
      "--projection", arguments->projection,
      "Of the key space: pca (the default), pca13, pca23, pca3d, or anchor: cosine to the mean key "
      "against norm");
  command->add_option("--density", arguments->density,
                      "Of the key space: points, hexagons, or auto (the default): hexagons above 5,000 keys");
  command->add_option(
      "--colour", arguments->colour,
      "What colours of the key space say: decision (the default), position, attention, score, "
      "margin, class or kept");
  command->add_flag("--queries", arguments->queries, "Show the queries of the group in the key space");
  add_figure_settings(*command, *arguments);
  command->add_option(
      "--size", arguments->size,
      "WIDTHxHEIGHT in pixels (default: 1280x800 at the monitor's scale, within its work area)");
  command->add_option("--layout", arguments->layout,
                      "Explore, Compare, Live, Present, or one of your own (default: as it was left)");
  command->add_flag("--fresh", arguments->fresh, "As if it was never opened: nothing of how it was left");
  command->add_option("--theme", arguments->theme, "dark or light (default: as it was left)");
  command->add_option("--scale", arguments->scale, "Of fonts and spacing (default: the monitor's)")
      ->check(CLI::Range(0.5, 4.0));
  command->add_option("--screenshot", arguments->screenshot, "Save a PNG of the window and exit");
  command->add_option("--state-file", arguments->state_file)->group("");
  command->footer(
      "Example:\n"
      "  keyscope view --model assets/demo_model --prompt-file assets/demo_model/prompts/needle.txt \\\n"
      "    --policy none --policy keydiff --budget 256 --block 64");
  command->callback([arguments, command] { run_view(*arguments, *command); });
}

WindowSize parse_window_size(const std::string& text) {
  const std::size_t cross = text.find('x');
  const auto parse = [&](std::string_view part, int& value) {
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    return error == std::errc() && end == part.data() + part.size() && value >= 320 && value <= 16384;
  };
  const std::string_view all = text;
  WindowSize size;
  if (cross == std::string::npos || !parse(all.substr(0, cross), size.width) ||
      !parse(all.substr(cross + 1), size.height))
    throw UsageError(fmt::format("--size: '{}' is no size; expected WIDTHxHEIGHT such as 1280x800", text));
  return size;
}

std::string view_name(const std::string& name) {
  return session::is_view(name) && !session::is_figure_view(name) ? name
                                                                  : std::string(figures::figure_name(name));
}

session::LiveRequest live_request(const CaptureCommandOptions& options, const std::string& out,
                                  bool replace) {
  session::LiveRequest live;
  live.model_folder = options.model().name();
  live.model = options.model_options();
  live.options = options.capture_options();
  live.options.command = command_line();
  live.out = out;
  live.replace = replace;
  if (!out.empty()) output_path(out, replace);
  if (live.options.schedule == capture::Schedule::kLayer)
    throw UsageError("--schedule layer: a live run goes block by block; expected together or block");
  if (live.options.answer.empty()) live.options.answer = session::known_answer(options.prompt.file());
  if (live.options.block_size <= 0) throw UsageError("--block: expected 1 or more prompt tokens per block");
  live.form = options.prompt.form();
  const std::filesystem::path folder = options.model().folder();
  tokenizer::check_prompt_form(folder, live.form);
  if (!options.prompt.given()) return live;
  capture::check_options(live.options);
  live.max_tokens = options.prompt.max_tokens();
  if (const auto text = options.prompt.text())
    live.prompt = *text;
  else
    live.options.prompt_ids = options.prompt.read({}, folder);
  return live;
}

}  // namespace keyscope::commands
