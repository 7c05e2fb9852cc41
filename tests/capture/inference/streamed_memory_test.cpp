// What streaming weights is for: memory does not grow with the number of layers.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/random_model.hpp"
#include "tests/support/random_packing.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::capture {
namespace {

constexpr int kLayers = 16;
constexpr double kMiB = 1024 * 1024;
// Besides weights, what a layer more may leave behind: its datasets in the recording, and the allocator's
// crumbs.
constexpr double kCrumbsPerLayerMiB = 0.25;

test::RandomModel model_of(int n_layers) {
  return test::RandomModel({.n_layers = n_layers,
                            .n_heads = 8,
                            .n_kv_heads = 4,
                            .head_dim = 48,
                            .hidden_size = 384,
                            .intermediate_size = 1024,
                            .vocab_size = 300});
}

double layer_mib(const test::RandomModel& model) {
  std::size_t n_bytes = 0;
  for (const auto& [name, tensor] : model.tensors)
    if (name.starts_with("model.layers.0.")) n_bytes += tensor.bytes.size();
  return static_cast<double>(n_bytes) / kMiB;
}

// A mixture of as many bytes: every layer's feed-forward is cut into experts.
void divide_into_experts(test::RandomModel& model) {
  constexpr std::int64_t kExperts = 8, kHidden = 384, kSize = 1024 / kExperts;
  model.config["model_type"] = "mixtral";
  model.config["architectures"] = {"MixtralForCausalLM"};
  model.config["num_local_experts"] = kExperts;
  model.config["intermediate_size"] = kSize;
  model.config["sliding_window"] = nullptr;
  const int n_layers = model.config["num_hidden_layers"];
  for (int i = 0; i < n_layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    const std::vector<std::pair<std::string, std::string>> parts{
        {"gate_proj", "w1"}, {"up_proj", "w3"}, {"down_proj", "w2"}};
    for (const auto& [of_one, of_expert] : parts) {
      const auto whole = model.tensors.extract(fmt::format("{}mlp.{}.weight", layer, of_one)).mapped();
      const std::size_t n_bytes = whole.bytes.size() / kExperts;
      const std::vector<std::int64_t> shape =
          of_expert == "w2" ? std::vector{kHidden, kSize} : std::vector{kSize, kHidden};
      for (std::int64_t expert = 0; expert < kExperts; ++expert)
        model.tensors[fmt::format("{}block_sparse_moe.experts.{}.{}.weight", layer, expert, of_expert)] = {
            whole.dtype, shape, whole.bytes.substr(static_cast<std::size_t>(expert) * n_bytes, n_bytes)};
    }
    const auto& some = model.tensors.at(layer + "self_attn.q_proj.weight");
    model.tensors[layer + "block_sparse_moe.gate.weight"] = {
        some.dtype, {kExperts, kHidden}, some.bytes.substr(0, kExperts * kHidden * sizeof(float))};
  }
}

// AddressSanitizer, where it is built in, keeps what was freed for a while: not in what is measured.
constexpr const char* kFreeAtOnce =
    R"(ASAN_OPTIONS="$ASAN_OPTIONS:quarantine_size_mb=0:thread_local_quarantine_size_kb=0")";

// Its shadow, an eighth of what is touched, and what it puts around every allocation are.
#ifdef __SANITIZE_ADDRESS__
constexpr double kSanitizer = 1.25;
#else
constexpr double kSanitizer = 1;
#endif

// Peaks of captures with one layer and with many, each in a process of its own.
class StreamedMemory : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    one_.save();
    many_.save();
  }

  double peak_mib(const test::RandomModel& model, const char* residency) const {
    const std::string command =
        fmt::format("{} '{}' '{}' {} {} '{}'", kFreeAtOnce, KEYSCOPE_MEASURED_CAPTURE,
                    model.folder().string(), residency, GetParam(), (scratch_.path() / "out.h5").string());
    const auto close = [](std::FILE* pipe) { ::pclose(pipe); };
    const std::unique_ptr<std::FILE, decltype(close)> pipe(::popen(command.c_str(), "r"), close);
    long long n_bytes = 0;
    if (pipe == nullptr || std::fscanf(pipe.get(), "%lld", &n_bytes) != 1)
      throw std::runtime_error("no figure from: " + command);
    return static_cast<double>(n_bytes) / kMiB;
  }

  // By how much many layers take more memory than one.
  double growth_mib(const char* residency) const {
    return peak_mib(many_, residency) - peak_mib(one_, residency);
  }

  // The same of streamed weights, measured until it is below `limit`, five times at most: a machine that is
  // busy with other work gives pages back later, and so only ever adds to it.
  double streamed_growth_mib(double limit) const {
    double least = growth_mib("streamed");
    for (int again = 0; again < 4 && least >= limit; ++again) least = std::min(least, growth_mib("streamed"));
    return least;
  }

  static double limit_mib(double layer) { return kSanitizer * (2 * layer + kLayers * kCrumbsPerLayerMiB); }

  test::ScratchFolder scratch_;
  test::RandomModel one_ = model_of(1), many_ = model_of(kLayers);
};

TEST_P(StreamedMemory, StaysWithinThreeLayers) {
  const double layer = layer_mib(many_);
  EXPECT_LT(streamed_growth_mib(limit_mib(layer)), limit_mib(layer))
      << "three layers at once, one of which a model of one layer has as well; a layer has " << layer
      << " MiB";
}

// Packed bytes are unpacked a layer at a time, and their pages given back.
TEST_P(StreamedMemory, PackedWeightsStayWithinThreeLayersUnpacked) {
  const double layer = layer_mib(many_);
  for (test::RandomModel* model : {&one_, &many_}) {
    test::pack_projections(*model, test::random_packing("gptq"));
    model->save();
  }
  EXPECT_LT(streamed_growth_mib(limit_mib(layer)), limit_mib(layer))
      << "a layer unpacked to float32 has " << layer << " MiB";
}

TEST_P(StreamedMemory, ExpertsStayWithinThreeLayers) {
  const double layer = layer_mib(many_);
  for (test::RandomModel* model : {&one_, &many_}) {
    divide_into_experts(*model);
    model->save();
  }
  EXPECT_LT(streamed_growth_mib(limit_mib(layer)), limit_mib(layer)) << "a layer has " << layer << " MiB";
}

// Else the test above would prove nothing.
TEST_P(StreamedMemory, WholeWeightsAreSeen) {
  EXPECT_GT(growth_mib("whole"), (kLayers - 2) * layer_mib(many_) * (GetParam() == "bfloat16" ? 0.5 : 1.0));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, StreamedMemory, ::testing::Values("float32", "bfloat16"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace keyscope::capture
