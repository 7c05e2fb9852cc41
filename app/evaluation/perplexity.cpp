#include "app/evaluation/perplexity.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/evaluation/text_file.hpp"
#include "app/evaluation/text_windows.hpp"
#include "app/evaluation/utf8_option.hpp"

namespace keyscope::evaluation {
namespace {

namespace fs = std::filesystem;

// What the tokenizer puts in front of every text.
std::optional<std::int32_t> leading_special(const tokenizer::Tokenizer& tokenizer) {
  const auto with = tokenizer.encode("a", true), without = tokenizer.encode("a", false);
  if (with.size() == without.size() || with.empty() || with.front() == without.front()) return std::nullopt;
  return with.front();
}

WindowRule rule_of(const PerplexityOptions& options, const capture::Model& model) {
  const std::int64_t context = model.config().context_length;
  if (options.length < 2 || options.length > context)
    throw UsageError(
        fmt::format("--length: found {}; expected 2 to {}, the model's context", options.length, context));
  if (options.bins < 1) throw UsageError(fmt::format("--bins: found {}; expected 1 or more", options.bins));
  WindowRule rule{options.length, 0, leading_special(*model.tokenizer())};
  rule.stride = options.stride.value_or(longest_stride(rule));
  if (rule.stride < 1 || rule.stride > longest_stride(rule))
    throw UsageError(
        fmt::format("--stride: found {}; expected 1 to {}, the tokens that a window of {} can score",
                    rule.stride, longest_stride(rule), rule.length));
  return rule;
}

// Bytes that a window's scored tokens add to the text before them.
std::int64_t scored_bytes(const tokenizer::Tokenizer& tokenizer, const TextWindow& window) {
  const auto text = tokenizer.token_text(window.ids);
  return text.offset.back() - text.offset[static_cast<std::size_t>(window.first_scored)];
}

void add_text(const fs::path& path, const PerplexityOptions& options, const WindowRule& rule,
              const tokenizer::Tokenizer& tokenizer, PerplexitySet& set) {
  const auto ids = tokenizer.encode(read_text_file(path), false);
  std::vector<TextWindow> windows = text_windows(ids, rule);
  if (windows.empty())
    throw FileError(
        fmt::format("{}: has {} tokens; expected at least the {} of a window, or a smaller --length",
                    path.string(), ids.size(), rule.length - (rule.bos ? 1 : 0)));
  if (options.windows && std::ssize(windows) > *options.windows)
    windows.resize(static_cast<std::size_t>(*options.windows));
  for (TextWindow& window : windows) {
    Example example;
    example.id = fmt::format("{}, token {}", path.string(), window.first);
    example.group = example.id;
    example.score_from = window.first_scored;
    example.about = {{"text", path.string()}, {"first", window.first}};
    set.n_scored += rule.stride;
    set.n_bytes += scored_bytes(tokenizer, window);
    example.prompt_ids = std::move(window.ids);
    set.examples.push_back(std::move(example));
  }
  const std::int64_t end = windows.back().first + rule.length - (rule.bos ? 1 : 0);
  set.n_left_out += std::ssize(ids) - end;
}

}  // namespace

PerplexitySet read_texts(const PerplexityOptions& options, const capture::Model& model) {
  if (model.tokenizer() == nullptr)
    throw FileError(fmt::format("{}: there is no tokenizer.json; expected one, since texts are read",
                                model.folder().string()));
  for (const fs::path& path : options.texts) check_utf8(path.string(), "--text");
  const WindowRule rule = rule_of(options, model);
  PerplexitySet set;
  set.bins = {rule.stride, std::min(options.bins, rule.stride)};
  set.first_scored = rule.length - rule.stride;
  for (const fs::path& path : options.texts) add_text(path, options, rule, *model.tokenizer(), set);
  return set;
}

std::string bin_score(const PerplexitySet& set, std::int64_t bin) {
  return fmt::format("nll_nats {}-{}", set.first_scored + set.bins.begin(bin),
                     set.first_scored + set.bins.begin(bin + 1) - 1);
}

Scorer perplexity_scorer(const PerplexitySet& set) {
  return [&set](const Example&, const capture::Completion& completion) {
    std::vector<double> nll_nats;
    for (const double log_probability : completion.log_probabilities) nll_nats.push_back(-log_probability);
    const std::vector<double> means = bin_means(nll_nats, set.bins);
    Scores scores{{"nll_nats", mean_of_bins(means, set.bins)}};
    for (std::int64_t bin = 0; bin < set.bins.n_bins; ++bin)
      scores.emplace_back(bin_score(set, bin), means[static_cast<std::size_t>(bin)]);
    return scores;
  };
}

nlohmann::ordered_json perplexity_settings(const PerplexityOptions& options) {
  using Json = nlohmann::ordered_json;
  return {{"length", options.length},
          {"stride", options.stride ? Json(*options.stride) : Json()},
          {"windows", options.windows ? Json(*options.windows) : Json()},
          {"bins", options.bins}};
}

}  // namespace keyscope::evaluation
