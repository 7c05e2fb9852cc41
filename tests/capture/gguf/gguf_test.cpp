// The container: what is read of a sound file, and what a damaged one is refused with.

#include "capture/gguf/gguf.hpp"

#include <cstdint>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::gguf {
namespace {

using test::GgufBuilder;
using test::raw;
using test::raw_text;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Contents parse(const std::string& file) { return parse_gguf(std::as_bytes(std::span(file)), "model.gguf"); }

std::string complaint(const std::string& file) {
  try {
    parse(file);
    return "";
  } catch (const FileError& error) {
    return error.what();
  }
}

std::string complaint(const std::function<void()>& act) {
  try {
    act();
    return "";
  } catch (const FileError& error) {
    return error.what();
  }
}

GgufBuilder small() {
  GgufBuilder file;
  file.text("general.architecture", "llama").count("llama.block_count", 2).number("llama.eps", 1e-6F);
  file.flag("yes", true)
      .texts("words", {"a", "", "ccc"})
      .counts("counts", {-1, 2})
      .numbers("numbers", {0.5F});
  file.tensor("first", {2, 3}, {1, 2, 3, 4, 5, 6}).tensor("second", {1}, {7});
  return file;
}

TEST(Gguf, ReadsMetadataAndTensors) {
  for (const std::uint32_t version : {2U, 3U}) {
    GgufBuilder file(version);
    file.text("name", "tiny").tensor("w", {2, 3}, {1, 2, 3, 4, 5, 6});
    EXPECT_EQ(parse(file.bytes()).metadata.at("name").string(), "tiny");
  }
  const std::string bytes = small().bytes();
  const Contents contents = parse(bytes);
  EXPECT_EQ(contents.metadata.at("llama.block_count").integer(0, 10), 2);
  EXPECT_EQ(contents.metadata.at("llama.eps").number(), 1e-6) << "not 9.99999997e-07";
  EXPECT_TRUE(contents.metadata.at("yes").boolean());
  std::vector<std::string> words;
  contents.metadata.at("words").for_each([&](const Value& word) { words.emplace_back(word.string()); });
  EXPECT_THAT(words, ElementsAre("a", "", "ccc"));
  std::vector<std::int64_t> counts;
  contents.metadata.at("counts").for_each([&](const Value& n) { counts.push_back(n.integer(-5, 5)); });
  EXPECT_THAT(counts, ElementsAre(-1, 2));
  const Tensor& first = contents.tensors.at("first");
  EXPECT_THAT(first.shape, ElementsAre(2, 3)) << "rows first";
  EXPECT_EQ(first.format->name, "F32");
  EXPECT_EQ(first.n_elements(), 6);
  EXPECT_EQ(first.data.size(), 24U);
  EXPECT_EQ(contents.tensors.at("second").data.data() - first.data.data(), 32) << "aligned";
}

TEST(Gguf, ReadsIntegersOfAllWidthsAndArraysOfArrays) {
  GgufBuilder file;
  file.value("u8", 0, raw<std::uint8_t>(200)).value("i8", 1, raw<std::int8_t>(-3));
  file.value("u16", 2, raw<std::uint16_t>(60000)).value("i16", 3, raw<std::int16_t>(-4));
  file.value("i32", 5, raw<std::int32_t>(-5)).value("u64", 10, raw<std::uint64_t>(1ULL << 40));
  file.value("i64", 11, raw<std::int64_t>(-6)).value("f64", 12, raw<double>(0.1));
  file.value("huge", 10, raw<std::uint64_t>(1ULL << 63));
  const std::string inner = raw<std::uint32_t>(0) + raw<std::uint64_t>(2) + "\x01\x02";
  file.value("nested", 9, raw<std::uint32_t>(9) + raw<std::uint64_t>(2) + inner + inner);
  const std::string bytes = file.bytes();
  const Contents contents = parse(bytes);
  const auto integer = [&](const char* key) {
    return contents.metadata.at(key).integer(INT64_MIN, INT64_MAX);
  };
  EXPECT_EQ(integer("u8"), 200);
  EXPECT_EQ(integer("i8"), -3);
  EXPECT_EQ(integer("u16"), 60000);
  EXPECT_EQ(integer("i16"), -4);
  EXPECT_EQ(integer("i32"), -5);
  EXPECT_EQ(integer("u64"), 1LL << 40);
  EXPECT_EQ(integer("i64"), -6);
  EXPECT_EQ(contents.metadata.at("f64").number(), 0.1);
  EXPECT_THAT(complaint([&] { integer("huge"); }), HasSubstr("expected an integer"));
  std::vector<std::int64_t> all;
  contents.metadata.at("nested").for_each(
      [&](const Value& list) { list.for_each([&](const Value& n) { all.push_back(n.integer(0, 9)); }); });
  EXPECT_THAT(all, ElementsAre(1, 2, 1, 2));
}

TEST(Gguf, AValueThatIsNotWhatIsAskedForIsNamed) {
  const std::string bytes = small().bytes();
  const Contents contents = parse(bytes);
  const auto& text = contents.metadata.at("general.architecture");
  EXPECT_THAT(complaint([&] { text.integer(0, 1); }),
              AllOf(HasSubstr("model.gguf"), HasSubstr("general.architecture"), HasSubstr("is \"llama\""),
                    HasSubstr("an integer from 0 to 1")));
  EXPECT_THAT(complaint([&] { text.boolean(); }), HasSubstr("expected true or false"));
  EXPECT_THAT(complaint([&] { text.size(); }), HasSubstr("expected an array"));
  EXPECT_THAT(complaint([&] { contents.metadata.at("words").string(); }),
              HasSubstr("is an array of 3 (a string), expected a string"));
  EXPECT_THAT(complaint([&] { contents.metadata.at("llama.block_count").integer(3, 9); }), HasSubstr("is 2"));
}

TEST(Gguf, EveryShorterFileIsRefused) {
  const std::string whole = small().bytes();
  // Behind the last tensor there is padding, without which the file is sound.
  for (std::size_t n = 0; n + 32 < whole.size(); ++n) {
    const std::string message = complaint(whole.substr(0, n));
    EXPECT_THAT(message, HasSubstr("model.gguf: ")) << n;
  }
}

TEST(Gguf, RefusesWhatIsNoGguf) {
  EXPECT_THAT(complaint("PK\x03\x04 and more"), HasSubstr("does not begin with GGUF"));
  EXPECT_THAT(complaint("GGUF" + raw<std::uint32_t>(1) + std::string(16, '\0')), HasSubstr("version 1"));
  EXPECT_THAT(complaint("GGUF" + raw<std::uint32_t>(3U << 24) + std::string(16, '\0')),
              HasSubstr("big-endian"));
}

TEST(Gguf, RefusesCountsAndLengthsBeyondTheFile) {
  const std::string start = "GGUF" + raw<std::uint32_t>(3);
  EXPECT_THAT(complaint(start + raw<std::uint64_t>(1ULL << 63) + raw<std::uint64_t>(0)),
              HasSubstr("cut short"));
  EXPECT_THAT(complaint(start + raw<std::uint64_t>(0) + raw<std::uint64_t>(1ULL << 63)),
              HasSubstr("cut short"));
  EXPECT_THAT(
      complaint(start + raw<std::uint64_t>(0) + raw<std::uint64_t>(1) + raw<std::uint64_t>(UINT64_MAX)),
      HasSubstr("only 0 are left"));
  EXPECT_THAT(complaint(GgufBuilder().value("k", 8, raw<std::uint64_t>(1ULL << 62)).bytes()),
              AllOf(HasSubstr("metadata \"k\""), HasSubstr("cut short")));
  for (const std::uint32_t element : {0U, 8U, 9U, 12U})
    EXPECT_THAT(complaint(GgufBuilder().value("k", 9, raw(element) + raw<std::uint64_t>(1ULL << 61)).bytes()),
                HasSubstr("metadata \"k\""))
        << element;
}

TEST(Gguf, RefusesTypesThatAreNone) {
  EXPECT_THAT(complaint(GgufBuilder().value("k", 13, "").bytes()),
              HasSubstr("is of type 13, expected 0 to 12"));
  EXPECT_THAT(complaint(GgufBuilder().value("k", 9, raw<std::uint32_t>(99) + raw<std::uint64_t>(0)).bytes()),
              HasSubstr("is of type 99"));
  EXPECT_THAT(complaint(GgufBuilder().tensor("w", {1}, 4, "    ").bytes()),
              AllOf(HasSubstr("tensor \"w\": its type is 4"), HasSubstr("Q4_K")));
  std::string nested;
  for (int i = 0; i < 6; ++i) nested += raw<std::uint32_t>(9) + raw<std::uint64_t>(1);
  EXPECT_THAT(complaint(GgufBuilder().value("k", 9, nested).bytes()), HasSubstr("nested deeper than 4"));
}

TEST(Gguf, RefusesWhatIsThereTwice) {
  EXPECT_THAT(complaint(GgufBuilder().count("k", 1).count("k", 1).bytes()),
              HasSubstr("\"k\" is there twice"));
  EXPECT_THAT(complaint(GgufBuilder().tensor("w", {1}, {1}).tensor("w", {1}, {1}).bytes()),
              HasSubstr("tensor \"w\": it is there twice"));
}

TEST(Gguf, RefusesSizesThatAreNone) {
  EXPECT_THAT(complaint(GgufBuilder().tensor("w", {0}, {}).bytes()), HasSubstr("dimension 0 is 0"));
  EXPECT_THAT(complaint(GgufBuilder().tensor("w", {}, {}).bytes()),
              HasSubstr("0 dimensions, expected 1 to 4"));
  EXPECT_THAT(complaint(GgufBuilder().tensor("w", {1, 1, 1, 1, 1}, {1}).bytes()), HasSubstr("5 dimensions"));
  EXPECT_THAT(complaint(GgufBuilder().tensor("w", {1ULL << 63}, {}).bytes()),
              HasSubstr("dimension 0 is 9223"));
  EXPECT_THAT(complaint(GgufBuilder().tensor("w", {1ULL << 40, 1ULL << 40}, {}).bytes()),
              HasSubstr("too large for 64 bits"));
  EXPECT_THAT(complaint(GgufBuilder().tensor("w", {2, 31}, 2, std::string(64, 'x')).bytes()),
              HasSubstr("a row has 31 values, expected a multiple of 32, the block of Q4_0"));
}

TEST(Gguf, RefusesTensorsThatOverlapOrLeaveTheFile) {
  const auto two = [](std::uint64_t offset) {
    return GgufBuilder()
        .tensor("a", {16}, std::vector<float>(16))
        .next_offset(offset)
        .tensor("b", {16}, std::vector<float>(16));
  };
  EXPECT_EQ(complaint(two(64).bytes()), "");
  EXPECT_THAT(complaint(two(32).bytes()),
              HasSubstr("tensor \"b\": its data begins at 32, within that of \"a\""));
  EXPECT_THAT(complaint(two(65).bytes()), HasSubstr("expected a multiple of 32"));
  EXPECT_THAT(complaint(two(1U << 20).bytes()), HasSubstr("the file holds 128 bytes of data"));
  EXPECT_THAT(complaint(two(UINT64_MAX - 31).bytes()), HasSubstr("too far for 64 bits"));
}

TEST(Gguf, AlignmentIsWhatTheFileSays) {
  EXPECT_THAT(complaint(GgufBuilder().count("general.alignment", 0).bytes()), HasSubstr("an integer from 1"));
  EXPECT_THAT(complaint(GgufBuilder().count("general.alignment", 48).bytes()), HasSubstr("a power of two"));
  EXPECT_THAT(complaint(GgufBuilder().text("general.alignment", "32").bytes()), HasSubstr("an integer"));
  EXPECT_EQ(complaint(GgufBuilder().count("general.alignment", 8).tensor("w", {1}, {1}).bytes()), "");
}

class Files : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_.file(name), std::ios::binary) << bytes;
    return folder_.file(name);
  }
  const std::filesystem::path& folder() const { return folder_.path(); }
  test::ScratchFolder folder_;
};

GgufBuilder part(std::uint32_t number, std::uint32_t count, const std::string& tensor) {
  GgufBuilder file;
  file.value("split.no", 2, raw(static_cast<std::uint16_t>(number)));
  file.value("split.count", 2, raw(static_cast<std::uint16_t>(count)));
  file.value("split.tensors.count", 5, raw<std::int32_t>(2));
  return file.tensor(tensor, {1}, {static_cast<float>(number)});
}

TEST_F(Files, PartsOfASplitModelAreOne) {
  const auto first = write("m-00001-of-00002.gguf", part(0, 2, "a").text("name", "x").bytes());
  EXPECT_THAT(complaint([&] { Container{first}; }), HasSubstr("m-00002-of-00002.gguf: cannot be opened"));
  const auto second = write("m-00002-of-00002.gguf", part(1, 2, "b").bytes());
  const Container both(first);
  EXPECT_EQ(both.tensors().size(), 2U);
  EXPECT_EQ(both.require("name").string(), "x");
  EXPECT_EQ(gguf_in(folder()), first);
  EXPECT_THAT(complaint([&] { Container{second}; }), HasSubstr("is part 2 of 2; name the first"));
  write("m-00002-of-00002.gguf", part(1, 2, "a").bytes());
  EXPECT_THAT(complaint([&] { Container{first}; }), HasSubstr("another part has it as well"));
  write("m-00002-of-00002.gguf", part(0, 2, "b").bytes());
  EXPECT_THAT(complaint([&] { Container{first}; }), HasSubstr("split.no"));
  const auto renamed = write("m.gguf", part(0, 2, "a").bytes());
  EXPECT_THAT(complaint([&] { Container{renamed}; }), HasSubstr("as many parts as the name says"));
}

TEST_F(Files, AFolderOfOneFileIsThatFile) {
  EXPECT_EQ(gguf_in(folder()), std::nullopt);
  const auto file = write("b.gguf", small().bytes());
  EXPECT_EQ(gguf_in(folder()), file);
  write("a.gguf", small().bytes());
  EXPECT_THAT(complaint([&] { gguf_in(folder()); }),
              HasSubstr("holds 2 models; name one of its files: a.gguf, b.gguf"));
  write("config.json", "{}");
  EXPECT_EQ(gguf_in(folder()), std::nullopt);
}

TEST_F(Files, MapsAFile) {
  const std::string bytes = small().bytes();
  const File file(write("m.gguf", bytes));
  EXPECT_EQ(std::string(file.header()) + std::string(file.data()), bytes);
  EXPECT_EQ(file.data().size(), 64U);
  EXPECT_THAT(complaint([&] { File(folder() / "none.gguf"); }), HasSubstr("none.gguf: cannot be opened"));
  EXPECT_THAT(complaint([&] { File{folder()}; }), HasSubstr("is no regular file"));
}

}  // namespace
}  // namespace keyscope::gguf
