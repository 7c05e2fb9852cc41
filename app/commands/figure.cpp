#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <ranges>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/commands/capture.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "app/drawing/animation.hpp"
#include "app/drawing/cairo_painter.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/figures/nexus.hpp"
#include "app/session/made_figures.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/jobs.hpp"
#include "base/text.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::commands {
namespace {

using figures::FigureOption;

constexpr std::chrono::milliseconds kRedrawn{200};  // the line of progress

struct FigureArguments {
  std::string file, out, reduction, order, layers, kv_heads, query_heads, projection, colour, density,
      width = "double";
  figures::FigureRequest request;
  figures::PageOptions page;
  double frame_seconds = 0.4;
  bool linear = false;
};

double parse_width(const std::string& text) {
  if (text == "single") return figures::kSingleColumnInches;
  if (text == "double") return figures::kDoubleColumnInches;
  double inches = 0;
  if (CLI::detail::lexical_cast(text, inches)) return inches;
  throw UsageError(fmt::format("--width {}: expected single, double or a number of inches", text));
}

// "all" or a list such as 0,3,5-9; empty where all are meant.
std::vector<int> parse_choice(const std::string& text, const std::string& option) {
  return text.empty() || text == "all" ? std::vector<int>{} : parse_index_list(text, option);
}

// Small multiples where layers or heads are given in the plural; one in the singular is a grid of one row or
// column.
std::optional<figures::HeadGrid> grid_of(const FigureArguments& arguments) {
  if (arguments.layers.empty() && arguments.kv_heads.empty() && arguments.query_heads.empty()) return {};
  const figures::FigureRequest& request = arguments.request;
  figures::HeadGrid grid{parse_choice(arguments.layers, "--layers"),
                         parse_choice(arguments.kv_heads, "--kv-heads"), !arguments.query_heads.empty()};
  if (request.layer) grid.layers = {*request.layer};
  if (request.kv_head) grid.heads = {*request.kv_head};
  if (grid.query_heads) grid.heads = parse_choice(arguments.query_heads, "--query-heads");
  if (request.query_head) {
    grid.heads = {*request.query_head};
    grid.query_heads = true;
  }
  return grid;
}

struct OptionName {
  const char* name;
  FigureOption option;
};

// Small multiples are asked for by any of the last three: a figure has all of them or none.
constexpr std::array kOptionNames{OptionName{"--layer", FigureOption::kLayer},
                                  OptionName{"--kv-head", FigureOption::kKvHead},
                                  OptionName{"--query-head", FigureOption::kQueryHead},
                                  OptionName{"--block", FigureOption::kBlock},
                                  OptionName{"--components", FigureOption::kComponents},
                                  OptionName{"--projection", FigureOption::kProjection},
                                  OptionName{"--colour", FigureOption::kColour},
                                  OptionName{"--density", FigureOption::kDensity},
                                  OptionName{"--queries", FigureOption::kQueries},
                                  OptionName{"--retained", FigureOption::kRetained},
                                  OptionName{"--order", FigureOption::kOrder},
                                  OptionName{"--linear", FigureOption::kLinear},
                                  OptionName{"--reduce", FigureOption::kReduce},
                                  OptionName{"--ranks", FigureOption::kRanks},
                                  OptionName{"--token", FigureOption::kToken},
                                  OptionName{"--margins", FigureOption::kMargins},
                                  OptionName{"--measure", FigureOption::kMeasure},
                                  OptionName{"--reference", FigureOption::kReference},
                                  OptionName{"--layers", FigureOption::kLayers},
                                  OptionName{"--kv-heads", FigureOption::kLayers},
                                  OptionName{"--query-heads", FigureOption::kLayers}};

// An option that the figure does not have would change nothing.
void refuse_foreign_options(const CLI::App& command, const std::string& figure) {
  for (const auto& [option_name, option] : kOptionNames) {
    if (command.get_option(option_name)->count() == 0 || figures::understands(figure, option)) continue;
    std::vector<std::string_view> others;
    for (const auto name : figures::figure_names())
      if (figures::understands(name, option)) others.push_back(name);
    throw UsageError(
        fmt::format("{} does nothing to {}; it is for {}", option_name, figure, fmt::join(others, ", ")));
  }
}

// A frame a block, up to the one asked for; by default to the end of the prompt.
void draw_blocks(const recording::Recording& recording, const FigureArguments& arguments) {
  const auto info = recording.info();
  figures::check_request(*info, arguments.request);
  std::int64_t last = arguments.request.block.value_or(-1);
  if (last < 0)
    for (const auto& run : info->runs)
      last = std::max(last, std::min(run.blocks_done, run.plan.n_prompt_blocks) - 1);
  std::atomic<bool> cancelled = false;
  OnInterrupt on_interrupt([&] { cancelled = true; });
  Progress progress("frames", false);
  const auto frame = [&](std::int64_t block) {
    figures::FigureRequest moment = arguments.request;
    moment.block = block;
    return figures::build_figure(recording, moment);
  };
  figures::draw_animation({last + 1, frame, arguments.frame_seconds}, arguments.out, arguments.page,
                          [&](std::int64_t done, std::int64_t total) {
                            if (cancelled)
                              throw Cancelled(fmt::format("interrupted; {} was not written", arguments.out));
                            progress.update(done, total, "drawing");
                          });
  progress.clear();
}

// A figure of all heads, which may take minutes, says how many of them it has come to, and looks at each
// whether to go on.
figures::Figure build_visibly(const recording::Recording& recording, const FigureArguments& arguments) {
  const figures::FigureRequest& request = arguments.request;
  const auto heads = session::heads_of_figure(*recording.info(), request);
  if (heads.empty()) return figures::build_figure(recording, request);
  JobWatch watch(request.name);
  const session::WatchedRecording watched(recording, heads, watch);
  Progress progress("heads", false);
  OnInterrupt on_interrupt([&] { watch.cancel(); });
  std::mutex mutex;
  std::condition_variable_any ended;
  const std::jthread line([&](const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, stop, kRedrawn, [&] { return stop.stop_requested(); })) {
      const JobStatus status = watch.status();
      progress.update(status.done, status.total, request.name);
    }
  });
  try {
    return figures::build_figure(watched, request);
  } catch (const Cancelled&) {
    throw Cancelled(fmt::format("interrupted; {} was not written", arguments.out));
  }
}

void run_figure(FigureArguments& arguments, const CLI::App& command) {
  figures::FigureRequest& request = arguments.request;
  request.name = figures::figure_name(request.name);  // an unknown one is said before anything is read
  refuse_foreign_options(command, request.name);
  const bool nexus = figures::is_nexus_path(arguments.out);
  const bool animation = figures::is_animation_path(arguments.out);
  if (animation && !figures::understands(request.name, FigureOption::kBlock))
    throw UsageError(
        fmt::format("{} does not change from block to block: no .apng is made of it", request.name));
  if (!nexus && !animation) figures::format_of(arguments.out);
  arguments.page.width_inches = parse_width(arguments.width);
  request.logarithmic = !arguments.linear;
  request.grid = grid_of(arguments);
  if (!arguments.projection.empty()) request.projection = figures::parse_projection(arguments.projection);
  if (!arguments.colour.empty()) request.colour = figures::parse_key_colour(arguments.colour);
  if (!arguments.density.empty()) request.density = figures::parse_density(arguments.density);
  figures::chosen_look(request);
  if (!arguments.order.empty()) request.order = figures::parse_order(arguments.order);
  if (const auto orders = figures::orders_of(request.name);
      std::ranges::find(orders, request.order) == orders.end())
    throw UsageError(fmt::format("--order {}: {} has {}", arguments.order, request.name,
                                 fmt::join(orders | std::views::transform(figures::order_name), ", ")));
  request.most_ordered = figures::kMostKeysInDendrogram;
  if (!arguments.reduction.empty()) request.reduction = figures::parse_reduction(arguments.reduction);
  output_path(arguments.out, arguments.page.replace);

  const auto recording = recording::open_recording(arguments.file);
  if (animation) return draw_blocks(*recording, arguments);
  const figures::Figure figure = build_visibly(*recording, arguments);
  if (!nexus) return figures::draw_to_file(figure, arguments.out, arguments.page);
  const auto info = recording->info();
  figures::write_nexus(arguments.out, {figure}, {info->provenance, info->model, info->prompt},
                       arguments.page.replace);
}

void add_selection(CLI::App& command, FigureArguments& arguments) {
  figures::FigureRequest& request = arguments.request;
  command
      .add_option(
          "--run", request.runs,
          "Run to show, repeatable for figures of several runs (keyspace, block-times), which show every "
          "run by default; the others show `none` or the first")
      ->allow_extra_args(false);
  command.add_option("--layer", request.layer, "Layer; by default the first recorded one");
  command.add_option("--kv-head", request.kv_head, "KV head; by default the first recorded one");
  command.add_option("--query-head", request.query_head,
                     "Query head, for attention; by default the first of the KV head's group");
  command
      .add_option("--block", request.block, "The moment after this block; by default the end of the prompt")
      ->check(zero_or_more());
}

void add_grid(CLI::App& command, FigureArguments& arguments) {
  command
      .add_option("--layers", arguments.layers,
                  "Small multiples, a row per layer: such as 0,3,5-9, or all. Heads are the columns")
      ->check(not_empty())
      ->excludes("--layer");
  CLI::Option* kv_heads =
      command
          .add_option(
              "--kv-heads", arguments.kv_heads,
              "Small multiples, a column per KV head: a list, or all; attention shows the first query "
              "head of each")
          ->check(not_empty())
          ->excludes("--kv-head")
          ->excludes("--query-head");
  command
      .add_option("--query-heads", arguments.query_heads,
                  "Small multiples of attention, a column per query head: a list, or all")
      ->check(not_empty())
      ->excludes("--query-head")
      ->excludes("--kv-head")
      ->excludes(kv_heads);
}

void add_looks(CLI::App& command, FigureArguments& arguments) {
  command
      .add_option("--components", arguments.request.components, "Principal components of keyspace: 2 or 3")
      ->check(CLI::IsMember({2, 3}));
  command.add_option("--projection", arguments.projection,
                     "keyspace: pca (the default), pca13 and pca23: other components, pca3d, which is "
                     "--components 3, or anchor: cosine to the mean key against norm");
  command.add_option(
      "--density", arguments.density,
      "keyspace: points, hexagons that keys are counted in, or auto (the default): hexagons above "
      "5,000 keys");
  command.add_option(
      "--colour", arguments.colour,
      "keyspace: what colours say: decision (the default), position, attention, score, margin, "
      "class or kept");
  command.add_flag("--queries", arguments.request.queries, "keyspace: show all queries of the group as well");
  command.add_flag("--retained", arguments.request.retained_only, "cosine-matrix: only the retained keys");
  command.add_option("--token", arguments.request.token,
                     "token-lives: this token's life in every head, by its position");
  command
      .add_option(
          "--order", arguments.order,
          fmt::format(
              "token-lives: position (the default), or loss: the evicted tokens, first those that would "
              "still have received most; cosine-matrix: position (the default), or dendrogram: similar keys "
              "side by "
              "side, by average linkage on their cosines; of at most {} keys, for so many "
              "take half a minute and 2 GiB, and both grow with the square",
              format_count(figures::kMostKeysInDendrogram)))
      ->check(CLI::IsMember({"position", "dendrogram", "loss"}));
  command.add_flag("--linear", arguments.linear,
                   "attention: a linear colour scale instead of a logarithmic one");
  command.add_flag("--ranks", arguments.request.ranks, "score-attention: ranks instead of values");
  command.add_flag("--margins", arguments.request.margins,
                   "lifespans: colour by the margin that a token was evicted by, not by attention");
  command.add_option("--measure", arguments.request.measure,
                     "head-map: a measure by its name in `analyze --json`, such as log_volume_nats");
  command.add_option("--reference", arguments.request.reference,
                     "head-map: show the difference from this run, or the overlap with what it retained");
  command.add_option("--reduce", arguments.reduction,
                     "How several tokens become one pixel of a large matrix: mean, max, min or first");
  command.add_option("--width", arguments.width, "single (3.4 in), double (7 in, the default) or inches");
  command.add_option("--dpi", arguments.page.dpi, "Resolution of png files")->check(CLI::Range(36, 1200));
  command.add_option("--frame-seconds", arguments.frame_seconds, "How long a frame of an .apng stays")
      ->check(CLI::Range(0.02, 60.0))
      ->capture_default_str();
  command.add_flag("--dark", arguments.page.dark, "Light on dark");
}

}  // namespace

void add_figure(CLI::App& app) {
  auto arguments = std::make_shared<FigureArguments>();
  CLI::App* command =
      app.add_subcommand("figure", "One figure of a recording, as png, svg, pdf or NeXus HDF5");
  command->add_option("FILE", arguments->file, "A recording, or the .part of a killed capture")->required();
  command->add_option("NAME", arguments->request.name, "Which figure: " + figure_help())->required();
  command
      ->add_option("--out", arguments->out,
                   "File to write: .png, .svg, .pdf, .h5, or .apng: animated, a frame a block")
      ->required();
  add_selection(*command, *arguments);
  add_grid(*command, *arguments);
  add_looks(*command, *arguments);
  command->add_flag("--force", arguments->page.replace, "Replace an existing --out file");
  command->footer(
      "Example:\n  keyscope figure needle.h5 keyspace --run keydiff --layer 1 --kv-head 0 --out "
      "keyspace.png");
  command->callback([arguments, command] { run_figure(*arguments, *command); });
}

}  // namespace keyscope::commands
