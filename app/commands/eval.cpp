#include "app/commands/eval.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "app/commands/capture.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "app/drawing/cairo_painter.hpp"
#include "app/evaluation/anatomy_report.hpp"
#include "app/evaluation/evaluation.hpp"
#include "app/evaluation/niah.hpp"
#include "app/evaluation/task_report.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/figure.hpp"
#include "app/figures/nexus.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/outputs_together.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "capture/recording/recording_layout.hpp"

namespace keyscope::commands {

void add_eval(CLI::App& app) {
  CLI::App* eval =
      app.add_subcommand("eval", "What a policy costs in answers: tasks, scored against the full cache");
  add_eval_tasks(*eval, run_eval);
}

void add_eval_tasks(CLI::App& eval, const TakeEval& take) {
  for (const auto add : {add_eval_niah, add_eval_phonebook, add_eval_longbench, add_eval_math500,
                         add_eval_perplexity, add_eval_ruler})
    add(eval, take);
  eval.require_subcommand(1);
}

namespace {

// Draws into every --figure file; of several figures, the first gets the name that was asked for, the others
// their own behind it.
void write_asked_figures(const EvalOptions& options, const std::vector<figures::Figure>& made,
                         const recording::Origin& origin);

// Into OUT: every figure as png, svg and pdf, all of them as TASK.h5, and results.json.
void write_folder(const std::vector<figures::Figure>& made, const nlohmann::ordered_json& json,
                  const std::string& task, const evaluation::ResultFolder& folder,
                  const recording::Origin& origin);

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

void draw(const figures::Figure& figure, const fs::path& path, bool replace) {
  figures::PageOptions page;
  page.replace = replace;
  figures::draw_to_file(figure, path, page);
}

// The files of a --figure: all figures in one NeXus file; else the first one under the name that was asked
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

// Whether every file that was asked for can be written, each once.
//   throws UsageError and FileError where not
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
    if (!lies_in_new_folder(path, options.out)) output_path(path, options.force);
  const JsonTarget json = options.json_target();
  require_writable(json, options.out);
  files.push_back(json.file());
  if (!options.out.empty())
    std::ranges::copy(evaluation::folder_files(options.out, settings.task, compared),
                      std::back_inserter(files));
  require_different(files);
}

// Where a figure file says that its figures come from.
recording::Origin eval_origin(const evaluation::Settings& settings, const capture::Model& model) {
  const capture::ModelConfig& config = model.config();
  recording::Origin origin;
  origin.provenance = provenance_of_results();
  origin.provenance.configuration = json_text(evaluation::settings_json(settings));
  origin.provenance.model_sha256 = settings.model.weights_sha256;
  origin.provenance.seed = static_cast<std::int64_t>(settings.seed);
  origin.provenance.device = settings.model.device;
  origin.model = capture::model_info(config, settings.model.name);
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
  for (const figures::Figure& figure : made)
    for (const char* extension : {".png", ".svg", ".pdf"})
      draw(figure, folder.file(figure.name + extension), true);
  if (!made.empty()) figures::write_nexus(folder.file(task + ".h5"), made, origin, true);
  folder.write("results.json", json_text(json, 2) + "\n");
}

std::unique_ptr<evaluation::ResultFolder> open_folder(const EvalOptions& options,
                                                      const evaluation::Settings& settings) {
  if (options.out.empty()) return nullptr;
  return std::make_unique<evaluation::ResultFolder>(options.out, evaluation::settings_json(settings),
                                                    options.force);
}

void print_plan(const evaluation::Settings& settings, const EvalExamples& asked,
                const evaluation::ResultFolder* folder) {
  const auto plan = evaluation::plan_evaluation(settings, asked.examples, folder);
  const auto count = [](std::int64_t n) { return format_count(n); };
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
  for (const evaluation::Example& example : asked.examples) {
    least = std::min(least, std::ssize(example.prompt_ids));
    most = std::max(most, std::ssize(example.prompt_ids));
  }
  say("{} examples of {} to {} tokens in {} settings: {} results, {} of them from before; at most {} tokens "
      "to run, less what prompts share.\n",
      count(std::ssize(asked.examples)), count(least), count(most),
      count(std::ssize(evaluation::grid_of(settings))), count(plan.n_results), count(plan.n_earlier),
      count(plan.tokens_asked));
}

// With progress on stderr.
evaluation::Evaluation evaluate(const EvalOptions& options, const capture::Model& model,
                                const evaluation::Settings& settings, const EvalExamples& asked,
                                evaluation::ResultFolder* folder) {
  capture::CaptureControl control;
  OnInterrupt on_interrupt([&] { control.cancel(); });
  Progress progress("tokens", options.quiet);
  const auto show = [&](std::int64_t done, std::int64_t total, const std::string& label) {
    progress.update(done, total, label);
  };
  return evaluation::evaluate(model, settings, asked.examples, asked.scorer, folder, {control, show});
}

void print_notes(const evaluation::Settings& settings, const EvalExamples& asked) {
  if (const analysis::CacheFormat& format = settings.cache_format; format.quantises())
    say("Caches, the full one's too, hold rows as {}, scales by {}.\n",
        analysis::cache_dtype_name(format.dtype), analysis::cache_scales_name(format.scales));
  for (const std::string& note : asked.notes) say("{}\n", note);
  for (const std::string& row : asked.bad_rows) say("Skipped: {}\n", row);
  if (!asked.bad_rows.empty()) say("Rows skipped: {}.\n", asked.bad_rows.size());
}

// What became of the evidence, of every task in which something is answered and compared.
void add_anatomies(const EvalOutcome& outcome, EvalReport& report) {
  const evaluation::Settings& settings = outcome.settings;
  if (settings.policies.empty() || settings.task == "perplexity") return;
  const std::vector<evaluation::GridPoint> grid = evaluation::grid_of(settings);
  const evaluation::ScoreTable table(outcome.evaluation.results, grid);
  const auto summaries = evaluation::anatomy_summaries(table, settings.seed);
  report.table += evaluation::anatomy_table(table, summaries);
  report.json["anatomy"] = evaluation::anatomies_json(table, summaries);
  report.figures.push_back(evaluation::anatomy_figure(
      table, summaries, settings, evaluation::report_caption(settings, outcome.asked.examples.size())));
}

// A file's name of an example's, with a digest where it does not say all: "length-200-depth-50-sample-0".
std::string file_name_of(const std::string& id) {
  bool plain = true;
  std::string name;
  for (const char c : id) {
    const bool stays = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_';
    plain = plain && (stays || c == ' ' || c == ',');
    if (stays)
      name += c;
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  if (plain && !name.empty()) return name;
  Sha256 digest;
  digest.add(id);
  return fmt::format("{}{}{}", name, name.empty() ? "" : "-", digest.hex().substr(0, 8));
}

// The first budget and block at which a policy answers an example worse than the full cache; null: none does.
const evaluation::GridPoint* first_worse(const evaluation::ScoreTable& table, std::size_t example) {
  for (std::size_t point = 0; point < table.grid().size(); ++point) {
    const auto& [name, score] = table.result(example, point).scores.front();
    if (score < table.result(example, table.reference(point)).score(name)) return &table.grid()[point];
  }
  return nullptr;
}

// An example as it was asked, under the full cache and all policies at a budget and a block.
capture::CaptureOptions recorded_options(const evaluation::Settings& settings,
                                         const evaluation::ScoreTable& table, std::size_t example,
                                         const evaluation::Example& asked, const evaluation::GridPoint& at) {
  capture::CaptureOptions options;
  options.prompt_ids = asked.prompt_ids;
  options.policies = {analysis::parse_policy("none")};
  for (const evaluation::AskedPolicy& policy : settings.policies) options.policies.push_back(policy.spec);
  options.budget = at.budget;
  options.block_size = at.block;
  options.cache_formats = {settings.cache_format};
  options.schedule = capture::Schedule::kBlock;
  options.seed = settings.seed;
  options.ignore_eos = asked.continuation.ignore_eos;
  for (std::size_t point = 0; point < table.grid().size(); ++point)
    options.generate = std::max(options.generate, table.result(example, point).n_generated);
  options.answer = asked.answers.empty() ? "" : asked.answers.front();
  for (const evaluation::TokenRange& place : asked.evidence.places)
    options.evidence.push_back({place.first, place.end});
  options.command = command_line();
  return options;
}

// Where it is locked, it is another capture's.
void remove_unless_locked(const fs::path& part) {
  const Descriptor file(part, O_RDWR);
  std::error_code ignored;
  if (file.id() >= 0 && try_lock(file.id()) != FileLock::kBusy) fs::remove(part, ignored);
}

// A part of a recording would pass for all of it the next time: it never gets the name.
void record_whole(const capture::Model& model, const capture::CaptureOptions& options, const fs::path& out,
                  bool quiet) {
  const auto remove_part = [&] { remove_unless_locked(out.string() + ".part"); };
  try {
    capture_to_file(model, options, {.out = out, .replace = true, .quiet = quiet, .keeps_cut = false});
  } catch (const Cancelled&) {
    remove_part();
    throw Cancelled("interrupted; all results are there, and the same command goes on with recordings");
  } catch (...) {
    remove_part();
    throw;
  }
}

// Those that are not there yet.
//   returns how many there are now
std::int64_t record_examples(const EvalOptions& options, const capture::Model& model,
                             const EvalOutcome& outcome, const evaluation::ResultFolder& folder) {
  const auto grid = evaluation::grid_of(outcome.settings);
  const evaluation::ScoreTable table(outcome.evaluation.results, grid);
  std::int64_t n = 0;
  for (std::size_t example = 0; example < table.n_examples() && n < options.record; ++example) {
    const evaluation::GridPoint* const at = first_worse(table, example);
    const evaluation::Example& asked = outcome.asked.examples[example];
    if (at == nullptr || asked.continuation.sampling.temperature > 0) continue;  // a capture is greedy
    ++n;
    const fs::path out = folder.new_recording(file_name_of(asked.id) + ".h5");
    if (!fs::exists(out))
      record_whole(model, recorded_options(outcome.settings, table, example, asked, *at), out, options.quiet);
  }
  return n;
}

}  // namespace

void run_eval(const EvalOptions& options, const EvalTask& task) {
  evaluation::Settings settings = options.settings(task.name, task.settings);
  check_outputs(options, settings);
  if (options.record > 0 && options.out.empty())
    throw UsageError("--record: where to? give --out, the evaluation's folder");
  if (options.record > 0 && settings.task == "perplexity")
    throw UsageError("--record: perplexity has no answers; record a text by `keyscope capture`");
  StudyChoice study = options.study;
  study.open(options.out);
  const auto model = options.load_model();
  settings.model = results::identity_of(*model, hash_progress_line(options.quiet));
  const EvalExamples asked = task.examples(*model);
  evaluation::check_examples(settings, asked.examples, *model);
  settings.task_settings["examples_sha256"] = evaluation::examples_sha256(asked.examples);
  const auto folder = open_folder(options, settings);
  if (options.dry_run) {
    print_notes(settings, asked);
    return print_plan(settings, asked, folder.get());
  }
  if (folder) folder->begin();
  if (const auto find = study.find_line()) folder->adopt(settings, asked.examples, find);
  const auto evaluation = evaluate(options, *model, settings, asked, folder.get());
  const EvalOutcome outcome{settings, asked, evaluation};
  EvalReport report = task.report(outcome);
  add_anatomies(outcome, report);
  const recording::Origin origin = eval_origin(settings, *model);
  const JsonTarget json = options.json_target();
  if (!json.is_stdout()) {
    print_notes(settings, asked);
    say("{}{}{}", report.table, study.summary(), cost_line(evaluation));
  }
  const Json cost = evaluation::cost_json(evaluation);
  if (options.record > 0)
    if (const std::int64_t n = record_examples(options, *model, outcome, *folder); !json.is_stdout())
      say("{} recorded; keyscope view {} opens them where the evidence went.\n", counted(n, "example"),
          quote_word(options.out));
  OutputsTogether outputs;
  write_asked_figures(options, report.figures, origin);
  if (folder) {
    folder->write("cost.json", json_text(cost, 2) + "\n");
    write_folder(report.figures, report.json, task.name, *folder, origin);
  }
  if (json.given()) {
    report.json["cost"] = cost;
    write_json(json, report.json);
  }
  outputs.commit();
}

std::string cost_line(const evaluation::Evaluation& evaluation) {
  const auto count = [](std::int64_t n) { return format_count(n); };
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
      duration_text(cost.seconds),
      count(static_cast<std::int64_t>(static_cast<double>(cost.tokens_run) / cost.seconds)));
}

void EvalOptions::add_to(CLI::App& command) {
  model.add_model(command)->required();
  command
      .add_option("--policy", policies, policy_help() + "; none always runs, as what they are compared with")
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
  command
      .add_option(
          "--cache-dtype", cache_dtype,
          "What every run's KV cache holds rows as, the full one's included: model, fp8, int8 or int4")
      ->capture_default_str();
  add_cache_scales(command, cache_scales);
  add_out(command, out, "evaluation");
  command
      .add_option("--record", record,
                  "Record the first N examples that some policy answers worse than the full cache, greedily, "
                  "for `keyscope view OUT`")
      ->check(one_or_more());
  command.add_option("--json", json, "All numbers as JSON into a file; - is stdout");
  command.add_option("--figure", figures, "Also draw into this file: .png, .svg, .pdf or .h5; repeatable")
      ->allow_extra_args(false);
  model.add_arithmetic(command);
  add_seed(command, seed, "what is drawn: examples, policies, the bootstrap");
  command.add_flag("--force", force, "Replace files; discard results of other settings in --out");
  command.add_flag("--dry-run", dry_run, "Say what would be run and stop");
  study.add_to(command);
  add_quiet(command, quiet);
}

evaluation::Settings EvalOptions::settings(const std::string& task,
                                           const nlohmann::ordered_json& task_settings) const {
  evaluation::Settings settings = evaluation::asked_grid(policies, budgets, blocks, seed);
  settings.task = task;
  settings.cache_format = analysis::cache_format(cache_dtype, cache_scales);
  if (!cache_scales.empty() && !settings.cache_format.quantises())
    throw UsageError("--cache-scales: no cache is quantised; give --cache-dtype fp8, int8 or int4 as well");
  settings.task_settings = task_settings;
  return settings;
}

std::shared_ptr<const capture::Model> EvalOptions::load_model() const {
  auto loaded = model.load(model.options());
  loaded->folder_tokenizer().require("an evaluation needs one");
  return loaded;
}

void EvalChatOptions::add_to(CLI::App& command) {
  CLI::Option* chat = command.add_flag("--chat", chat_, "Refuse a model that has no chat template");
  command
      .add_flag(
          "--no-chat", no_chat_,
          "Ask without the model's chat template, which is used where it has one and the benchmark does")
      ->excludes(chat);
}

evaluation::ChatUse EvalChatOptions::use() const {
  if (no_chat_) return evaluation::ChatUse::kNever;
  return chat_ ? evaluation::ChatUse::kAlways : evaluation::ChatUse::kIfThere;
}

void EvalDataOptions::add_to(CLI::App& command, const std::string& data_help) {
  command.add_option("--data", data_, data_help)->required()->check(not_empty());
  command.add_option("--rows", rows_, "Only the first N rows (of LongBench: of each task)")
      ->check(one_or_more());
  chat_.add_to(command);
  add_skip_bad_rows(command, skip_bad_);
}

void add_skip_bad_rows(CLI::App& command, bool& skip_bad) {
  command.add_flag("--skip-bad", skip_bad, "Go on without rows that cannot be used, naming them");
}

}  // namespace keyscope::commands
