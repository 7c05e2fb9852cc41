#include "capture/model/safetensors.hpp"

#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "capture/model/stored_weights.hpp"
#include "tests/support/random_model.hpp"

namespace keyscope::capture {

namespace {

using test::RandomModel;
using test::safetensors_of;
using test::TensorBytes;
using ::testing::HasSubstr;

const TensorBytes kOne{"U8", {1}, "1"};
constexpr const char* kIndex = "model.safetensors.index.json";

std::string complaint(const std::filesystem::path& folder) {
  try {
    const Checkpoint checkpoint(folder);
    return "";
  } catch (const FileError& error) {
    return error.what();
  }
}

// An index that places tensor `w` in a file of this name.
std::string index_naming(const std::string& shard) {
  return json_text(nlohmann::json{{"metadata", {{"total_size", 1}}}, {"weight_map", {{"w", shard}}}});
}

TEST(Checkpoint, ReadsOneFile) {
  const RandomModel model;
  model.save();
  const Checkpoint checkpoint(model.folder());
  EXPECT_EQ(checkpoint.files().size(), 1U);
  ASSERT_NE(checkpoint.find("model.norm.weight"), nullptr);
  EXPECT_EQ(checkpoint.find("model.norm.bias"), nullptr);
  EXPECT_EQ(StoredWeights(checkpoint).float_dtype(), "float32");
}

TEST(Checkpoint, ReadsShards) {
  const RandomModel model;
  model.write("b.safetensors", safetensors_of({{"y", kOne}}));
  model.write("a.safetensors", safetensors_of({{"w", kOne}, {"x", {"U8", {2}, "23"}}}));
  model.write(kIndex, R"({"weight_map":{"w":"a.safetensors","x":"a.safetensors","y":"b.safetensors"}})");
  const Checkpoint checkpoint(model.folder());
  ASSERT_EQ(checkpoint.files().size(), 2U);
  EXPECT_EQ(checkpoint.files()[0]->path().filename(), "a.safetensors");
  EXPECT_EQ(checkpoint.data_bytes(), 4);
  EXPECT_EQ(StoredWeights(checkpoint).float_dtype(), "");
  EXPECT_EQ(checkpoint.find("x")->data.size(), 2U);
}

TEST(Checkpoint, RefusesShardNamesThatClimbOutOfTheFolder) {
  const RandomModel model;
  for (const std::string& name :
       {std::string("../w.safetensors"), std::string("/etc/passwd"), std::string(".."), std::string("."),
        std::string(), std::string("sub/../../w.safetensors"), std::string("sub/"),
        std::string("sub\\w.safetensors"), std::string("a\0b", 3)}) {
    model.write(kIndex, index_naming(name));
    EXPECT_THAT(complaint(model.folder()), HasSubstr("file name inside the folder")) << name;
  }
}

// Model caches link their files to where they are kept, and disks that are full to larger ones.
TEST(Checkpoint, LinksLeadWhereTheirOwnerSays) {
  const RandomModel model, elsewhere;
  elsewhere.write("blob", safetensors_of({{"w", kOne}}));
  std::filesystem::create_directories(model.folder() / "sub");
  std::filesystem::create_symlink(elsewhere.folder() / "blob", elsewhere.folder() / "link");
  const auto relative = std::filesystem::relative(elsewhere.folder() / "link", model.folder());
  for (const auto& [name, target] : {std::pair{"absolute.safetensors", elsewhere.folder() / "blob"},
                                     std::pair{"relative.safetensors", relative},
                                     std::pair{"link_to_a_link.safetensors", elsewhere.folder() / "link"},
                                     std::pair{"sub/below.safetensors", elsewhere.folder() / "blob"}}) {
    std::filesystem::create_symlink(target, model.folder() / name);
    model.write(kIndex, index_naming(name));
    EXPECT_EQ(complaint(model.folder()), "") << name;
    EXPECT_NE(Checkpoint(model.folder()).find("w"), nullptr) << name;
  }
}

TEST(Checkpoint, ATensorThatNoFileHoldsIsMissingAndHasAReason) {
  const RandomModel model;
  model.write("a.safetensors", safetensors_of({{"x", kOne}}));
  model.write(kIndex, R"({"weight_map":{"w":"a.safetensors","x":"a.safetensors","y":"gone.safetensors"}})");
  EXPECT_EQ(complaint(model.folder()), "");
  const Checkpoint checkpoint(model.folder());
  EXPECT_NE(checkpoint.find("x"), nullptr);
  EXPECT_EQ(checkpoint.find("w"), nullptr);
  EXPECT_THAT(checkpoint.why_missing("w"), HasSubstr("a.safetensors, which does not hold it"));
  EXPECT_THAT(checkpoint.why_missing("y"), HasSubstr("gone.safetensors, which is not in the folder"));
  EXPECT_EQ(checkpoint.why_missing("x"), "");
  std::filesystem::create_symlink("nowhere", model.folder() / "gone.safetensors");
  EXPECT_THAT(Checkpoint(model.folder()).why_missing("y"),
              HasSubstr("a link to nowhere, which is not there"));
}

TEST(Checkpoint, FindsWhatTheIndexForgot) {
  const RandomModel model;
  model.write("a.safetensors", safetensors_of({{"w", kOne}, {"x", kOne}}));
  model.write("b.safetensors", safetensors_of({{"y", kOne}}));
  model.write(kIndex, R"({"weight_map":{"w":"a.safetensors","x":"b.safetensors"}})");  // x is in the other
  const Checkpoint checkpoint(model.folder());
  for (const char* name : {"w", "x", "y"}) EXPECT_NE(checkpoint.find(name), nullptr) << name;
  EXPECT_EQ(checkpoint.why_missing("x"), "");
}

TEST(Checkpoint, RefusesADamagedIndex) {
  const RandomModel model;
  for (const char* text :
       {"", "[]", "{", R"({"weight_map":[]})", R"({"weight_map":{"w":7}})", R"({})", R"({"weight_map":{}})",
        R"({"weight_map":{"w":"a.safetensors","w":"b.safetensors"}})"}) {
    model.write(kIndex, text);
    EXPECT_THAT(complaint(model.folder()), HasSubstr(kIndex)) << text;
  }
}

TEST(Checkpoint, SaysThatThereAreNoWeights) {
  const RandomModel model;
  EXPECT_THAT(complaint(model.folder()), HasSubstr("neither model.safetensors nor"));
  std::filesystem::create_symlink("../blobs/gone", model.folder() / "model.safetensors");
  EXPECT_THAT(complaint(model.folder()),
              HasSubstr("model.safetensors: is a link to ../blobs/gone, which is not there"));
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TensorTable parse(const std::string& file) { return parse_safetensors(bytes_of(file), "a.safetensors"); }

// The complaint about a file; empty if it was accepted.
std::string complaint(const std::string& file) {
  try {
    parse(file);
    return "";
  } catch (const FileError& error) {
    return error.what();
  }
}

const std::string kTwoTensors = R"({"b":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]},)"
                                R"("a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})";

TEST(Safetensors, FindsEveryTensorWhereItLies) {
  const std::string file = safetensors_of(kTwoTensors, "abcdEFGHijkl");
  const TensorTable table = parse(file);
  ASSERT_EQ(table.size(), 2U);
  const StoredTensor& b = table.at("b");
  EXPECT_EQ(b.dtype, "F32");
  EXPECT_EQ(b.shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(b.n_elements(), 2);
  ASSERT_EQ(b.data.size(), 8U);
  EXPECT_EQ(std::memcmp(b.data.data(), "EFGHijkl", 8), 0);
  EXPECT_EQ(static_cast<const void*>(b.data.data()), file.data() + file.size() - 8);
}

TEST(Safetensors, AllowsWhitespaceAroundTheHeader) {
  EXPECT_EQ(complaint(safetensors_of(" \n\t" + kTwoTensors + "   ", "abcdEFGHijkl")), "");
}

TEST(Safetensors, AllowsEmptyTensorsAndScalars) {
  const TensorTable table = parse(safetensors_of(
      R"({"empty":{"dtype":"F32","shape":[0,5],"data_offsets":[0,0]},)"
      R"("scalar":{"dtype":"F64","shape":[],"data_offsets":[0,8]},"none":{"dtype":"I8","shape":[0],)"
      R"("data_offsets":[8,8]}})",
      "12345678"));
  EXPECT_EQ(table.at("empty").n_elements(), 0);
  EXPECT_EQ(table.at("scalar").n_elements(), 1);
  EXPECT_EQ(table.at("scalar").data.size(), 8U);
}

TEST(Safetensors, AFileWithoutTensorsIsSound) {
  EXPECT_EQ(complaint(safetensors_of("{}", "")), "");
  EXPECT_EQ(complaint(safetensors_of(R"({"__metadata__":{"format":"pt"}})", "")), "");
}

TEST(Safetensors, ACutFileIsRefusedWhereverItIsCut) {
  const std::string whole = safetensors_of(kTwoTensors, "abcdEFGHijkl");
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_THAT(complaint(whole.substr(0, length)), HasSubstr("a.safetensors: ")) << length;
  EXPECT_THAT(complaint(whole + "m"), HasSubstr("the file holds 13"));
}

TEST(Safetensors, NoDamagedByteOfAHeaderGetsPastTheRules) {
  const std::string whole = safetensors_of(kTwoTensors, "abcdEFGHijkl");
  for (std::size_t at = 0; at < whole.size() - 12; ++at)
    for (const int flip : {0x01, 0x20, 0x80, 0xFF}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      try {
        for (const auto& [name, tensor] : parse(damaged)) {
          const auto* first = reinterpret_cast<const char*>(tensor.data.data());
          EXPECT_LE(tensor.data.size(), 12U);
          EXPECT_TRUE(tensor.data.empty() || (first >= damaged.data() + 8 &&
                                              first + tensor.data.size() <= damaged.data() + damaged.size()));
        }
      } catch (const FileError&) {
      }
    }
}

struct Damage {
  const char* name;
  std::string file;
  const char* says;
};

std::string one(const std::string& entry, const std::string& data = "1234") {
  return safetensors_of(R"({"w":)" + entry + "}", data);
}

std::string long_length() {
  std::string file(16, '\0');
  const std::uint64_t length = 100'000'001;
  std::memcpy(file.data(), &length, sizeof length);
  return file;
}

class DamagedSafetensors : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedSafetensors, IsRefusedWithItsReason) {
  EXPECT_THAT(complaint(GetParam().file), HasSubstr(GetParam().says));
}

const std::vector<Damage>& damages() {
  static const std::vector<Damage> kDamages = {
      {"TooShort", "1234567", "7 bytes"},
      {"LengthTooLarge", long_length(), "100000001"},
      {"LengthPastTheEnd", std::string("\x09\0\0\0\0\0\0\0{}", 10), "cut short"},
      {"LengthNegative", std::string(8, '\xFF') + "{}", "18446744073709551615"},
      {"NotJson", safetensors_of("{nonsense", ""), "JSON"},
      {"NotAnObject", safetensors_of("[]", ""), "JSON object"},
      {"NotUtf8", safetensors_of("{\"\xC3\x28\":{}}", ""), "UTF-8"},
      {"ByteOrderMark", safetensors_of("\xEF\xBB\xBF{}", ""), "JSON object"},
      {"TextAfterTheObject", safetensors_of("{} {}", ""), "JSON"},
      {"TwoTensorsOfOneName",
       safetensors_of(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                      R"("w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                      "12"),
       "\"w\" twice"},
      {"TwoFieldsOfOneName", one(R"({"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]})"),
       "twice"},
      {"MetadataNotAnObject", safetensors_of(R"({"__metadata__":7})", ""), "__metadata__"},
      {"MetadataNotText", safetensors_of(R"({"__metadata__":{"format":1}})", ""), "__metadata__"},
      {"EntryNotAnObject", one("3"), "w"},
      {"NoDtype", one(R"({"shape":[1],"data_offsets":[0,4]})"), "dtype"},
      {"UnknownDtype", one(R"({"dtype":"F33","shape":[1],"data_offsets":[0,4]})"), "F33"},
      {"DtypeNotText", one(R"({"dtype":32,"shape":[1],"data_offsets":[0,4]})"), "dtype"},
      {"NoShape", one(R"({"dtype":"F32","data_offsets":[0,4]})"), "shape"},
      {"ShapeNotAnArray", one(R"({"dtype":"F32","shape":1,"data_offsets":[0,4]})"), "shape"},
      {"NegativeSize", one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})"), "-1"},
      {"FractionalSize", one(R"({"dtype":"F32","shape":[1.0],"data_offsets":[0,4]})"), "1.0"},
      {"HugeSize", one(R"({"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,4]})"), "shape"},
      {"SizesThatOverflow", one(R"({"dtype":"F32","shape":[4611686018427387905,4],"data_offsets":[0,4]})"),
       "64 bits"},
      {"NoOffsets", one(R"({"dtype":"F32","shape":[1]})"), "data_offsets"},
      {"OneOffset", one(R"({"dtype":"F32","shape":[1],"data_offsets":[4]})"), "data_offsets"},
      {"ThreeOffsets", one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4,4]})"), "data_offsets"},
      {"OffsetsBackwards", one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})"), "4"},
      {"OffsetsAgainstShape", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"), "8 bytes"},
      {"OffsetsPastTheEnd", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})"), "cut short"},
      {"GapAtTheBeginning", one(R"({"dtype":"U8","shape":[3],"data_offsets":[1,4]})"), "gap"},
      {"GapAtTheEnd", one(R"({"dtype":"U8","shape":[3],"data_offsets":[0,3]})"), "holds 4"},
      {"Overlap",
       safetensors_of(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                      R"("b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                      "1234"),
       "overlap"},
      {"DeepNesting", safetensors_of(std::string(200'000, '['), ""), "JSON"},
      {"DeepNestingInside",
       safetensors_of("{\"w\":" + std::string(200'000, '[') + std::string(200'000, ']') + "}", ""),
       "nested"}};
  return kDamages;
}

INSTANTIATE_TEST_SUITE_P(All, DamagedSafetensors, ::testing::ValuesIn(damages()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(SafetensorsFile, MapsAFileAndKnowsItsHeader) {
  const test::RandomModel model;
  model.write("a.safetensors", safetensors_of(kTwoTensors, "abcdEFGHijkl"));
  const SafetensorsFile file(model.folder() / "a.safetensors");
  EXPECT_EQ(file.header(), kTwoTensors);
  EXPECT_EQ(file.n_bytes(), static_cast<std::int64_t>(8 + kTwoTensors.size() + 12));
  EXPECT_EQ(std::memcmp(file.tensors().at("a").data.data(), "abcd", 4), 0);
}

TEST(SafetensorsFile, SaysWhatIsWrongWithAPath) {
  const test::RandomModel model;
  const auto complaint_about = [](const std::filesystem::path& path) -> std::string {
    try {
      const SafetensorsFile file(path);
      return "";
    } catch (const FileError& error) {
      return error.what();
    }
  };
  model.write("empty.safetensors", "");
  EXPECT_THAT(complaint_about(model.folder() / "absent.safetensors"), HasSubstr("No such file"));
  EXPECT_THAT(complaint_about(model.folder() / "empty.safetensors"), HasSubstr("0 bytes"));
  EXPECT_THAT(complaint_about(model.folder()), HasSubstr("file"));
}

}  // namespace

}  // namespace keyscope::capture
