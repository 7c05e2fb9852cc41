#include "base/sha256.hpp"

#include <gtest/gtest.h>

namespace keyscope::capture {
namespace {

// FIPS 180-4's own examples.
TEST(Sha256, AgreesWithTheStandard) {
  Sha256 empty;
  EXPECT_EQ(empty.hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 abc;
  abc.add("a");
  abc.add("bc");
  EXPECT_EQ(abc.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace keyscope::capture
