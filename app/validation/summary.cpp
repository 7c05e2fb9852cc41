#include "app/validation/summary.hpp"

#include <algorithm>
#include <set>

#include <oneapi/tbb/parallel_for.h>

namespace keyscope::validation {
namespace {

using measures::RunMeasures;

// What each prompt says, where it says something.
template <typename ValueOf>
std::vector<double> gather(Records records, const ValueOf& value) {
  std::vector<double> samples;
  for (const PromptRecord& record : records)
    if (const auto found = value(record)) samples.push_back(*found);
  return samples;
}

}  // namespace

std::vector<double> samples_of(Records records, const Quantity& quantity, std::string_view run, int layer) {
  return gather(records, [&](const PromptRecord& record) {
    const RunMeasures* found = record.run(run);
    return found != nullptr ? value_of(*found, quantity, layer) : std::nullopt;
  });
}

std::vector<double> differences_of(Records records, const Quantity& quantity, std::string_view a,
                                   std::string_view b, int layer) {
  return gather(records, [&](const PromptRecord& record) {
    const RunMeasures *of_a = record.run(a), *of_b = record.run(b);
    return of_a != nullptr && of_b != nullptr ? difference_of(*of_a, *of_b, quantity, layer) : std::nullopt;
  });
}

std::vector<int> layers_of(Records records) {
  std::set<int> layers;
  for (const PromptRecord& record : records)
    for (const HeadBounds& head : record.bounds) layers.insert(head.layer);
  return {layers.begin(), layers.end()};
}

std::vector<SummaryRow> summarise(Records records, const analysis::BootstrapOptions& options) {
  if (records.empty()) return {};
  std::vector<int> places = layers_of(records);
  places.insert(places.begin(), -1);
  std::vector<SummaryRow> rows;
  for (const Quantity& one : quantities())
    for (const RunMeasures& run : records.front().runs) {
      if (one.against_full_cache && run.run == "none") continue;
      for (const int layer : places) rows.push_back({&one, run.run, layer, {}});
    }
  oneapi::tbb::parallel_for(std::size_t{0}, rows.size(), [&](std::size_t i) {
    const auto samples = samples_of(records, *rows[i].quantity, rows[i].run, rows[i].layer);
    rows[i].mean = analysis::bootstrap_mean(samples, options);
  });
  std::erase_if(rows, [](const SummaryRow& row) { return row.mean.n_samples == 0; });
  return rows;
}

const SummaryRow* find_row(std::span<const SummaryRow> rows, std::string_view quantity, std::string_view run,
                           int layer) {
  const auto found = std::ranges::find_if(rows, [&](const SummaryRow& row) {
    return row.quantity->id == quantity && row.run == run && row.layer == layer;
  });
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace keyscope::validation
