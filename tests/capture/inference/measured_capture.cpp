// A capture by layers in a process of its own, which then says how much memory it took at its largest.
//
//     measured_capture MODEL_FOLDER whole|streamed float32|bfloat16 OUT.h5
//
// Prints bytes. By itself, because a process's high-water mark never falls.

#include <array>
#include <cstdio>
#include <exception>
#include <string>

#include "capture/inference/capture.hpp"
#include "capture/model/memory.hpp"
#include "capture/recording/recording.hpp"

namespace {

using namespace keyscope::capture;

constexpr std::int64_t kPrompt = 64;

void run(const std::string& folder, const std::string& residency, const std::string& dtype,
         const std::string& out) {
  const auto model =
      Model::load(folder, {.dtype = dtype == "bfloat16" ? DType::kBFloat16 : DType::kFloat32,
                           .threads = 1,
                           .may_stream = true,
                           .residency = residency == "streamed" ? Residency::kStreamed : Residency::kWhole});
  CaptureOptions options;
  for (std::int64_t i = 0; i < kPrompt; ++i)
    options.prompt_ids.push_back(static_cast<std::int32_t>(i * 7 % model->config().vocab_size));
  options.policies = {{"none", {}}, {"keydiff", {}}};
  options.budget = 24;
  options.block_size = 16;
  options.schedule = Schedule::kLayer;
  const auto writer = keyscope::recording::make_recording_writer(out, true);
  std::array<keyscope::recording::RecordSink*, 1> sinks{writer.get()};
  CaptureControl control;
  run_capture(*model, options, sinks, control);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5) {
    std::fprintf(stderr, "usage: measured_capture MODEL_FOLDER whole|streamed float32|bfloat16 OUT.h5\n");
    return 2;
  }
  run(argv[1], argv[2], argv[3], argv[4]);
  std::printf("%lld\n", static_cast<long long>(peak_resident_memory()));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
