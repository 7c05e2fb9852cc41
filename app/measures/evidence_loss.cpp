#include "app/measures/evidence_loss.hpp"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "capture/model/recorded_attention.hpp"

namespace keyscope::measures {
namespace {

auto order(const EvidenceLoss& loss) {
  return std::tuple(loss.block, loss.layer, loss.kv_head, loss.position);
}

// The first that one head lost of these rows.
std::optional<EvidenceLoss> first_of_head(const recording::Recording& recording, int run,
                                          const recording::LayerHead& head, std::int64_t window,
                                          const std::vector<std::int32_t>& rows) {
  const auto info = recording.info();
  const std::vector<std::int32_t> evicted_at = recording.trace(run, head.layer, head.kv_head).evicted_at;
  std::optional<EvidenceLoss> first;
  for (const std::int32_t row : rows) {
    if (row >= std::ssize(evicted_at) || evicted_at[row] < 0) continue;
    const std::int32_t block = evicted_at[row];
    if (window > 0 && info->n_prompt() - row >= window) continue;
    const EvidenceLoss loss{head.layer, head.kv_head, block, row};
    if (!first || order(loss) < order(*first)) first = loss;
  }
  return first;
}

}  // namespace

std::vector<std::int32_t> evidence_tokens(const recording::RecordingInfo& info) {
  std::vector<std::int32_t> tokens;
  try {
    const auto configuration = parse_json(info.provenance.configuration);
    const JsonField field(configuration, info.source, "configuration");
    if (!field.is_object()) return {};
    const auto evidence = field.optional("evidence");
    if (!evidence) return {};
    evidence->for_each([&](const JsonField& range) {
      if (std::ssize(tokens) > info.n_prompt())
        range.fail("more tokens than the prompt has", "each range once");
      std::vector<std::int64_t> ends;
      range.for_each([&](const JsonField& end) { ends.push_back(end.integer(0, info.n_prompt())); });
      if (ends.size() != 2) range.fail(fmt::format("{} numbers", ends.size()), "the first token and the end");
      for (std::int64_t token = ends[0]; token < ends[1]; ++token)
        tokens.push_back(static_cast<std::int32_t>(token));
    });
  } catch (const Error&) {
    return {};  // recordings may come from elsewhere, and hold another configuration
  }
  std::ranges::sort(tokens);
  const auto twice = std::ranges::unique(tokens);
  tokens.erase(twice.begin(), twice.end());
  return tokens;
}

std::vector<std::optional<EvidenceLoss>> first_evidence_losses(const recording::Recording& recording,
                                                               const std::function<void()>& keep_on) {
  const auto info = recording.info();
  const std::vector<std::int32_t> rows = evidence_tokens(*info);
  std::vector<std::optional<EvidenceLoss>> losses(info->runs.size());
  if (rows.empty()) return losses;
  for (const recording::LayerHead& head : info->all_heads()) {
    const std::int64_t window = capture::recorded_rules(*info, head.layer).window;
    for (std::size_t run = 0; run < losses.size(); ++run) {
      if (info->runs[run].plan.budget == 0) continue;  // nothing is evicted
      keep_on();
      const auto found = first_of_head(recording, static_cast<int>(run), head, window, rows);
      if (found && (!losses[run] || order(*found) < order(*losses[run]))) losses[run] = found;
    }
  }
  return losses;
}

}  // namespace keyscope::measures
