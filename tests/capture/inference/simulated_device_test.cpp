// That simulated devices find what they are there to find.

#include "tests/capture/inference/simulated_device.hpp"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/Event.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace keyscope::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SimulatedDevices : public ::testing::Test {
 protected:
  SimulatedDevices() { Streams::all().finish(); }
  ~SimulatedDevices() override { Streams::all().finish(); }

  at::Tensor numbers(int device = 0) const { return at::full({4}, 2.F, at::device(devices_[device])); }
  at::Tensor pinned() const { return at::empty({4}, at::device(at::kCPU).pinned_memory(true)); }

  c10::Stream current() const { return guard_.getStream(devices_[0]); }
  c10::Stream other() const { return guard_.getStreamFromGlobalPool(devices_[0]); }

  static std::set<std::string> races() { return Streams::all().finish().races; }

  const std::vector<at::Device>& devices_ = simulated_devices();
  c10::impl::VirtualGuardImpl guard_{devices_[0].type()};
  c10::InferenceMode inference_;
};

TEST_F(SimulatedDevices, ComputeAsTheHostDoes) {
  const at::Tensor sum = at::cat({numbers() + 1, numbers()}).mul_(2).view({2, 4}).sum(0);
  EXPECT_EQ(sum.device(), devices_[0]);
  EXPECT_EQ(sum[3].item<float>(), 10);
  EXPECT_THAT(races(), IsEmpty());
}

TEST_F(SimulatedDevices, NameAStreamThatReadsWhatAnotherWrites) {
  const at::Tensor written = numbers();
  const c10::Stream second = other();
  {
    const c10::StreamGuard guard(second);
    at::add(written, 1);
  }
  EXPECT_THAT(races(), Contains(HasSubstr("aten::add reads what is written by stream 0 of device 0")));
}

TEST_F(SimulatedDevices, NameAStreamThatWritesWhatAnotherReadsOrWrites) {
  const at::Tensor tensor = numbers();
  c10::Event made(devices_[0].type());
  made.record(current());
  at::add(tensor, 1);
  {
    const c10::StreamGuard guard(other());
    made.block(guard.current_stream());
    tensor.add_(1);
  }
  EXPECT_THAT(races(), ElementsAre(HasSubstr("writes what is read by stream 0")));
  tensor.add_(1);
  {
    const c10::StreamGuard guard(other());
    tensor.add_(1);
  }
  EXPECT_THAT(races(), Contains(HasSubstr("writes what is written by stream 0")));
}

TEST_F(SimulatedDevices, SayNothingWhereOneWaited) {
  const at::Tensor tensor = numbers();
  c10::Event made(devices_[0].type());
  made.record(current());
  c10::Event changed(devices_[0].type());
  {
    const c10::StreamGuard guard(other());
    made.block(guard.current_stream());
    tensor.add_(1);
    changed.record(guard.current_stream());
  }
  changed.synchronize();  // the host goes on for all streams
  tensor.add_(1);
  {
    const c10::StreamGuard guard(other());
    guard_.synchronizeDevice(0);
    tensor.add_(1);
  }
  EXPECT_THAT(races(), IsEmpty());
}

TEST_F(SimulatedDevices, NameMemoryThatIsHandedOutWhileItIsRead) {
  at::Tensor tensor = numbers();
  c10::Event made(devices_[0].type());
  made.record(current());
  {
    const c10::StreamGuard guard(other());
    made.block(guard.current_stream());
    at::add(tensor, 1);
  }
  tensor.reset();
  numbers();
  EXPECT_THAT(races(), Contains(HasSubstr("takes memory that is read by stream")));
}

TEST_F(SimulatedDevices, CopyWhenSomebodyWaits) {
  at::Tensor tensor = numbers(), host = pinned();
  host.copy_(tensor, true);
  EXPECT_TRUE(std::isnan(host[0].item<float>()));
  c10::Event copied(devices_[0].type());
  copied.record(current());
  EXPECT_TRUE(std::isnan(host[0].item<float>()));
  copied.synchronize();
  EXPECT_EQ(host[0].item<float>(), 2);
  EXPECT_EQ(Streams::all().finish().late_copies, 1);
}

// Held back by a copy that nobody came to need, and whose source changes meanwhile.
TEST_F(SimulatedDevices, CopyWhatIsThereByThen) {
  at::Tensor tensor = numbers(), host = pinned();
  const c10::Stream second = other();
  c10::Event made(devices_[0].type());
  made.record(current());
  {
    const c10::StreamGuard guard(second);
    made.block(second);
    host.copy_(tensor, true);
  }
  tensor.fill_(7);
  guard_.synchronizeDevice(0);
  EXPECT_EQ(host[0].item<float>(), 7);
  EXPECT_THAT(races(), Contains(HasSubstr("fill_")));
}

TEST_F(SimulatedDevices, RefuseToCopyWhatIsGone) {
  const at::Tensor host = pinned();
  host.copy_(numbers(), true);
  EXPECT_THROW(Streams::all().finish(), c10::Error);
}

TEST_F(SimulatedDevices, RefuseTensorsOfTwoPlaces) {
  EXPECT_THROW(at::add(numbers(0), numbers(1)), c10::Error);
  EXPECT_THROW(at::add(numbers(0), at::full({4}, 1.F)), c10::Error);
  EXPECT_EQ(numbers(0).to(devices_[1]).add(numbers(1))[0].item<float>(), 4);
  EXPECT_THAT(races(), IsEmpty());
}

TEST_F(SimulatedDevices, NewMemoryHoldsNoNumbers) {
  EXPECT_TRUE(std::isnan(at::empty({4}, at::device(devices_[0]))[3].item<float>()));
}

}  // namespace
}  // namespace keyscope::test
