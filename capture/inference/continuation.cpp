#include "capture/inference/continuation.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "capture/inference/token_scores.hpp"

namespace keyscope::capture {
namespace {

// The text an id adds is what it adds after the one before it: at the beginning of a text, decoders of the
// SentencePiece kind drop a space that belongs here.
std::string added_text(const Model& model, std::int32_t before, std::int32_t id) {
  const tokenizer::Tokenizer* tokenizer = model.tokenizer();
  return tokenizer == nullptr ? std::string() : tokenizer->token_text(std::array{before, id}).token(1);
}

// Cuts the text where the first stop text begins; false where there is none. Only its end is new.
bool cut_at_stop(const Continuation& continuation, std::size_t n_new, std::string& text) {
  const std::size_t words = continuation.stop_after_words ? text.find_first_not_of(" \t\r\n") : 0;
  if (words == std::string::npos) return false;
  std::size_t first = std::string::npos;
  for (const std::string& stop : continuation.stop_texts) {
    const std::size_t old = text.size() - n_new;
    first = std::min(first, text.find(stop, std::max(words, old - std::min(old, stop.size()))));
  }
  if (first == std::string::npos) return false;
  text.resize(first);
  return true;
}

// Ids after which nothing follows.
std::vector<std::int32_t> ending_ids(const Model& model, const Continuation& continuation) {
  std::vector<std::int32_t> ids = continuation.end_ids;
  const auto& eos = model.config().eos_token_ids;
  if (!continuation.ignore_eos) ids.insert(ids.end(), eos.begin(), eos.end());
  return ids;
}

}  // namespace

void continue_text(const Model& model, const Continuation& continuation, std::int32_t last_prompt_id,
                   RunState& state, const std::function<void(std::int32_t id)>& run_token,
                   Completion& completion) {
  const std::vector<std::int32_t> endings = ending_ids(model, continuation);
  completion.end = CompletionEnd::kMaxNewTokens;
  std::int32_t before = last_prompt_id;
  while (std::ssize(completion.generated) < continuation.max_new_tokens) {
    if (!completion.generated.empty()) run_token(before);
    auto logits = finite_logits(model.transformer(), state.last_hidden(), state.position() - 1);
    if (continuation.never_empty && completion.generated.empty())
      for (const std::int32_t id : endings)
        if (static_cast<std::size_t>(id) < logits.size())  // a configuration may name ids that are not there
          logits[static_cast<std::size_t>(id)] = std::numeric_limits<float>::lowest();
    const std::int32_t id = choose_token(logits, continuation.sampling, std::ssize(completion.generated));
    completion.generated.push_back(id);
    if (std::ranges::find(endings, id) != endings.end()) {
      completion.end = CompletionEnd::kEndOfSequence;
      return;
    }
    const std::string added = added_text(model, before, id);
    completion.text += added;
    if (cut_at_stop(continuation, added.size(), completion.text)) {
      completion.end = CompletionEnd::kStopText;
      return;
    }
    before = id;
  }
}

}  // namespace keyscope::capture
