#include "tests/capture/replay/replayed.hpp"

#include <array>

#include "capture/recording/writer.hpp"
#include "tests/capture/inference/captured.hpp"

namespace keyscope::test {

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
