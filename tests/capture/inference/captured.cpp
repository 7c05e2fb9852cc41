#include "tests/capture/inference/captured.hpp"

#include <array>
#include <random>

#include "analysis/policies/registry.hpp"

namespace keyscope::test {

Captured run_in_memory(const capture::Model& model, const capture::CaptureOptions& options) {
  Captured captured{recording::MemoryRecording::create(), {}};
  std::array<recording::RecordSink*, 1> sinks{captured.recording.get()};
  capture::CaptureControl control;
  captured.outcomes = capture::run_capture(model, options, sinks, control);
  return captured;
}

std::vector<std::int32_t> random_ids(std::int64_t n, std::int64_t vocab_size, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(n));
  for (auto& id : ids)
    id = static_cast<std::int32_t>(4 + generator() % static_cast<unsigned>(vocab_size - 4));
  return ids;
}

std::vector<analysis::PolicySpec> policies(const std::vector<std::string>& texts) {
  std::vector<analysis::PolicySpec> specs;
  for (const auto& text : texts) specs.push_back(analysis::parse_policy(text));
  return specs;
}

}  // namespace keyscope::test
