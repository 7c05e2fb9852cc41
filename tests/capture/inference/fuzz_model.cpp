// libFuzzer target: a model's configuration and the header of its weights, which are loaded and captured with
// or refused. The input is the configuration's length and how many bytes of weights follow the header, in
// four bytes each, lowest first, the configuration and the header. With seeds from the goldens:
//   cmake --preset fuzz && cmake --build --preset fuzz --target fuzz_model
//   tests/capture/inference/fuzz_model_seeds.py CORPUS && build/fuzz/fuzz_model CORPUS

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "capture/inference/capture.hpp"
#include "capture/model/model.hpp"
#include "capture/recording/recording.hpp"
#include "tests/support/fuzzed.hpp"
#include "tests/support/scratch_folder.hpp"

namespace {

namespace fs = std::filesystem;
using namespace keyscope;

constexpr std::size_t kMostWeightBytes = 1 << 20;

struct Lengths {
  std::uint32_t config, weights;
};

void write(const fs::path& path, std::initializer_list<std::string_view> parts) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  for (const std::string_view part : parts) file.write(part.data(), std::ssize(part));
  if (!file.flush()) std::abort();
}

// 0.035 in float32, every other one in bfloat16.
std::string weight_bytes() {
  std::string bytes;
  while (bytes.size() < kMostWeightBytes) bytes += std::string_view("\0\0\x10\x3d", 4);
  return bytes;
}

void load_and_capture(const fs::path& folder) {
  const auto model = capture::Model::load(folder, {.device = "cpu", .threads = 1});
  capture::CaptureOptions options;
  options.prompt_ids = {0, 1, 0, 0, 1, 0, 1, 1, 0, 1};
  options.policies = {{"none", {}}, {"keydiff", {}}, {"sink", {}}};
  options.budget = 6;
  options.block_size = 4;
  options.generate = 2;
  options.record_values = options.record_attention = options.record_logits = true;
  const auto recording = recording::MemoryRecording::create();
  std::array<recording::RecordSink*, 1> sinks{recording.get()};
  capture::CaptureControl control;
  capture::run_capture(*model, options, sinks, control);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const test::ScratchFolder folder;
  static const std::string weights = weight_bytes();
  Lengths lengths{};
  if (size < sizeof lengths) return 0;
  std::memcpy(&lengths, data, sizeof lengths);
  const std::string_view input = test::as_text(data, size).substr(sizeof lengths);
  if (lengths.config > input.size() || lengths.weights > weights.size()) return 0;
  const std::string_view header = input.substr(lengths.config);
  const std::uint64_t header_size = header.size();
  std::array<char, sizeof header_size> header_length{};
  std::memcpy(header_length.data(), &header_size, sizeof header_size);
  write(folder.file("config.json"), {input.substr(0, lengths.config)});
  write(folder.file("model.safetensors"), {{header_length.data(), header_length.size()},
                                           header,
                                           std::string_view(weights).substr(0, lengths.weights)});
  test::read_or_refuse([&] { load_and_capture(folder.path()); });
  return 0;
}
