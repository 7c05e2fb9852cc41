#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "capture/model/safetensors.hpp"
#include "tests/capture/model/random_model.hpp"

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
  return nlohmann::json{{"metadata", {{"total_size", 1}}}, {"weight_map", {{"w", shard}}}}.dump();
}

TEST(Checkpoint, ReadsOneFile) {
  const RandomModel model;
  model.save();
  const Checkpoint checkpoint(model.folder());
  EXPECT_EQ(checkpoint.files().size(), 1U);
  ASSERT_NE(checkpoint.find("model.norm.weight"), nullptr);
  EXPECT_EQ(checkpoint.find("model.norm.bias"), nullptr);
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
  EXPECT_EQ(checkpoint.find("x")->data.size(), 2U);
}

TEST(Checkpoint, RefusesShardNamesThatAreNoPlainFileNames) {
  const RandomModel model;
  for (const std::string& name :
       {std::string("../w.safetensors"), std::string("/etc/passwd"), std::string(".."), std::string("."),
        std::string(), std::string("sub/w.safetensors"), std::string("sub\\w.safetensors"),
        std::string("a\0b", 3)}) {
    model.write(kIndex, index_naming(name));
    EXPECT_THAT(complaint(model.folder()), HasSubstr("plain file name")) << name;
  }
}

TEST(Checkpoint, RefusesAShardThatLeadsOutOfTheFolder) {
  const RandomModel model, elsewhere;
  elsewhere.write("w.safetensors", safetensors_of({{"w", kOne}}));
  std::filesystem::create_symlink(elsewhere.folder() / "w.safetensors", model.folder() / "w.safetensors");
  model.write(kIndex, index_naming("w.safetensors"));
  EXPECT_THAT(complaint(model.folder()), HasSubstr("leads out"));
}

TEST(Checkpoint, SaysWhichShardOrTensorIsMissing) {
  const RandomModel model;
  model.write(kIndex, index_naming("gone.safetensors"));
  EXPECT_THAT(complaint(model.folder()), HasSubstr("gone.safetensors"));
  model.write("gone.safetensors", safetensors_of({{"other", kOne}}));
  EXPECT_THAT(complaint(model.folder()), HasSubstr("w"));
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
}

}  // namespace
}  // namespace keyscope::capture
