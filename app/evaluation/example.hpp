#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "capture/inference/completion.hpp"

namespace keyscope::evaluation {

// One question of a task, as every policy gets it.
struct Example {
  std::string id;  // not empty, one of its kind in the evaluation
  // Examples of one group are run together, since their prompts begin alike; they follow one another.
  std::string group;
  std::vector<std::int32_t> prompt_ids;
  std::vector<std::string> answers;  // that are expected; any of them is right
  capture::Continuation continuation;
  std::optional<std::int64_t> score_from = {};  // as in capture::CompletionRequest
  // What is said of it beside its results, such as {"length": 512, "depth": 50}: also what its score depends
  // on beside the answers.
  nlohmann::ordered_json about = nlohmann::ordered_json::object();
};

// Scores by name, in the order in which they are reported: {"recall", 0.5}, {"exact", 0}.
using Scores = std::vector<std::pair<std::string, double>>;

// What a completion is worth. Called on the inference thread.
using Scorer = std::function<Scores(const Example& example, const capture::Completion& completion)>;

// What the results of these examples depend on: SHA-256 of ids, prompts, answers, continuations and what is
// said of them, in hex.
std::string examples_sha256(std::span<const Example> examples);

}  // namespace keyscope::evaluation
