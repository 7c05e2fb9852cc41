#include "app/evaluation/math500.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/evaluation/data_files.hpp"
#include "app/evaluation/json_rows.hpp"
#include "app/evaluation/math_match.hpp"
#include "app/evaluation/utf8_option.hpp"
#include "base/sha256.hpp"

namespace keyscope::evaluation {
namespace {

constexpr const char* kChatPrompt =
    "{problem}\nPlease reason step by step, and put your final answer within \\boxed{}.";
constexpr const char* kPlainPrompt = "Problem:\n{problem}\n\nSolution:";
// Where the next problem begins: a base model goes on with one. As `until` of minerva_math in the
// lm-evaluation-harness.
constexpr const char* kNextProblem = "Problem:";

const tokenizer::Tokenizer& tokenizer_of(const capture::Model& model) {
  if (model.tokenizer() == nullptr)
    throw FileError(fmt::format("{}: there is no tokenizer.json; expected one, since problems are text",
                                model.folder().string()));
  return *model.tokenizer();
}

void check(const MathOptions& options) {
  check_utf8(options.prompt, "--prompt");
  if (!options.prompt.empty() && options.prompt.find("{problem}") == std::string::npos)
    throw UsageError("--prompt: there is no {problem} in it; expected it where the problem stands");
  if (options.samples > 1 && options.temperature == 0)
    throw UsageError(fmt::format(
        "--samples: {} samples of the likeliest answer are all the same; expected --temperature above 0",
        options.samples));
  capture::check_sampling({options.temperature, options.top_p, options.seed});
}

// Of an example by its name, so that it does not depend on what other rows there are.
std::uint64_t seed_of(std::uint64_t seed, const std::string& id) {
  capture::Sha256 hash;
  hash.add(fmt::format("{}/{}", seed, id));
  return std::stoull(hash.hex().substr(0, 16), nullptr, 16);
}

// The ids' text holds the stop text too.
std::string before_stop(std::string text, const std::vector<std::string>& stop_texts) {
  for (const std::string& stop : stop_texts) text.resize(std::min(text.find(stop), text.size()));
  return text;
}

// Turns rows into examples one after another.
class Collection {
 public:
  Collection(const MathOptions& options, const capture::Model& model)
      : options_(options), model_(model), encoder_(tokenizer_of(model), model.folder(), options.chat) {
    prompt_ = options.prompt;
    if (!prompt_.empty()) return;
    prompt_ = encoder_.has_chat() ? kChatPrompt : kPlainPrompt;
    if (!encoder_.has_chat()) stop_texts_ = {kNextProblem};
  }

  void read(std::span<const std::filesystem::path> paths) {
    set_.bad =
        read_json_rows(paths, options_.skip_bad, [&](const nlohmann::json& row, const std::string& where) {
          if (!options_.rows || std::ssize(set_.rows) < *options_.rows) add(read_math_row(row, where), where);
        }).bad;
  }

  MathSet take() { return std::move(set_); }

 private:
  void add(MathRow row, const std::string& where) {
    const std::string id = row.id.empty() ? fmt::format("row {}", set_.rows.size() + 1) : row.id;
    if (ids_.contains(id))
      throw FileError(where + ": the same \"unique_id\" as on an earlier row, which would count twice");
    Example example;
    example.group = id;
    example.prompt_ids = encoder_.turn(math_prompt(prompt_, row.problem));
    const std::int64_t left = model_.config().context_length - std::ssize(example.prompt_ids);
    if (left < 1)
      throw FileError(fmt::format("{}: the prompt has {} tokens, and the model's context is {}", where,
                                  example.prompt_ids.size(), model_.config().context_length));
    example.answers = {row.answer};
    example.continuation.max_new_tokens = std::min(options_.max_new_tokens, left);
    example.continuation.stop_texts = stop_texts_;
    example.about = {{"subject", row.subject},
                     {"level", row.level ? nlohmann::ordered_json(*row.level) : nlohmann::ordered_json()}};
    for (std::int64_t sample = 0; sample < options_.samples; ++sample) {
      example.id = options_.samples == 1 ? id : fmt::format("{}, sample {}", id, sample + 1);
      example.continuation.sampling = {options_.temperature, options_.top_p,
                                       seed_of(options_.seed, example.id)};
      set_.examples.push_back(example);
    }
    ids_.insert(id);
    set_.rows.push_back(std::move(row));
  }

  const MathOptions& options_;
  const capture::Model& model_;
  PromptEncoder encoder_;
  std::string prompt_;
  std::vector<std::string> stop_texts_;
  MathSet set_;
  std::set<std::string> ids_;
};

}  // namespace

MathSet read_math(const MathOptions& options, const capture::Model& model) {
  check(options);
  Collection collection(options, model);
  collection.read(data_files(options.data));
  return collection.take();
}

Scorer math_scorer(const tokenizer::Tokenizer& tokenizer) {
  return [&tokenizer](const Example& example, const capture::Completion& completion) {
    const std::string solution =
        before_stop(tokenizer.decode(completion.generated, true), example.continuation.stop_texts);
    const std::string& answer = example.answers.front();
    return Scores{{"exact", exact_match(solution, answer) ? 1 : 0},
                  {"flexible", flexible_match(solution, answer) ? 1 : 0},
                  {"generated", static_cast<double>(completion.generated.size())}};
  };
}

nlohmann::ordered_json math_settings(const MathOptions& options) {
  using Json = nlohmann::ordered_json;
  return {{"prompt", options.prompt},
          {"chat", chat_word(options.chat)},
          {"max_new_tokens", options.max_new_tokens},
          {"temperature", options.temperature},
          {"top_p", options.top_p},
          {"samples", options.samples},
          {"rows", options.rows ? Json(*options.rows) : Json()}};
}

}  // namespace keyscope::evaluation
