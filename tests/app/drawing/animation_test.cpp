// An animated PNG: whole chunks, as many frames as figures, and pixels that add up.

#include "app/drawing/animation.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/drawing/png_chunks.hpp"
#include "app/figures/catalogue.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "tests/support/fake_recording.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::figures {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Chunk {
  std::string type, data;
};

std::vector<Chunk> chunks_of(const std::string& png) {
  std::vector<Chunk> chunks;
  for (std::size_t at = kPngSignature; at < png.size();) {
    const std::size_t n = read_big_endian(std::string_view(png).substr(at));
    chunks.push_back({png.substr(at + 4, 4), png.substr(at + 8, n)});
    EXPECT_EQ(png.substr(at, n + 12), png_chunk(chunks.back().type, chunks.back().data));
    at += n + 12;
  }
  return chunks;
}

std::uint32_t number(const Chunk& chunk, std::size_t at) {
  return read_big_endian(std::string_view(chunk.data).substr(4 * at));
}

class AnimationOfBlocks : public ::testing::Test {
 protected:
  AnimationOfBlocks() : recording_(1, 2, 1, 8, 200, 50) {
    recording_.add_run("none", 0);
    recording_.add_run("keydiff", 60);
    recording_.fill(1);
  }
  Figure figure(std::int64_t block) {
    FigureRequest request;
    request.name = "keyspace";
    request.block = block;
    return build_figure(recording_, request);
  }
  std::vector<Chunk> draw(std::int64_t n_frames) {
    draw_animation({n_frames, [&](std::int64_t block) { return figure(block); }}, path(), {.dpi = 72});
    return chunks_of(read_file(path()));
  }
  std::filesystem::path path() const { return scratch_.path() / "blocks.apng"; }

  FakeRecording recording_;
  test::ScratchFolder scratch_;
};

TEST_F(AnimationOfBlocks, HasAFrameABlockBesideThePoster) {
  const auto chunks = draw(4);
  std::vector<std::string> types;
  std::uint32_t sequence = 0;
  for (const Chunk& chunk : chunks) {
    types.push_back(chunk.type);
    if (chunk.type == "fcTL" || chunk.type == "fdAT") {
      EXPECT_EQ(number(chunk, 0), sequence++);
    }
  }
  EXPECT_THAT(types, ElementsAre("IHDR", "pHYs", "acTL", "IDAT", "fcTL", "fdAT", "fcTL", "fdAT", "fcTL",
                                 "fdAT", "fcTL", "fdAT", "IEND"));
  EXPECT_EQ(number(chunks[2], 0), 4U);
  EXPECT_EQ(number(chunks[2], 1), 0U);
}

TEST_F(AnimationOfBlocks, TheFirstFrameIsWholeAndTheOthersLieInside) {
  const auto chunks = draw(3);
  const std::uint32_t width = number(chunks[0], 0), height = number(chunks[0], 1);
  bool first = true;
  for (const Chunk& chunk : chunks) {
    if (chunk.type != "fcTL") continue;
    if (std::exchange(first, false)) {
      EXPECT_THAT((std::vector{number(chunk, 1), number(chunk, 2), number(chunk, 3), number(chunk, 4)}),
                  ElementsAre(width, height, 0U, 0U));
    } else {
      EXPECT_LE(number(chunk, 1) + number(chunk, 3), width);
      EXPECT_LE(number(chunk, 2) + number(chunk, 4), height);
    }
  }
}

// What comes later covers what came before, so that axes stand still.
TEST_F(AnimationOfBlocks, AFrameThatChangesNothingIsAPixel) {
  draw_animation({2, [&](std::int64_t) { return figure(3); }}, path(), {.dpi = 72});
  const auto chunks = chunks_of(read_file(path()));
  const Chunk& second = chunks[6];
  ASSERT_EQ(second.type, "fcTL");
  EXPECT_EQ(number(second, 1), 1U);
  EXPECT_EQ(number(second, 2), 1U);
}

TEST_F(AnimationOfBlocks, WhatEndsItLeavesNoFile) {
  const auto frame = [&](std::int64_t block) { return figure(block); };
  EXPECT_THROW(draw_animation({4, frame}, path(), {.dpi = 72},
                              [](std::int64_t done, std::int64_t) {
                                if (done == 2) throw Cancelled("enough");
                              }),
               Cancelled);
  EXPECT_FALSE(std::filesystem::exists(path()));
  EXPECT_THROW(draw_animation({0, frame}, path(), {}), UsageError);
  write_file(path(), "mine", false);
  EXPECT_THROW(draw_animation({1, frame}, path(), {.dpi = 72}), FileError);
  EXPECT_EQ(read_file(path()), "mine");
}

TEST(PngChunk, IsAsTheSpecificationHasIt) {
  EXPECT_EQ(png_chunk("IEND", ""), std::string("\0\0\0\0IEND\xAE\x42\x60\x82", 12));
  EXPECT_THAT(png_resolution(300), HasSubstr("pHYs"));
}

}  // namespace
}  // namespace keyscope::figures
