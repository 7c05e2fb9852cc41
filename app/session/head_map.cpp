#include "app/session/head_map.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "app/figures/keyspace_data.hpp"
#include "app/session/selection.hpp"

namespace keyscope::session {

const MeasuredHead* find_measured(const std::map<HeadKey, MeasuredHead>& measured, const HeadKey& head,
                                  const figures::HeadMeasure& measure) {
  const auto found = measured.find(head);
  const bool is_known = found != measured.end() && found->second.parts.has(figures::part_of_measure(measure));
  return is_known ? &found->second : nullptr;
}

namespace {

using recording::RecordingInfo;

const std::string& run_name(const RecordingInfo& info, int run) { return info.runs.at(run).plan.name; }

HeadMap::Cell make_cell(const RecordingInfo& info, const std::map<HeadKey, MeasuredHead>& measured,
                        const MapChoice& choice, const HeadKey& head) {
  const MeasureChoice& measure = measure_choices()[choice.measure];
  const auto* here = find_measured(measured, head, measure);
  if (here == nullptr) return {std::nullopt, "not measured yet"};
  if (choice.reference < 0) {
    const auto value = figures::head_value(measure, here->measures, nullptr);
    return {value, value ? "" : figures::missing_reason(info, measure, head.kv_head)};
  }
  const auto* there = find_measured(measured, {choice.reference, head.layer, head.kv_head}, measure);
  if (there == nullptr)
    return {std::nullopt, fmt::format("not measured yet in {}", run_name(info, choice.reference))};
  const auto value = figures::head_value(measure, here->measures, &there->measures);
  return {value, value ? "" : figures::missing_reason(info, measure, head.kv_head)};
}

}  // namespace

const HeadMap::Cell* HeadMap::cell(const RecordingInfo& info, int layer, int kv_head) const {
  std::size_t at = kv_head;  // cells lie in the order of layers and heads
  for (const int other : info.layers) {
    const int n_kv_heads = info.model.heads(other).n_kv_heads;
    if (other == layer) return kv_head < n_kv_heads && at < cells.size() ? &cells[at] : nullptr;
    at += n_kv_heads;
  }
  return nullptr;
}

MapChoice effective_choice(const RecordingInfo& info, const MapChoice& choice, int run) {
  const int n_runs = static_cast<int>(info.runs.size());
  MapChoice effective{std::min(choice.measure, measure_choices().size() - 1), choice.reference};
  if (effective.reference == run || effective.reference >= n_runs) effective.reference = -1;
  if (measure_choices()[effective.measure].of_hypothesis()) effective.reference = -1;
  if (measure_choices()[effective.measure].of_two_runs())
    effective.reference = figures::other_run(info, run, effective.reference);
  return effective;
}

measures::HypothesisRun run_of_map(const RecordingInfo& info, const MapChoice& choice, int run) {
  return measure_choices()[choice.measure].of_hypothesis() ? measures::hypothesis_run(info, run)
                                                           : measures::HypothesisRun{run, false};
}

HeadMap make_head_map(const RecordingInfo& info, const std::map<HeadKey, MeasuredHead>& measured,
                      const MapChoice& choice, int selected) {
  const MeasureChoice& measure = measure_choices()[choice.measure];
  HeadMap map;
  map.choice = choice;
  const auto [run, biased] = run_of_map(info, choice, selected);
  map.run = run;
  map.biased = biased;
  if (run != selected) map.title = "of " + run_name(info, run);
  if (biased) map.title = "biased by eviction";
  const std::string reference = choice.reference >= 0 ? run_name(info, choice.reference) : "";
  if (!reference.empty()) map.title = figures::compared_runs(measure, run_name(info, run), reference);
  std::vector<std::optional<double>> values;
  for (const auto& [layer, kv_head] : info.all_heads()) {
    const HeadKey head{run, layer, kv_head};
    map.cells.push_back(make_cell(info, measured, choice, head));
    values.push_back(map.cells.back().value);
    const auto is_measured = [&](const HeadKey& of) {
      const MeasuredHead* found = find_measured(measured, of, measure);
      if (found != nullptr && found->n_tokens < info.n_prompt_read(of.run))
        map.of_first = map.of_first == 0 ? found->n_tokens : std::min(map.of_first, found->n_tokens);
      return found != nullptr;
    };
    const bool both = is_measured(head) &&
                      (choice.reference < 0 || is_measured({choice.reference, head.layer, head.kv_head}));
    if (both) ++map.n_measured;
  }
  map.scale = figures::measure_scale(measure, values, run_name(info, run), reference);
  return map;
}

}  // namespace keyscope::session
