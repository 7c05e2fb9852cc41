#include "app/evaluation/phonebook.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/evaluation/drawn_words.hpp"
#include "app/evaluation/draws.hpp"
#include "app/evaluation/given_once.hpp"
#include "app/evaluation/needle_prompt.hpp"
#include "app/evaluation/utf8_option.hpp"

namespace keyscope::evaluation {
namespace {

constexpr std::uint64_t kBooks = 4;  // purpose of draws
constexpr std::int64_t kRoomAfterAnswer = 8;

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
  const auto [names, bad_rows] = words_of(task.names_path, first_names(), task.skip_bad);
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

}  // namespace keyscope::evaluation
