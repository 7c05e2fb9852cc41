#include "app/evaluation/example.hpp"

#include <fmt/format.h>

#include "base/sha256.hpp"

namespace keyscope::evaluation {

std::string examples_sha256(std::span<const Example> examples) {
  capture::Sha256 hash;
  const auto add = [&](const std::string& text) { hash.add(fmt::format("{}:{};", text.size(), text)); };
  for (const Example& example : examples) {
    add(example.id);
    add(example.about.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    for (const std::int32_t id : example.prompt_ids) hash.add(fmt::format("{} ", id));
    for (const std::string& answer : example.answers) add("=" + answer);
    const capture::Continuation& continuation = example.continuation;
    for (const std::string& stop : continuation.stop_texts) add("/" + stop);
    for (const std::int32_t id : continuation.end_ids) hash.add(fmt::format("!{} ", id));
    add(fmt::format("{} {} {} {} {} {} {} {}", continuation.max_new_tokens, continuation.ignore_eos,
                    continuation.never_empty, continuation.stop_after_words,
                    continuation.sampling.temperature, continuation.sampling.top_p,
                    continuation.sampling.seed, example.score_from.value_or(0)));
  }
  return hash.hex();
}

}  // namespace keyscope::evaluation
