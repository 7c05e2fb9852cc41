#include "app/session/selection.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/catalogue.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::session {

namespace {

using recording::RecordingInfo;
using recording::RunInfo;

// What evicts is what there is to see; but not a run that has no block, of a capture that was cut short.
int first_evicting_run(const RecordingInfo& info) {
  int chosen = 0;
  for (std::size_t run = info.runs.size(); run-- > 0;) {
    const RunInfo& candidate = info.runs[run];
    const bool best = info.runs[chosen].plan.policy != "none" && info.runs[chosen].blocks_done > 0;
    if (candidate.blocks_done == 0) continue;
    if (candidate.plan.policy != "none" || !best) chosen = static_cast<int>(run);
  }
  return chosen;
}

}  // namespace

std::int64_t end_of_prompt(const RunInfo& run) { return figures::resolve_block(run, -1); }

Selection resolve_selection(const RecordingInfo& info, const SelectionRequest& request) {
  if (info.runs.empty() || info.layers.empty())
    throw UsageError(fmt::format("{}: there is nothing to show: it holds {} runs and {} layers", info.source,
                                 info.runs.size(), info.layers.size()));
  Selection selection;
  selection.run = request.run ? figures::find_run(info, *request.run) : first_evicting_run(info);
  selection.layer = request.layer.value_or(info.layers.front());
  selection.kv_head = request.kv_head.value_or(info.heads.first());
  figures::require_layer(info, selection.layer);
  figures::require_kv_head(info, selection.layer, selection.kv_head);
  selection.block = figures::resolve_block(info.runs[selection.run], request.block.value_or(-1));
  return selection;
}

Selection clamp_selection(const RecordingInfo& info, Selection selection) {
  if (info.runs.empty() || info.layers.empty()) return {};
  selection.run = std::clamp(selection.run, 0, static_cast<int>(info.runs.size()) - 1);
  const auto nearest =
      std::ranges::min_element(info.layers, {}, [&](int layer) { return std::abs(layer - selection.layer); });
  selection.layer = *nearest;
  const std::vector<int> heads = info.kv_heads(selection.layer);
  selection.kv_head =
      *std::ranges::min_element(heads, {}, [&](int head) { return std::abs(head - selection.kv_head); });
  selection.block = std::min(selection.block, info.runs[selection.run].blocks_done - 1);
  return selection;
}

std::string selection_options(const RecordingInfo& info, const Selection& selection) {
  std::string options =
      fmt::format("--run {} --layer {} --kv-head {}", quote_word(info.runs[selection.run].plan.name),
                  selection.layer, selection.kv_head);
  if (selection.block >= 0) options += fmt::format(" --block {}", selection.block);
  return options;
}

namespace {

bool differ_in_block_alone(SelectionHistory::Snapshot a, const SelectionHistory::Snapshot& b) {
  a.selection.block = b.selection.block;
  return a == b;
}

}  // namespace

void SelectionHistory::note(const Snapshot& now) {
  if (snapshots_.empty()) {
    snapshots_.push_back(now);
    return;
  }
  if (now == snapshots_[at_]) return;
  snapshots_.resize(at_ + 1);
  const bool step = differ_in_block_alone(now, snapshots_[at_]);
  if (step && stepping_) {
    snapshots_[at_] = now;
    return;
  }
  stepping_ = step;
  snapshots_.push_back(now);
  if (snapshots_.size() > kMost) snapshots_.erase(snapshots_.begin());
  at_ = snapshots_.size() - 1;
}

std::optional<SelectionHistory::Snapshot> SelectionHistory::undo() {
  if (!can_undo()) return std::nullopt;
  stepping_ = false;
  return snapshots_[--at_];
}

std::optional<SelectionHistory::Snapshot> SelectionHistory::redo() {
  if (!can_redo()) return std::nullopt;
  stepping_ = false;
  return snapshots_[++at_];
}

void SelectionHistory::clear() {
  snapshots_.clear();
  at_ = 0;
  stepping_ = false;
}

namespace {

enum class Word { kLayer, kHead, kBlock };

// The text in small letters, without what may stand between words and numbers.
std::string essence(std::string_view text) {
  std::string result = lower_case(text);
  std::erase_if(result, [](char c) { return c == ' ' || c == ',' || c == '-' || c == '='; });
  return result;
}

std::optional<Word> take_word(std::string_view& rest) {
  constexpr std::pair<std::string_view, Word> kWords[] = {
      {"kvhead", Word::kHead}, {"head", Word::kHead},   {"h", Word::kHead}, {"layer", Word::kLayer},
      {"l", Word::kLayer},     {"block", Word::kBlock}, {"b", Word::kBlock}};
  for (const auto& [name, word] : kWords) {
    if (!rest.starts_with(name)) continue;
    rest.remove_prefix(name.size());
    return word;
  }
  return std::nullopt;
}

std::optional<int> take_number(std::string_view& rest) {
  int number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  rest.remove_prefix(end - rest.data());
  return number;
}

// "0 to 7", or "0, 3, 5" where there are gaps and not many.
std::string list_numbers(const std::vector<int>& numbers) {
  const bool gaps = numbers.back() - numbers.front() + 1 != static_cast<int>(numbers.size());
  if (!gaps || numbers.size() > 12)
    return fmt::format("{} to {}{}", numbers.front(), numbers.back(), gaps ? ", with gaps" : "");
  std::string text;
  for (const int number : numbers) text += fmt::format("{}{}", text.empty() ? "" : ", ", number);
  return text;
}

}  // namespace

std::optional<SelectionRequest> typed_selection(std::string_view text) {
  const std::string all = essence(text);
  std::string_view rest = all;
  SelectionRequest request;
  while (!rest.empty()) {
    const auto word = take_word(rest);
    if (!word) return std::nullopt;
    const auto number = take_number(rest);
    if (!number) return std::nullopt;
    if (*word == Word::kLayer) request.layer = *number;
    if (*word == Word::kHead) request.kv_head = *number;
    if (*word == Word::kBlock) request.block = *number;
  }
  return all.empty() ? std::nullopt : std::optional(request);
}

std::string describe_request(const SelectionRequest& request) {
  std::string text;
  const auto add = [&](const char* word, std::int64_t number) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", word, number);
  };
  if (request.layer) add("layer", *request.layer);
  if (request.kv_head) add("KV head", *request.kv_head);
  if (request.block) add("block", *request.block);
  if (!text.empty() && text.front() >= 'a') text.front() = static_cast<char>(text.front() - 'a' + 'A');
  return text;
}

std::string selection_refusal(const recording::RecordingInfo& info, const Selection& now,
                              const SelectionRequest& request) {
  if (request.layer && std::ranges::find(info.layers, *request.layer) == info.layers.end())
    return (info.has_keys(*request.layer) ? "recorded layers: " : "it has no keys; layers with keys: ") +
           list_numbers(info.layers);
  const std::vector<int> heads = info.kv_heads(request.layer.value_or(now.layer));
  if (request.kv_head && std::ranges::find(heads, *request.kv_head) == heads.end())
    return "recorded KV heads: " + list_numbers(heads);
  const std::int64_t blocks = info.runs[now.run].blocks_done;
  if (request.block && *request.block >= blocks)
    return blocks == 0 ? std::string("no block is there yet")
                       : fmt::format("blocks of this run: 0 to {}", blocks - 1);
  return {};
}

namespace {

bool same_model(const RecordingInfo& a, const RecordingInfo& b) {
  return a.provenance.model_sha256 == b.provenance.model_sha256 && a.model.n_layers == b.model.n_layers &&
         a.model.n_heads == b.model.n_heads && a.model.n_kv_heads == b.model.n_kv_heads &&
         a.model.head_dim == b.model.head_dim && a.model.layer_heads == b.model.layer_heads;
}

void add_runs(const RecordingInfo& info, int source, const std::string& refusal,
              std::vector<RunChoice>& choices) {
  for (std::size_t run = 0; run < info.runs.size(); ++run)
    choices.push_back({{source, static_cast<int>(run)},
                       info.runs[run].plan.name,
                       refusal.empty() && info.runs[run].blocks_done == 0 ? "no block yet" : refusal});
}

}  // namespace

std::string comparison_refusal(const RecordingInfo& info, const RecordingInfo& other, int layer,
                               int kv_head) {
  if (!same_model(info, other)) return "other model";
  if (info.prompt.id != other.prompt.id) return "other prompt";
  if (!other.keys) return "no keys";
  if (std::ranges::find(other.layers, layer) == other.layers.end()) return fmt::format("no layer {}", layer);
  return other.heads.has(kv_head) ? std::string() : fmt::format("no KV head {}", kv_head);
}

std::vector<RunChoice> run_choices(const RecordingInfo& info, const std::vector<RecordingInfoPtr>& earlier,
                                   int layer, int kv_head) {
  std::vector<RunChoice> choices;
  add_runs(info, 0, {}, choices);
  for (std::size_t i = 0; i < earlier.size(); ++i)
    add_runs(*earlier[i], static_cast<int>(i) + 1, comparison_refusal(info, *earlier[i], layer, kv_head),
             choices);
  return choices;
}

std::int64_t matching_block(const RunInfo& of, std::int64_t block, const RunInfo& run) {
  if (run.blocks_done == 0) return -1;
  if (block < 0) return -1;
  const std::int64_t n_seen = recording::tokens_seen(of, std::min(block, of.blocks_done - 1));
  // Blocks are in order, so that the first which has seen them all is found by halving.
  std::int64_t low = 0, high = run.blocks_done - 1;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (recording::tokens_seen(run, middle) >= n_seen)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

std::vector<RunId> after_selecting(std::vector<RunId> beside, int before, int selected) {
  for (RunId& id : beside)
    if (id == RunId{0, selected}) id = {0, before};
  std::ranges::sort(beside);
  return beside;
}

std::size_t measure_index(std::string_view id) {
  const auto choices = measure_choices();
  const auto found = std::ranges::find(choices, id, &MeasureChoice::id);
  return found == choices.end() ? 0 : static_cast<std::size_t>(found - choices.begin());
}

std::string format_measure(const MeasureChoice& choice, const std::optional<double>& value) {
  return value ? format_signed(*value, choice.decimals) : std::string("–");
}

std::string measure_label(const MeasureChoice& choice) {
  return *choice.unit == '\0' ? std::string(choice.label) : fmt::format("{} ({})", choice.label, choice.unit);
}

}  // namespace keyscope::session
