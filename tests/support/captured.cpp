#include "tests/support/captured.hpp"

#include <array>
#include <random>

#include "analysis/policies/registry.hpp"
#include "capture/recording/recording.hpp"

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
  std::vector<std::int32_t> ids(n);
  for (auto& id : ids)
    id = static_cast<std::int32_t>(4 + generator() % static_cast<unsigned>(vocab_size - 4));
  return ids;
}

std::vector<analysis::PolicySpec> policies(const std::vector<std::string>& texts) {
  std::vector<analysis::PolicySpec> specs;
  for (const auto& text : texts) specs.push_back(analysis::parse_policy(text));
  return specs;
}

std::vector<analysis::PolicySpec> every_policy() {
  std::vector<analysis::PolicySpec> specs;
  for (const auto& entry : analysis::registered_policies())
    if (entry.required.empty()) specs.push_back(analysis::parse_policy(entry.name));
  for (const char* text :
       {"h2o:normalize=1,recent=0.5", "tova:heads=all", "keydiff:recent=0.2", "l2norm:skip=1",
        "snapkv:window=3,kernel=3,recent=2", "snapkv:window=5,kernel=1,recent=0",
        "keydiff:protect=sinks:2+recent:0.2", "h2o:protect=boundaries:0.5,granularity=layer",
        "keydiff:granularity=page:4", "snapkv:window=3,recent=2,granularity=model", "keydiff:split=adakv",
        "tova:protect=sinks:2,split=pyramid", "dropkv:protect=recent:3,split=adakv", "keydiff:critical=on",
        "snapkv:window=3,recent=2,critical=shift,granularity=model", "keydiff:split=cake",
        "snapkv:window=3,recent=2,protect=sinks:1,split=cake"})
    specs.push_back(analysis::parse_policy(text));
  return specs;
}

const capture::Model& tiny_model() {
  static const auto model = [] {
    const RandomModel random;
    return capture::Model::load(random.save(), {});
  }();
  return *model;
}

capture::CaptureOptions full_cache_options() {
  capture::CaptureOptions options;
  options.prompt_ids = random_ids(50, 50);
  options.policies = policies({"none"});
  options.block_size = 16;
  options.record_values = true;
  options.ignore_eos = true;
  return options;
}

std::string capture_to(const std::filesystem::path& out, const capture::CaptureOptions& options,
                       const capture::Model& model) {
  const auto writer = recording::make_recording_writer(out, false);
  std::array<recording::RecordSink*, 1> sinks{writer.get()};
  capture::CaptureControl control;
  capture::run_capture(model, options, sinks, control);
  return out.string();
}

replay::ReplayOptions replay_options(const std::vector<std::string>& texts) {
  replay::ReplayOptions options;
  options.policies = policies(texts);
  options.budget = 12;
  options.block_size = 16;
  options.command = "keyscope replay";
  return options;
}

std::shared_ptr<recording::Recording> replay_to(const std::filesystem::path& out, const std::string& source,
                                                const replay::ReplayOptions& options) {
  const replay::Source opened = replay::open_source(source);
  const std::atomic<bool> cancelled = false;
  replay::run_replay(opened, replay::plan_replay(opened, options), {out, false}, {}, cancelled);
  return recording::open_recording(out.string());
}

}  // namespace keyscope::test
