// Block formats against the package `gguf`, bit by bit; goldens and their script stand in ../model/goldens/.

#include "capture/gguf/block_formats.hpp"

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "capture/gguf/gguf.hpp"

namespace keyscope::gguf {
namespace {

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(KEYSCOPE_SOURCE_DIR) / "tests/capture/model/goldens" / name;
}

// The float32 tensors of a safetensors file.
std::vector<float> golden_values(const std::string& file, const std::string& tensor) {
  const std::string bytes = read_file(golden(file));
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const auto header = parse_json(std::string_view(bytes).substr(8, length));
  const auto offsets = header[tensor]["data_offsets"];
  const std::size_t begin = offsets[0], end = offsets[1];
  std::vector<float> values((end - begin) / sizeof(float));
  std::memcpy(values.data(), bytes.data() + 8 + length + begin, end - begin);
  return values;
}

TEST(BlockFormats, EqualThePackageBitByBit) {
  const File file(golden("blocks.gguf"));
  EXPECT_EQ(file.contents().tensors.size(), 14U);
  for (const auto& [name, tensor] : file.contents().tensors) {
    EXPECT_EQ(tensor.format->name, name);
    const std::vector<float> expected = golden_values("blocks.golden.safetensors", name);
    std::vector<float> values(expected.size(), 99);
    ASSERT_EQ(static_cast<std::size_t>(tensor.n_elements()), expected.size()) << name;
    tensor.format->unpack(tensor.data.data(), tensor.n_elements() / tensor.format->n_values, values.data());
    EXPECT_EQ(std::memcmp(values.data(), expected.data(), values.size() * sizeof(float)), 0) << name;
  }
}

// One block by hand: a scale of 2, then 0 to 15 in the low halves and 15 in all high ones.
TEST(BlockFormats, Q4_0ByHand) {
  std::string block("\x00\x40", 2);  // 2 in float16
  for (int i = 0; i < 16; ++i) block += static_cast<char>(0xF0 + i);
  std::vector<float> values(32);
  const BlockFormat* format = find_block_format(2);
  ASSERT_EQ(format->n_bytes, static_cast<std::int64_t>(block.size()));
  format->unpack(reinterpret_cast<const std::byte*>(block.data()), 1, values.data());
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(values[i], 2.0F * static_cast<float>(i - 8));
    EXPECT_EQ(values[16 + i], 14);
  }
}

TEST(BlockFormats, OthersAreKnownByNameAlone) {
  EXPECT_EQ(find_block_format(18)->name, "IQ3_XXS");
  EXPECT_EQ(find_block_format(18)->unpack, nullptr);
  EXPECT_EQ(find_block_format(4), nullptr);
  EXPECT_THAT(supported_block_formats(), ::testing::HasSubstr("Q4_K, Q5_K, Q6_K"));
  EXPECT_THAT(supported_block_formats(), ::testing::Not(::testing::HasSubstr("IQ")));
}

}  // namespace
}  // namespace keyscope::gguf
