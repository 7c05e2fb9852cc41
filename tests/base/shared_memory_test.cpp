#include "base/shared_memory.hpp"

#include <cstring>
#include <memory>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace keyscope {
namespace {

TEST(SharedMemory, IsSeenThroughItsDescriptor) {
  const auto memory = SharedMemory::create();
  const auto first = memory->take(100), second = memory->take(5000);
  EXPECT_NE(first, second);
  std::memcpy(second.get(), "keys", 4);
  char seen[4];
  ASSERT_EQ(pread(memory->descriptor(), seen, 4, memory->offset_of(second.get())), 4);
  EXPECT_EQ(std::string(seen, 4), "keys");
  EXPECT_EQ(memory->offset_of(second.get() + 17), memory->offset_of(second.get()) + 17);
  int elsewhere = 0;
  EXPECT_EQ(memory->offset_of(&elsewhere), -1);
}

TEST(SharedMemory, UsesAgainWhatWasGivenBack) {
  const auto memory = SharedMemory::create();
  auto taken = memory->take(10000);
  const std::byte* place = taken.get();
  const auto other = memory->take(10000);
  EXPECT_NE(other.get(), place);
  taken.reset();
  EXPECT_EQ(memory->take(9000).get(), place) << "of about the same size";
}

TEST(SharedMemory, StaysForAsLongAsAnythingOfItDoes) {
  auto memory = SharedMemory::create();
  const auto taken = memory->take(8);
  memory.reset();
  std::memcpy(taken.get(), "01234567", 8);
  EXPECT_EQ(static_cast<char>(taken.get()[7]), '7');
}

}  // namespace
}  // namespace keyscope
