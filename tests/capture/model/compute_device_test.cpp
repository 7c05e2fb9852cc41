// Where models compute, and where their weights lie meanwhile.

#include "capture/model/compute_device.hpp"

#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "capture/model/device_choice.hpp"
#include "capture/model/transformer.hpp"
#include "tests/support/random_model.hpp"

namespace keyscope::capture {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Why there is no CUDA here, or nothing.
std::optional<std::string> why_no_cuda() {
  try {
    const ComputeDevice device("cuda");
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

bool has_loaded(const std::string& library) {
  std::ifstream maps("/proc/self/maps");
  const std::string all(std::istreambuf_iterator<char>(maps), {});
  return all.find(library) != std::string::npos;
}

// Half a gigabyte of libraries is not worth a look where there is no driver.
TEST(ComputeDevice, AutoLoadsNothingWithoutADriver) {
  if (has_loaded("libtorch_cuda.so")) GTEST_SKIP() << "another test has loaded LibTorch's CUDA part";
  const ComputeDevice device("auto");
  if (has_loaded("libcuda.so.1")) GTEST_SKIP() << "there is an NVIDIA driver";
  EXPECT_TRUE(device.is_cpu());
  EXPECT_FALSE(has_loaded("libtorch_cuda.so"));
}

TEST(ComputeDevice, TheCpuIsAlwaysThereAndLoadsNothing) {
  const bool before = has_loaded("libtorch_cuda.so");
  const ComputeDevice cpu("cpu");
  EXPECT_TRUE(cpu.is_cpu());
  EXPECT_EQ(cpu.name(), "cpu");
  EXPECT_GT(cpu.available_memory(), 0);
  EXPECT_EQ(has_loaded("libtorch_cuda.so"), before);
  EXPECT_GE(peak_memory(cpu.devices()), std::int64_t{1} << 20);
}

TEST(ComputeDevice, AnotherWordIsWrongUsage) {
  for (const char* asked : {"toaster", "", "cuda:", "cuda:0,", "cuda:,1", "cuda:0;1", "cuda:-1", "cuda:0,0",
                            "cuda:128", "cuda:99999999999", "cuda:1 "})
    EXPECT_THROW(ComputeDevice{asked}, UsageError) << asked;
}

TEST(ComputeDevice, SeveralGpusAreNamedByNumber) {
  EXPECT_THAT(parse_device("cuda:0,1,7").indices, ElementsAre(0, 1, 7));
  EXPECT_THAT(parse_device("cuda").indices, ::testing::IsEmpty());
  EXPECT_EQ(parse_device("cuda:3").kind, DeviceChoice::Kind::kCuda);
}

// Layers one after another, as many on each device as on its neighbours but for one.
TEST(Placement, SpreadsLayersEvenly) {
  const at::Device a(at::kCUDA, 0), b(at::kCUDA, 1), c(at::kCUDA, 2);
  const Placement placement({a, b, c}, 8);
  std::vector<at::Device> devices;
  for (int layer = 0; layer < 8; ++layer) devices.push_back(placement.layer(layer));
  EXPECT_THAT(devices, ElementsAre(a, a, a, b, b, b, c, c));
  EXPECT_EQ(placement.first(), a);
  EXPECT_EQ(placement.last(), c);
  EXPECT_EQ(Placement(a).layer(100), a);
}

// Either there is CUDA, or the message says what is missing and what to do.
TEST(ComputeDevice, CudaIsThereOrSaysWhatIsMissing) {
  if (const auto reason = why_no_cuda()) {
    EXPECT_THAT(*reason, StartsWith("--device cuda: "));
    EXPECT_THAT(*reason, AnyOf(HasSubstr("./run setup --cuda"), HasSubstr("no NVIDIA")));
    EXPECT_THAT(*reason, HasSubstr("--device cpu"));
    return;
  }
  const ComputeDevice cuda("cuda");
  EXPECT_FALSE(cuda.is_cpu());
  EXPECT_THAT(cuda.name(), StartsWith("cuda:0"));
  EXPECT_GT(cuda.available_memory(), 0);
}

TEST(ComputeDevice, AutoIsCudaWhereItIsThere) {
  EXPECT_EQ(ComputeDevice("auto").is_cpu(), why_no_cuda().has_value());
}

// A model whose layers are read one after another, and the same held in memory.
class StreamedWeights : public ::testing::Test {
 protected:
  static constexpr int kLayers = 6;

  std::unique_ptr<WeightStore> store(Residency residency, const Placement& placement,
                                     std::optional<bool> read_ahead) const {
    return std::make_unique<WeightStore>(stored_, config_, at::kBFloat16, residency, placement, read_ahead);
  }

  static void expect_same(const LayerWeights& found, const LayerWeights& expected) {
    for (const auto member : {&LayerWeights::attention_norm, &LayerWeights::wq, &LayerWeights::wk,
                              &LayerWeights::wv, &LayerWeights::wo, &LayerWeights::mlp_norm})
      EXPECT_TRUE(at::equal(found.*member, expected.*member));
    for (const auto member : {&MlpWeights::gate, &MlpWeights::up, &MlpWeights::down})
      EXPECT_TRUE(at::equal(found.mlp.*member, expected.mlp.*member));
  }

  test::RandomModel folder_{{.n_layers = kLayers}};
  ModelConfig config_ = read_config(folder_.save());
  Checkpoint checkpoint_{folder_.folder()};
  StoredWeights stored_{checkpoint_};
};

TEST_F(StreamedWeights, AreTheSameWhenTheyAreReadAhead) {
  const auto whole = store(Residency::kWhole, {}, {}), streamed = store(Residency::kStreamed, {}, true);
  for (int pass = 0; pass < 3; ++pass)
    for (int layer = 0; layer < kLayers; ++layer) {
      const auto weights = streamed->layer(layer);
      streamed->prefetch(layer + 1);
      expect_same(*weights, *whole->layer(layer));
      streamed->release(layer);
    }
}

TEST_F(StreamedWeights, ComeInAnyOrder) {
  const auto whole = store(Residency::kWhole, {}, {}), streamed = store(Residency::kStreamed, {}, true);
  streamed->prefetch(3);
  streamed->prefetch(3);
  streamed->prefetch(-1);
  streamed->prefetch(kLayers);
  expect_same(*streamed->layer(1), *whole->layer(1));  // not the one that is coming
  expect_same(*streamed->layer(3), *whole->layer(3));
  expect_same(*streamed->layer(3), *whole->layer(3));
  streamed->prefetch(2);
  streamed->prefetch(5);
  expect_same(*streamed->layer(2), *whole->layer(2));
  expect_same(*streamed->layer(5), *whole->layer(5));
  streamed->prefetch(0);  // and nobody asks for it
}

TEST_F(StreamedWeights, AreReadForSeveralThreads) {
  const auto whole = store(Residency::kWhole, {}, {}), streamed = store(Residency::kStreamed, {}, true);
  std::vector<std::future<void>> readers;
  for (int reader = 0; reader < 4; ++reader)
    readers.push_back(std::async(std::launch::async, [&] {
      for (int layer = 0; layer < kLayers; ++layer) {
        const auto weights = streamed->layer(layer);
        streamed->prefetch(layer + 1);
        expect_same(*weights, *whole->layer(layer));
      }
    }));
  for (auto& reader : readers) reader.get();
}

// Spread over devices, of which this machine has one: a model is what it is on one.
TEST_F(StreamedWeights, AreSpreadOverDevices) {
  const at::Device cpu = at::kCPU;
  const Placement placement({cpu, cpu, cpu}, kLayers);
  const auto one =
      Transformer::make(Arithmetic::kAten, config_, std::move(*store(Residency::kWhole, {}, {})));
  const auto three =
      Transformer::make(Arithmetic::kAten, config_, std::move(*store(Residency::kStreamed, placement, true)));
  const std::vector<std::int32_t> ids{3, 1, 4};
  EXPECT_TRUE(at::equal(three->logits(three->embed(ids)), one->logits(one->embed(ids))));
  expect_same(*three->weights().layer(kLayers - 1), *one->weights().layer(kLayers - 1));
}

}  // namespace
}  // namespace keyscope::capture
