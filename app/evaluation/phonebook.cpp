#include "app/evaluation/phonebook.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/evaluation/needle_prompt.hpp"
#include "app/evaluation/task_data.hpp"
#include "app/figures/labels.hpp"
#include "app/figures/spread.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"

namespace keyscope::evaluation {

namespace {

constexpr std::uint64_t kBooks = 4;  // purpose of draws

// Names without a file of them: first names, and pairs of two where a book has more entries than there are.
std::vector<std::string> own_names(const PhonebookTask& task) {
  std::vector<std::string> names(first_names().begin(), first_names().end());
  const std::size_t n_single = names.size();
  if (std::ranges::all_of(task.entries, [&](std::int64_t n) { return n <= std::ssize(names); })) return names;
  names.clear();
  for (std::size_t i = 0; i < n_single; ++i)
    for (std::size_t j = 0; j < n_single; ++j)
      if (i != j) names.push_back(fmt::format("{} {}", first_names()[i], first_names()[j]));
  return names;
}

void check_task(const PhonebookTask& task, std::size_t n_names) {
  if (task.entries.empty()) throw UsageError("--entries: expected at least one");
  for (const std::int64_t n : task.entries)
    if (n < 1 || n > static_cast<std::int64_t>(n_names))
      throw UsageError(fmt::format("--entries {}: expected 1 to {}, as many as there are names", n, n_names));
  check_given_once(task.entries, "--entries");
  if (task.question.find("{key}") == std::string::npos)
    throw UsageError("--question: there is no {key} in it");
}

Example book_of(const PhonebookTask& task, const std::vector<Needle>& entries, std::size_t asked,
                const tokenizer::Tokenizer& tokenizer) {
  std::string text = task.head;
  for (const Needle& entry : entries) text += filled(task.entry, entry);
  text += filled(task.question, entries[asked]);
  Example example;
  example.prompt_ids = tokenizer.encode(text, true);
  example.answers = {entries[asked].value};
  const std::string entry = filled(task.entry, entries[asked]);
  example.evidence = EvidenceFinder(tokenizer, example.prompt_ids)
                         .of_texts({&entry, 1}, example.answers, filled(task.question, entries[asked]));
  example.continuation.max_new_tokens = task.max_new_tokens;
  if (task.max_new_tokens == 0)
    example.continuation.max_new_tokens =
        std::ssize(tokenizer.encode(" " + entries[asked].value, false)) + kRoomAfterAnswer;
  example.continuation.stop_texts = {"\n"};
  example.continuation.stop_after_words = true;
  example.about = {{"entries", entries.size()}, {"key", entries[asked].key}, {"place", asked}};
  return example;
}

}  // namespace

nlohmann::ordered_json phonebook_settings(const PhonebookTask& task) {
  return {{"entries", task.entries},
          {"samples", task.n_samples},
          {"digits", task.n_digits},
          {"head", task.head},
          {"entry", task.entry},
          {"question", task.question},
          {"names", task.names_path.empty() ? "first names" : task.names_path},
          {"max_new_tokens", task.max_new_tokens}};
}

PhonebookExamples phonebook_examples(const PhonebookTask& task, std::uint64_t seed,
                                     const capture::ModelConfig& model,
                                     const tokenizer::Tokenizer& tokenizer) {
  check_utf8(task.question, "--question");
  check_utf8(task.names_path, "--names");
  auto [names, bad_rows] = words_of(task.names_path, first_names(), task.skip_bad);
  if (task.names_path.empty()) names = own_names(task);
  check_task(task, names.size());
  const auto most = static_cast<std::size_t>(*std::ranges::max_element(task.entries));
  PhonebookExamples made{{}, bad_rows};
  for (std::int64_t sample = 0; sample < task.n_samples; ++sample) {
    Draws draws(sample_seed_of(seed, sample), kBooks);
    std::vector<Needle> book;
    for (const std::size_t name : draws.different(most, names.size()))
      book.push_back({names[name], draws.digits(task.n_digits)});
    for (const std::int64_t n : task.entries) {
      const std::vector<Needle> entries(book.begin(), book.begin() + static_cast<std::ptrdiff_t>(n));
      Example example = book_of(task, entries, draws.below(entries.size()), tokenizer);
      example.id = fmt::format("entries {}, sample {}", n, sample);
      example.group = fmt::format("sample {}", sample);
      example.about["sample"] = sample;
      const std::int64_t answer = example.continuation.max_new_tokens - 1;
      if (std::ssize(example.prompt_ids) + answer > model.context_length)
        throw UsageError(fmt::format(
            "--entries {}: the book has {} tokens, {} of an answer follow, and the model's context is {}", n,
            example.prompt_ids.size(), answer, model.context_length));
      made.examples.push_back(std::move(example));
    }
  }
  return made;
}

namespace {

constexpr double kStep = 0.08;  // between the policies at one number of entries

}  // namespace

std::vector<nlohmann::ordered_json> phonebook_cells(const PhonebookTask& task) {
  std::vector<nlohmann::ordered_json> cells;
  cells.reserve(task.entries.size());
  for (const std::int64_t entries : task.entries) cells.push_back({{"entries", entries}});
  return cells;
}

figures::Figure phonebook_figure(const TaskReport& report, const PhonebookTask& task) {
  figures::Panel panel;
  panel.id = "exact";
  panel.x = {"entries", ""};
  panel.y = {"share of exact answers", ""};
  std::vector<std::vector<Cell>> by_entries;
  for (const auto& about : phonebook_cells(task)) {
    by_entries.push_back(cells_where(report, about));
    panel.x.categories.push_back(json_text(about["entries"]));
  }
  const auto grid = grid_of(report.settings);
  const auto labels = point_labels(grid);
  figures::PolicyLooks looks;
  for (std::size_t point = 0; point < grid.size(); ++point) {
    figures::MeanCurve curve(labels[point], looks.next(grid[point].spec.name));
    const double offset = kStep * (static_cast<double>(point) - static_cast<double>(grid.size() - 1) / 2);
    for (std::size_t i = 0; i < by_entries.size(); ++i) {
      const ScoreMean share = by_entries[i][point].score("exact", Interval::kWilson, report.settings.seed);
      curve.add(static_cast<double>(i) + offset, share.low, share.mean, share.high);
    }
    std::move(curve).put_into(panel);
  }
  figures::Figure figure;
  figure.name = "phonebook";
  figure.title = "Entries of a phone book looked up";
  figure.caption = report_caption(report.settings, report.examples.size());
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace keyscope::evaluation
