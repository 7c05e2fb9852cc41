#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands/capture_options.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/labels.hpp"
#include "app/measures/policy_difference.hpp"
#include "app/measures/token_story.hpp"
#include "base/errors.hpp"
#include "base/outputs_together.hpp"
#include "base/text.hpp"

namespace keyscope::commands {
namespace {

using Json = nlohmann::ordered_json;
using measures::DifferingToken;
using measures::KeptBy;
using measures::PolicyDifference;

struct DiffArguments {
  std::string file;
  std::vector<std::string> runs;
  std::optional<int> layer, kv_head;
  std::optional<std::int64_t> block;
  std::size_t most = 20;
  JsonTarget json, csv{.path = {}, .option = "--csv"};
  bool quiet = false;
};

// Those asked for, of all layers and KV heads where none is.
std::vector<measures::HeadSelection> chosen_heads(const recording::RecordingInfo& info,
                                                  const DiffArguments& arguments, int run) {
  std::vector<measures::HeadSelection> heads;
  if (arguments.layer) figures::require_layer(info, *arguments.layer);
  for (const auto& [layer, kv_head] : info.recorded_heads())
    if (arguments.layer.value_or(layer) == layer && arguments.kv_head.value_or(kv_head) == kv_head)
      heads.push_back({run, layer, kv_head});
  if (heads.empty())
    for (const int layer : info.layers)
      if (arguments.layer.value_or(layer) == layer) figures::require_kv_head(info, layer, *arguments.kv_head);
  return heads;
}

std::string number_column(const std::optional<double>& value) {
  return value ? fmt::format("{:>12.4g}", *value) : fmt::format("{:>12}", "–");
}

void print_differing_tokens(const recording::RecordingInfo& info, const PolicyDifference& difference, int a,
                            KeptBy by, const std::string& title, std::size_t most) {
  std::size_t n = 0;
  double lost = 0;
  for (const DifferingToken& token : difference.tokens)
    if (token.kept_by == by) ++n, lost += token.afterwards.value_or(0);
  say("\n{}: {}", title, counted(static_cast<std::int64_t>(n), "token"));
  if (difference.missing.empty()) say(", which would still have received {:.4g} in all", lost);
  say("\n");
  if (n == 0) return;
  say("{:>9}  {:<20}{:>7}{:>10}{:>12}{:>12}\n", "position", "token", "heads", "block", "received",
      "afterwards");
  std::size_t shown = 0;
  for (const DifferingToken& token : difference.tokens) {
    if (token.kept_by != by) continue;
    if (shown++ == most) break;
    say("{:>9}  {:<20}{:>7}{:>10}{}{}\n", token.position,
        figures::token_label(measures::token_bytes(info, a, token.position)), token.n_heads,
        token.evicted_at ? std::to_string(*token.evicted_at) : "–", number_column(token.received),
        number_column(token.afterwards));
  }
  if (n > most) say("{:>9}  … and {} more: --most, --csv, --json\n", "", n - most);
}

Json row_json(const recording::RecordingInfo& info, const measures::DifferingRow& row, int a,
              const std::string& kept_by) {
  const auto field = [](const auto& value) { return value ? Json(*value) : Json(); };
  return {{"layer", row.layer},
          {"kv_head", row.kv_head},
          {"position", row.position},
          {"id", measures::token_id(info, a, row.position)},
          {"token", measures::token_bytes(info, a, row.position)},
          {"kept_by", kept_by},
          {"evicted_at", row.evicted_at},
          {"margin", field(row.margin)},
          {"attention_before", field(row.attention_before)},
          {"attention_after", field(row.attention_after)}};
}

Json diff_json(const recording::RecordingInfo& info, const PolicyDifference& difference, int a, int b,
               std::size_t n_heads) {
  const std::string name_a = info.runs[a].plan.name, name_b = info.runs[b].plan.name;
  Json json{{"format", 1},
            {"a", name_a},
            {"b", name_b},
            {"block", difference.block},
            {"n_seen", difference.n_seen},
            {"n_heads", n_heads},
            {"both", difference.n_both},
            {"only_a", difference.n_only_a},
            {"only_b", difference.n_only_b},
            {"neither", difference.n_neither},
            {"missing", difference.missing}};
  json["tokens"] = Json::array();
  for (const measures::DifferingRow& row : difference.rows)
    json["tokens"].push_back(row_json(info, row, a, row.kept_by == KeptBy::kOnlyA ? name_a : name_b));
  return json;
}

void run_diff(const DiffArguments& arguments) {
  if (arguments.runs.size() != 2)
    throw UsageError(
        fmt::format("diff: expected two runs, --run A --run B; found {}", arguments.runs.size()));
  if (arguments.json.is_stdout() && arguments.csv.is_stdout())
    throw UsageError("--json - and --csv - would both write to standard output");
  for (const JsonTarget* target : {&arguments.json, &arguments.csv}) require_writable(*target);
  require_different({{"--json", arguments.json.file()}, {"--csv", arguments.csv.file()}});
  const auto recording = recording::open_recording(arguments.file);
  const auto info = recording->info();
  const int a = figures::find_run(*info, arguments.runs[0]), b = figures::find_run(*info, arguments.runs[1]);
  if (a == b) throw UsageError(fmt::format("diff: {} does not differ from itself", arguments.runs[0]));
  if (arguments.block && *arguments.block >= info->runs[a].blocks_done)
    throw UsageError(fmt::format("--block {}: {} has done {}", *arguments.block, arguments.runs[0],
                                 counted(info->runs[a].blocks_done, "block")));
  const auto heads = chosen_heads(*info, arguments, a);
  std::atomic<bool> cancelled = false;
  OnInterrupt on_interrupt([&] { cancelled = true; });
  Progress progress("heads", arguments.quiet);
  const PolicyDifference difference = measures::policy_difference(
      *recording, a, b, heads, arguments.block.value_or(-1), true,
      [&](std::int64_t done, std::int64_t total) { progress.update(done, total, ""); }, cancelled);
  progress.clear();
  if (!arguments.json.is_stdout() && !arguments.csv.is_stdout()) {
    const std::string &name_a = arguments.runs[0], &name_b = arguments.runs[1];
    say("After block {}, {} seen, {}: both keep {}, only {} {}, only {} {}, neither {}\n", difference.block,
        counted(difference.n_seen, "token"), counted(std::ssize(heads), "head"), difference.n_both, name_a,
        difference.n_only_a, name_b, difference.n_only_b, difference.n_neither);
    print_differing_tokens(*info, difference, a, KeptBy::kOnlyA,
                           fmt::format("{} kept, {} lost", name_a, name_b), arguments.most);
    print_differing_tokens(*info, difference, a, KeptBy::kOnlyB,
                           fmt::format("{} kept, {} lost", name_b, name_a), arguments.most);
    say("\n{}\n",
        difference.missing.empty()
            ? "Attention is that of the run none: up to the eviction, and from there to the prompt's end."
            : "What was lost is not known: " + difference.missing + ".");
  }
  OutputsTogether outputs;
  if (arguments.csv.given()) write_text(arguments.csv, measures::difference_csv(*info, difference, a, b));
  if (arguments.json.given()) write_json(arguments.json, diff_json(*info, difference, a, b, heads.size()));
  outputs.commit();
}

}  // namespace

void add_diff(CLI::App& app) {
  auto arguments = std::make_shared<DiffArguments>();
  CLI::App* command = app.add_subcommand(
      "diff",
      "Which tokens one run of a recording kept and another lost, and the attention that went with them");
  command->add_option("FILE", arguments->file, "A recording, or the .part of a killed capture")->required();
  command->add_option("--run", arguments->runs, "The two runs")->allow_extra_args(false)->required();
  command->add_option("--layer", arguments->layer, "Only this layer")->check(zero_or_more());
  command->add_option("--kv-head", arguments->kv_head, "Only this KV head")->check(zero_or_more());
  command
      ->add_option("--block", arguments->block,
                   "The moment after this block of the first run; by default the end of the prompt")
      ->check(zero_or_more());
  command->add_option("--most", arguments->most, "Tokens of each kind to print (default: 20)");
  command->add_option("--csv", arguments->csv.path,
                      "Write all of them as CSV, a line for each layer, KV head and row; - for stdout");
  command->add_option("--json", arguments->json.path, "Write them as JSON; - for stdout");
  command->add_flag("--force", arguments->json.replace, "Replace existing --json and --csv files");
  command->add_flag("--quiet", arguments->quiet, "No progress");
  command->footer("Example:\n  keyscope diff needle.h5 --run keydiff --run sink --layer 1 --kv-head 3");
  command->callback([arguments] {
    arguments->csv.replace = arguments->json.replace;
    run_diff(*arguments);
  });
}

}  // namespace keyscope::commands
