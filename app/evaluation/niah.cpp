#include "app/evaluation/niah.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/splitmix.hpp"
#include "app/evaluation/needle_prompt.hpp"
#include "app/evaluation/task_data.hpp"
#include "app/evaluation/text_scores.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"

namespace keyscope::evaluation {

namespace {

// Purposes of draws.
constexpr std::uint64_t kNeedles = 3;
constexpr std::uint64_t kAsked = 5;

void require_placeholder(const std::string& text, const char* placeholder, const char* option) {
  if (text.find(placeholder) == std::string::npos)
    throw UsageError(fmt::format("{}: there is no {} in it", option, placeholder));
}

// A value that none of these needles has.
std::string new_value(const std::vector<Needle>& needles, std::int64_t n_digits, Draws& draws) {
  for (;;) {
    std::string value = draws.digits(n_digits);
    if (std::ranges::find(needles, value, &Needle::value) == needles.end()) return value;
  }
}

// One sample's haystack with what stands in all of its prompts, and the keys that are left for the needle.
NeedleCase needle_case(const NiahTask& task, std::vector<std::string>& keys, Haystack haystack,
                       std::uint64_t sample_seed) {
  NeedleCase about;
  about.haystack = std::move(haystack);
  about.needle_template = task.needle;
  about.question_template = task.question;
  Draws draws(sample_seed, kNeedles);
  for (std::int64_t i = 0; i < task.n_distractors; ++i) {
    const auto key = keys.begin() + static_cast<std::ptrdiff_t>(draws.below(keys.size()));
    about.distractors.push_back({*key, new_value(about.distractors, task.n_digits, draws)});
    about.places.push_back(draws.unit());
    keys.erase(key);
  }
  return about;
}

// What is hidden in one prompt. Each has its own, so that no key that the model reads badly decides a whole
// table; no prompt's depends on which others there are.
Needle asked_needle(const NiahTask& task, const std::vector<std::string>& keys,
                    const std::vector<Needle>& distractors, std::uint64_t sample_seed, std::int64_t length,
                    double depth) {
  const std::uint64_t place = analysis::splitmix(sample_seed + static_cast<std::uint64_t>(length)) ^
                              std::bit_cast<std::uint64_t>(depth);
  Draws draws(place, kAsked);
  const std::string& key = keys[draws.below(keys.size())];
  return {key, new_value(distractors, task.n_digits, draws)};
}

// The answer has to follow within the context.
void check_room(const Example& example, std::int64_t length, const capture::ModelConfig& model) {
  const std::int64_t answer = example.continuation.max_new_tokens - 1;
  if (std::ssize(example.prompt_ids) + answer > model.context_length)
    throw UsageError(
        fmt::format("--length {}: {} tokens of an answer follow, and the model's context is {}; expected at "
                    "most {}",
                    length, answer, model.context_length, model.context_length - answer));
}

Example example_of(const NiahTask& task, std::int64_t sample, std::int64_t length, double depth,
                   const NeedleCase& about, NeedlePrompt prompt, const tokenizer::Tokenizer& tokenizer) {
  Example example;
  example.id = fmt::format("length {}, depth {}, sample {}", length, depth, sample);
  example.group = fmt::format("sample {}", sample);
  example.answers = {about.needle.value};
  example.continuation.max_new_tokens = task.max_new_tokens;
  if (task.max_new_tokens == 0)
    example.continuation.max_new_tokens =
        std::ssize(tokenizer.encode(" " + about.needle.value, false)) + kRoomAfterAnswer;
  example.continuation.stop_texts = {"\n"};
  example.continuation.stop_after_words = true;
  example.about = {{"length", length},
                   {"depth", depth},
                   {"sample", sample},
                   {"key", about.needle.key},
                   {"needle_token", prompt.needle_token},
                   {"haystack_tokens", prompt.haystack_tokens}};
  example.prompt_ids = std::move(prompt.ids);
  const std::string needle = filled(about.needle_template, about.needle);
  example.evidence =
      EvidenceFinder(tokenizer, example.prompt_ids)
          .of_texts({&needle, 1}, example.answers, filled(about.question_template, about.needle));
  return example;
}

}  // namespace

void NiahTask::check() const {
  check_utf8(needle, "--needle");
  check_utf8(question, "--question");
  check_utf8(haystack_path, "--haystack");
  check_utf8(keys_path, "--keys");
  if (lengths.empty()) throw UsageError("--length: expected at least one");
  if (depths.empty()) throw UsageError("--depth: expected at least one");
  for (const double depth : depths)
    if (!(depth >= 0 && depth <= 100))
      throw UsageError(fmt::format("--depth: found {}; expected 0 to 100 percent", depth));
  check_given_once(lengths, "--length");
  check_given_once(depths, "--depth");
  double n_values = 1;
  for (std::int64_t i = 0; i < n_digits && n_values <= static_cast<double>(n_distractors); ++i)
    n_values *= 10;
  if (n_values <= static_cast<double>(n_distractors))
    throw UsageError(fmt::format(
        "--values {}: there are {} values of so many digits, and {} needles; expected one for each", n_digits,
        n_values, n_distractors + 1));
  require_placeholder(needle, "{key}", "--needle");
  require_placeholder(needle, "{value}", "--needle");
  require_placeholder(question, "{key}", "--question");
}

nlohmann::ordered_json niah_settings(const NiahTask& task) {
  return {{"lengths", task.lengths},
          {"depths", task.depths},
          {"samples", task.n_samples},
          {"needles_per_sample", task.lengths.size() * task.depths.size()},
          {"distractors", task.n_distractors},
          {"digits", task.n_digits},
          {"needle", task.needle},
          {"question", task.question},
          {"haystack", task.haystack_path.empty() ? "generated" : task.haystack_path},
          {"keys", task.keys_path.empty() ? "cities" : task.keys_path},
          {"max_new_tokens", task.max_new_tokens}};
}

NiahExamples niah_examples(const NiahTask& task, std::uint64_t seed, const capture::ModelConfig& model,
                           const tokenizer::Tokenizer& tokenizer) {
  task.check();
  const auto [all_keys, bad_rows] = words_of(task.keys_path, city_names(), task.skip_bad);
  if (task.n_distractors + 1 > std::ssize(all_keys))
    throw UsageError(fmt::format("--distractors {}: there are {} keys, and the needle needs one of them",
                                 task.n_distractors, all_keys.size()));
  const std::int64_t longest = *std::ranges::max_element(task.lengths);
  if (longest > model.context_length)
    throw UsageError(fmt::format("--length {}: the model's context is {}", longest, model.context_length));
  const std::string text = task.haystack_path.empty() ? std::string() : read_texts(task.haystack_path);
  NiahExamples made;
  made.bad_rows = bad_rows;
  for (std::int64_t sample = 0; sample < task.n_samples; ++sample) {
    const std::uint64_t sample_seed = sample_seed_of(seed, sample);
    std::vector<std::string> keys = all_keys;
    NeedleCase about =
        needle_case(task, keys, long_haystack(text, longest, sample_seed, tokenizer), sample_seed);
    for (const std::int64_t length : task.lengths) {
      std::size_t near = 0;
      for (const double depth : task.depths) {
        about.needle = asked_needle(task, keys, about.distractors, sample_seed, length, depth);
        NeedlePrompt prompt = needle_prompt(about, length, depth, tokenizer, near);
        near = prompt.n_words;
        const std::int64_t missing = length - std::ssize(prompt.ids);
        made.most_short = std::max(made.most_short, missing);
        made.mean_short += static_cast<double>(missing);
        made.examples.push_back(example_of(task, sample, length, depth, about, std::move(prompt), tokenizer));
        check_room(made.examples.back(), length, model);
      }
    }
  }
  made.mean_short /= static_cast<double>(made.examples.size());
  return made;
}

Scores score_lookup(const Example& example, const capture::Completion& completion) {
  Scores scores{{"recall", 0}, {"exact", 0}};
  for (const std::string& answer : example.answers) {
    scores[0].second = std::max(scores[0].second, lookup_recall(completion.text, answer));
    scores[1].second = std::max(scores[1].second, lookup_exact(completion.text, answer));
  }
  return scores;
}

namespace {

using figures::Figure;
using figures::Panel;

// Numbers are written into cells as long as there is room for them.
constexpr std::size_t kMostNumberedLengths = 10;
constexpr std::size_t kMostColumns = 3;

// (depths, lengths) for every grid point.
std::vector<RowMatrixF> recalls(const TaskReport& report, const NiahTask& task) {
  const auto n = grid_of(report.settings).size();
  std::vector<RowMatrixF> recalls(n, RowMatrixF(static_cast<Eigen::Index>(task.depths.size()),
                                                static_cast<Eigen::Index>(task.lengths.size())));
  for (std::size_t row = 0; row < task.depths.size(); ++row)
    for (std::size_t column = 0; column < task.lengths.size(); ++column) {
      const auto cells = cells_where(report, {{"length", task.lengths[column]}, {"depth", task.depths[row]}});
      for (std::size_t point = 0; point < n; ++point) {
        double sum = 0;
        for (const ExampleResult* result : cells[point].results) sum += result->score("recall");
        recalls[point](static_cast<Eigen::Index>(row), static_cast<Eigen::Index>(column)) =
            static_cast<float>(sum / static_cast<double>(cells[point].results.size()));
      }
    }
  return recalls;
}

Panel panel_of(const std::string& title, std::size_t place, RowMatrixF values, const NiahTask& task,
               bool difference) {
  Panel panel;
  panel.id = fmt::format("point_{}", place);
  panel.title = title;
  panel.x = {"length", "tokens"};
  panel.y = {"depth of the needle", "%"};
  for (const std::int64_t length : task.lengths) panel.x.categories.push_back(fmt::format("{}", length));
  for (const double depth : task.depths) panel.y.categories.push_back(fmt::format("{:g}", depth));
  panel.legend = false;
  figures::Heatmap heatmap;
  heatmap.id = difference ? "recall_difference" : "recall";
  heatmap.long_name = difference ? "recall less the full cache's" : "recall";
  heatmap.colour_map = difference ? figures::ColourMap::kDiverging : figures::ColourMap::kViridis;
  heatmap.low = difference ? -1 : 0;
  heatmap.high = 1;
  heatmap.decimals = task.lengths.size() <= kMostNumberedLengths ? 2 : -1;
  heatmap.x_first = heatmap.y_first = -0.5;  // a cell's middle is its category's number
  heatmap.x_end = static_cast<double>(values.cols()) - 0.5;
  heatmap.y_end = static_cast<double>(values.rows()) - 0.5;
  heatmap.values = std::move(values);
  panel.heatmap = std::move(heatmap);
  return panel;
}

Figure figure_of(const TaskReport& report, const char* name, const char* title) {
  Figure figure;
  figure.name = name;
  figure.title = title;
  figure.caption = report_caption(report.settings, report.examples.size());
  return figure;
}

}  // namespace

std::vector<nlohmann::ordered_json> niah_cells(const NiahTask& task) {
  std::vector<nlohmann::ordered_json> cells;
  for (const std::int64_t length : task.lengths)
    for (const double depth : task.depths) cells.push_back({{"length", length}, {"depth", depth}});
  return cells;
}

std::vector<Figure> niah_figures(const TaskReport& report, const NiahTask& task) {
  const auto grid = grid_of(report.settings);
  const auto labels = point_labels(grid);
  auto values = recalls(report, task);
  Figure recall = figure_of(report, "niah-recall", "Recall of a needle, by length and depth");
  Figure difference =
      figure_of(report, "niah-difference", "Recall of a needle less that with the full cache");
  for (std::size_t point = 0, full = 0; point < grid.size(); ++point) {
    if (!grid[point].evicts())
      full = point;
    else
      difference.panels.push_back(panel_of(labels[point], point, values[point] - values[full], task, true));
    recall.panels.push_back(panel_of(labels[point], point, values[point], task, false));
  }
  std::vector<Figure> made;
  for (Figure* figure : {&recall, &difference})
    if (!figure->panels.empty()) {
      figure->columns =
          static_cast<int>(std::min(figure->panels.size(), task.lengths.size() > 5 ? 2 : kMostColumns));
      made.push_back(std::move(*figure));
    }
  return made;
}

std::vector<std::string_view> figure_names(std::string_view task, bool compared) {
  if (task == "niah" && compared) return {"niah-recall", "niah-difference", "niah-anatomy"};
  if (task == "niah") return {"niah-recall"};
  if (task == "phonebook" && compared) return {"phonebook", "phonebook-anatomy"};
  if (task == "phonebook") return {"phonebook"};
  if (task == "perplexity") return {"perplexity"};
  if (task == "ruler" && compared) return {"ruler", "ruler-tasks", "ruler-difference", "ruler-anatomy"};
  if (task == "ruler") return {"ruler", "ruler-tasks"};
  if (task == "longbench" && compared) return {"longbench-anatomy"};
  if (task == "math500" && compared) return {"math500-anatomy"};
  return {};
}

namespace {

std::u32string joined(const std::vector<std::u32string>& words) {
  std::u32string text;
  for (const std::u32string& word : words) {
    if (!text.empty()) text.push_back(U' ');
    text += word;
  }
  return text;
}

}  // namespace

double lookup_recall(std::string_view output, std::string_view answer) {
  const auto words = normalised_words(answer), found = normalised_words(output);
  if (words.empty() || joined(found).find(joined(words)) != std::u32string::npos) return 1;
  const auto n = std::ranges::count_if(
      words, [&](const std::u32string& word) { return std::ranges::find(found, word) != found.end(); });
  return static_cast<double>(n) / static_cast<double>(words.size());
}

double lookup_exact(std::string_view output, std::string_view answer) {
  const auto words = normalised_words(answer);
  while (!output.empty()) {
    const std::size_t end = std::min(output.find('\n'), output.size());
    const auto line = normalised_words(output.substr(0, end));
    if (!line.empty()) return std::ranges::mismatch(words, line).in1 == words.end() ? 1 : 0;
    output.remove_prefix(std::min(output.size(), end + 1));
  }
  return words.empty() ? 1 : 0;
}

}  // namespace keyscope::evaluation
