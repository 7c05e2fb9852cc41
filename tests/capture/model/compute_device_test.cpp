#include "capture/model/compute_device.hpp"

#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::capture {
namespace {

using ::testing::AnyOf;
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

TEST(ComputeDevice, TheCpuIsAlwaysThereAndLoadsNothing) {
  const bool before = has_loaded("libtorch_cuda.so");
  const ComputeDevice cpu("cpu");
  EXPECT_TRUE(cpu.is_cpu());
  EXPECT_EQ(cpu.name(), "cpu");
  EXPECT_GT(cpu.available_memory(), 0);
  EXPECT_EQ(has_loaded("libtorch_cuda.so"), before);
  EXPECT_GE(peak_memory(cpu.device()), std::int64_t{1} << 20);
}

TEST(ComputeDevice, AnotherWordIsWrongUsage) { EXPECT_THROW(ComputeDevice("toaster"), UsageError); }

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

// Half a gigabyte of libraries is not worth a look where there is no driver.
TEST(ComputeDevice, AutoLoadsNothingWithoutADriver) {
  if (has_loaded("libtorch_cuda.so")) GTEST_SKIP() << "another test has loaded LibTorch's CUDA part";
  const ComputeDevice device("auto");
  if (has_loaded("libcuda.so.1")) GTEST_SKIP() << "there is an NVIDIA driver";
  EXPECT_TRUE(device.is_cpu());
  EXPECT_FALSE(has_loaded("libtorch_cuda.so"));
}

}  // namespace
}  // namespace keyscope::capture
