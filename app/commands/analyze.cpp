#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "app/commands/capture_options.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/labels.hpp"
#include "app/measures/quantisation_effect.hpp"
#include "app/measures/recording_measures.hpp"
#include "base/errors.hpp"
#include "base/outputs_together.hpp"
#include "base/text.hpp"
#include "capture/replay/replay.hpp"

namespace keyscope::commands {

namespace {

struct AnalyzeArguments {
  std::string file;
  std::vector<std::string> runs;
  std::string layers, kv_heads;
  JsonTarget json, csv{.path = {}, .option = "--csv"};
  bool no_bounds = false;
  bool quiet = false;
};

// Each run once, in the order in which they were asked for.
std::vector<int> find_runs(const recording::RecordingInfo& info, const std::vector<std::string>& names) {
  std::vector<int> runs;
  for (const auto& name : names) {
    const int run = figures::find_run(info, name);
    if (std::find(runs.begin(), runs.end(), run) == runs.end()) runs.push_back(run);
  }
  return runs;
}

void run_analyze(const AnalyzeArguments& arguments) {
  if (arguments.json.is_stdout() && arguments.csv.is_stdout())
    throw UsageError("--json - and --csv - would both write to standard output");
  for (const JsonTarget* target : {&arguments.json, &arguments.csv}) require_writable(*target);
  require_different({{"--json", arguments.json.file()}, {"--csv", arguments.csv.file()}});
  const auto recording = recording::open_recording(arguments.file);
  const auto info = recording->info();
  measures::MeasureSelection selection;
  selection.runs = find_runs(*info, arguments.runs);
  selection.layers = parse_index_list(arguments.layers, "--layers");
  selection.kv_heads = parse_index_list(arguments.kv_heads, "--kv-heads");
  using measures::Part, measures::Parts;
  Parts parts = Parts::all();
  if (arguments.no_bounds) parts = parts - Parts{Part::kBounds, Part::kWithoutSinks};
  if (!arguments.json.given() && !arguments.csv.given())  // the printed tables have no column for these
    parts = parts - Parts{Part::kOutput, Part::kPca, Part::kBounds};

  std::atomic<bool> cancelled = false;
  OnInterrupt on_interrupt([&] { cancelled = true; });
  Progress progress("heads", arguments.quiet);
  const auto runs = measures::measure_recording(
      *recording, selection, parts,
      [&](std::int64_t done, std::int64_t total, const std::string& label) {
        progress.update(done, total, label);
      },
      cancelled);
  progress.clear();
  if (!arguments.json.is_stdout() && !arguments.csv.is_stdout()) print_measures(*info, runs);
  OutputsTogether outputs;
  if (arguments.csv.given()) write_text(arguments.csv, measures::measures_csv(*info, runs));
  if (arguments.json.given()) write_json(arguments.json, measures::measures_json(*info, runs));
  outputs.commit();
}

}  // namespace

void add_analyze(CLI::App& app) {
  auto arguments = std::make_shared<AnalyzeArguments>();
  CLI::App* command = app.add_subcommand("analyze", "All statistics of a recording");
  command->add_option("FILE", arguments->file, "A recording, or the .part of a killed capture")->required();
  command->add_option("--run", arguments->runs, "Only this run, repeatable")->allow_extra_args(false);
  command->add_option("--layers,--layer", arguments->layers, "Only these layers, such as 0,3,5-9")
      ->check(not_empty());
  command->add_option("--kv-heads,--kv-head", arguments->kv_heads, "Only these KV heads")->check(not_empty());
  command->add_option("--json", arguments->json.path, "Write the statistics as JSON; - for stdout");
  command->add_option("--csv", arguments->csv.path,
                      "Write them as CSV, a line per run, layer and KV head; - for stdout");
  command->add_flag(
      "--no-bounds", arguments->no_bounds,
      "Leave out the costly parts: Theorem 3.2 over all key-query pairs, which --json and --csv "
      "have, and, in models with learned sinks, attention without them");
  command->add_flag("--force", arguments->json.replace, "Replace existing --json and --csv files");
  command->add_flag("--quiet", arguments->quiet, "No progress");
  command->footer("Example:\n  keyscope analyze needle.h5 --json needle.json");
  command->callback([arguments] {
    arguments->csv.replace = arguments->json.replace;
    run_analyze(*arguments);
  });
}

namespace {

using measures::HeadMeasures;
using Measure = std::optional<double> HeadMeasures::*;

struct MeasureColumn {
  const char* title;
  Measure measure;
  int decimals;
  bool share = false;       // shown as a percentage
  bool hypothesis = false;  // of `none` alone: biased where rows were evicted
};

constexpr std::array<MeasureColumn, 9> kLayerColumns{{
    {"spearman", &HeadMeasures::spearman, 3, false, true},
    {"given pos.", &HeadMeasures::spearman_given_position, 3, false, true},
    {"cos(k,k̄)", &HeadMeasures::mean_key_cosine, 3},
    {"cos(k̄,q̄)", &HeadMeasures::key_query_mean_cosine, 3},
    {"log volume", &HeadMeasures::log_volume_nats, 2},
    {"redundancy", &HeadMeasures::mean_pairwise_cosine, 3},
    {"mass kept", &HeadMeasures::attention_mass_kept, 1, true},
    {"entropy", &HeadMeasures::attention_entropy_nats, 2},
    {"sink", &HeadMeasures::sink_metric, 1, true},
}};
constexpr int kColumnWidth = 11;

// fmt pads by display width, so that k̄ aligns as well.
std::string number_cell(const std::optional<double>& value, int decimals) {
  return value ? fmt::format("{:>{}.{}f}", *value, kColumnWidth, decimals)
               : fmt::format("{:>{}}", "–", kColumnWidth);
}

std::string share_cell(const std::optional<double>& value, int decimals = 1) {
  return value ? fmt::format("{:>{}.{}f} %", 100 * *value, kColumnWidth - 2, decimals)
               : fmt::format("{:>{}}", "–", kColumnWidth);
}

// "k̄" is two code points and one column: pad by hand what fmt would count as two.
std::string heading(const std::string& title) {
  std::size_t columns = 0;
  for (std::size_t i = 0; i < title.size(); ++i) {
    const bool combining = title[i] == '\xCC';  // U+0300…U+033F, the macron among them
    columns += continues_character(title[i]) || combining ? 0 : 1;
  }
  const auto padding = columns < kColumnWidth ? kColumnWidth - columns : 0;
  return std::string(padding, ' ') + title;
}

std::string biased_cell() { return fmt::format("{:>{}}", "biased", kColumnWidth); }

// What learned sinks took, and what would be said without them.
void print_sinks(const measures::RunMeasures& run) {
  std::map<int, std::vector<HeadMeasures>> layers;
  for (const auto& head : run.heads)
    if (head.learned_sink_share) layers[head.layer].push_back(head);
  if (layers.empty()) return;
  say("\n{}: attention that went to learned sinks, and measures without them\n{:<10}{}{}{}{}\n", run.run,
      "  layer", heading("sinks took"), heading("spearman"), heading("given pos."), heading("mass kept"));
  for (const auto& [layer, heads] : layers) {
    using measures::mean_over_heads;
    say("  {:<8}{}{}{}{}\n", layer, share_cell(mean_over_heads(heads, &HeadMeasures::learned_sink_share)),
        number_cell(mean_over_heads(heads, &HeadMeasures::spearman_without_sinks), 3),
        number_cell(mean_over_heads(heads, &HeadMeasures::spearman_given_position_without_sinks), 3),
        share_cell(mean_over_heads(heads, &HeadMeasures::attention_mass_kept_without_sinks)));
  }
}

// How the layers' routers spread the prompt, and whether distinctive keys go to the same experts.
void print_routers(const measures::RunMeasures& run) {
  if (run.routers.empty()) return;
  say("\n{}: experts; ε² and p (the least over KV heads): whether distinctive keys go to the same ones\n"
      "{:<10}{}{}{}{}{}{}\n",
      run.run, "  layer", heading("experts"), heading("idle"), heading("load Gini"), heading("entropy"),
      heading("ε²"), heading("least p"));
  for (const auto& router : run.routers) {
    std::optional<double> least_p;
    std::vector<HeadMeasures> heads;
    for (const auto& head : run.heads)
      if (head.layer == router.layer) {
        heads.push_back(head);
        if (head.expert_p_value) least_p = std::min(least_p.value_or(1), *head.expert_p_value);
      }
    say("  {:<8}{:>{}}{:>{}}{}{}{}{}\n", router.layer,
        fmt::format("{} of {}", router.experts_per_token, router.n_experts), kColumnWidth, router.n_idle,
        kColumnWidth, number_cell(router.load_gini, 3), number_cell(router.router_entropy_nats, 2),
        number_cell(measures::mean_over_heads(heads, &HeadMeasures::expert_epsilon_squared), 3),
        number_cell(least_p, 3));
  }
}

std::map<int, std::vector<HeadMeasures>> by_layer(const measures::RunMeasures& run) {
  std::map<int, std::vector<HeadMeasures>> layers;
  for (const auto& head : run.heads) layers[head.layer].push_back(head);
  return layers;
}

void print_layers(const measures::RunMeasures& run, bool evicts) {
  const std::map<int, std::vector<HeadMeasures>> layers = by_layer(run);
  say("\n{}\n{:<10}", run.run, "  layer");
  for (const auto& column : kLayerColumns) say("{}", heading(column.title));
  say("{}\n", evicts ? "" : "  spearman by head");
  for (const auto& [layer, heads] : layers) {
    say("  {:<8}", layer);
    for (const auto& column : kLayerColumns) {
      const auto mean = measures::mean_over_heads(heads, column.measure);
      say("{}", evicts && column.hypothesis ? biased_cell()
                : column.share              ? share_cell(mean)
                                            : number_cell(mean, column.decimals));
    }
    if (evicts) {
      say("\n");
      continue;
    }
    std::vector<std::optional<double>> correlations;
    for (const auto& head : heads) correlations.push_back(head.spearman);
    say("  {}\n", sparkline(correlations, -1, 1));
  }
}

constexpr std::array<MeasureColumn, 5> kQuantisedColumns{{
    {"key error", &HeadMeasures::quantised_key_error, 2, true},
    {"cos(k,k')", &HeadMeasures::quantised_key_cosine, 5},
    {"ρ scores", &HeadMeasures::quantised_score_spearman, 4},
    {"same rows", &HeadMeasures::quantised_retained_jaccard, 1, true},
    {"attn moved", &HeadMeasures::quantised_attention_difference, 2, true},
}};

// Bytes of a run's cache once the prompt was read, of the heads that were measured.
std::string bytes_of(const measures::RunMeasures& run, std::optional<std::int64_t> HeadMeasures::*bytes) {
  std::int64_t sum = 0;
  for (const auto& head : run.heads) sum += (head.*bytes).value_or(0);
  return sum > 0 ? bytes_text(sum) : "unknown";
}

// What a quantised cache has changed, against the run that is the same but for it.
void print_quantised(const recording::RecordingInfo& info, const measures::RunMeasures& run) {
  const int index = info.run_index(run.run), partner = measures::unquantised_run(info, index);
  const analysis::CacheFormat& format = info.runs[index].plan.cache_format;
  say("\n{}: cache rounded to {}, scales by {}: {} as held, {} packed\n", run.run,
      analysis::cache_dtype_name(format.dtype), analysis::cache_scales_name(format.scales),
      bytes_of(run, &HeadMeasures::held_bytes), bytes_of(run, &HeadMeasures::packed_bytes));
  if (partner < 0) {
    say("  no run without quantisation to compare with: capture --cache-dtype model,{}\n",
        analysis::cache_dtype_name(format.dtype));
    return;
  }
  say("{:<10}", "  layer");
  for (const auto& column : kQuantisedColumns) say("{}", heading(column.title));
  say("  against {}\n", info.runs[partner].plan.name);
  for (const auto& [layer, heads] : by_layer(run)) {
    say("  {:<8}", layer);
    for (const auto& column : kQuantisedColumns) {
      const auto mean = measures::mean_over_heads(heads, column.measure);
      say("{}", column.share ? share_cell(mean, column.decimals) : number_cell(mean, column.decimals));
    }
    say("\n");
  }
}

// What a replayed run's numbers are worth.
void print_replay_notes(const recording::RecordingInfo& info,
                        const std::vector<measures::RunMeasures>& runs) {
  std::vector<std::string> exact, oracles;
  for (const auto& run : runs) {
    const auto& plan = info.runs[info.run_index(run.run)].plan;
    if (plan.replayed) (plan.oracle ? oracles : exact).push_back(run.run);
  }
  if (!exact.empty())
    say("\nreplayed, exact in layer {}, above it on full-cache keys: {}\n", replay::exact_layer(info),
        shown_list(exact));
  if (!oracles.empty())
    say("\nreplayed on full-cache keys by oracles, scored by the attention of the whole prompt: {}\n",
        shown_list(oracles));
}

// What tells runs of one policy apart: the names alone, "keydiff-2", do not say.
void print_run_labels(const recording::RecordingInfo& info, const std::vector<measures::RunMeasures>& runs,
                      std::size_t width) {
  std::string key;
  for (const auto& run : runs) {
    const std::string label = figures::run_label(info, info.run_index(run.run));
    if (label != run.run) key += fmt::format("{:<{}}{}\n", run.run, width, label);
  }
  if (!key.empty()) say("\n{}", key);
}

}  // namespace

void print_run_summary(const recording::RecordingInfo& info, const std::vector<measures::RunMeasures>& runs) {
  std::size_t width = 8;
  for (const auto& run : runs) width = std::max(width, run.run.size() + 2);
  say("{:<{}}{}{}{}{}{}{}\n", "policy", width, heading("budget"), heading("spearman"), heading("log volume"),
      heading("mass kept"), heading("top-1 same"), heading("KL nats"));
  for (const auto& run : runs) {
    const auto& plan = info.runs[info.run_index(run.run)].plan;
    say("{:<{}}{:>{}}{}{}{}{}{}\n", run.run, width,
        plan.budget > 0 ? std::to_string(plan.budget) : std::string("all"), kColumnWidth,
        plan.policy == "none" ? number_cell(measures::mean_over_heads(run.heads, &HeadMeasures::spearman), 3)
                              : biased_cell(),
        number_cell(measures::mean_over_heads(run.heads, &HeadMeasures::log_volume_nats), 2),
        share_cell(measures::mean_over_heads(run.heads, &HeadMeasures::attention_mass_kept)),
        share_cell(run.top1_agreement), number_cell(run.kl_nats, 4));
  }
  print_run_labels(info, runs, width);
  const auto evicts = [&](const auto& run) {
    return info.runs[info.run_index(run.run)].plan.policy != "none";
  };
  if (std::ranges::any_of(runs, evicts))
    say("\nSpearman's ρ is of none alone. Of a run that evicts it is biased: tokens that went early were "
        "seen by\n"
        "few queries, the nearest ones, so that their attention per query is inflated.\n");
}

void print_measures(const recording::RecordingInfo& info, const std::vector<measures::RunMeasures>& runs) {
  std::set<int> layers, kv_heads;
  for (const auto& run : runs)
    for (const auto& head : run.heads) {
      layers.insert(head.layer);
      kv_heads.insert(head.kv_head);
    }
  say("{}: {} tokens, means over {} and {}{}\n\n", info.model.name, info.n_prompt(),
      counted(std::ssize(layers), "layer"), counted(std::ssize(kv_heads), "KV head"),
      info.complete ? "" : " (the capture was cut short)");
  if (!info.keyless_layers.empty())
    say("Left out, because they have no keys (their mixers are recurrent): layer{} {}\n\n",
        info.keyless_layers.size() == 1 ? "" : "s", shown_list(info.keyless_layers));
  print_run_summary(info, runs);
  print_replay_notes(info, runs);
  for (const auto& run : runs)
    if (info.runs[info.run_index(run.run)].plan.cache_format.quantises()) print_quantised(info, run);
  for (const auto& run : runs) print_layers(run, info.runs[info.run_index(run.run)].plan.policy != "none");
  for (const auto& run : runs) print_sinks(run);
  for (const auto& run : runs) print_routers(run);
}

}  // namespace keyscope::commands
