// Models that are named as the hub names them.

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/session/live_request.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "capture/model/safetensors.hpp"
#include "tests/support/cli.hpp"
#include "tests/support/random_model.hpp"

namespace keyscope::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two shards of the demo model in a cache, as the hub's library lays it out; the environment names it.
class CachedDemoModel : public ::testing::Test {
 protected:
  CachedDemoModel() {
    const fs::path model = folder_.file("models--org--demo"), blobs = model / "blobs";
    snapshot_ = model / "snapshots" / kCommit;
    fs::create_directories(blobs);
    fs::create_directories(snapshot_);
    fs::create_directories(model / "refs");
    write_file(model / "refs" / "main", kCommit, false);
    for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json"})
      link(name, kDemoModel, blobs);
    const capture::Checkpoint checkpoint(kDemoModel);
    TensorMap shards[2];
    nlohmann::json map;
    for (const auto& [name, tensor] : checkpoint.tensors()) {
      const int shard = name.find("layers.0") != name.npos ? 0 : 1;
      shards[shard][name] = {
          tensor->dtype, tensor->shape,
          std::string(reinterpret_cast<const char*>(tensor->data.data()), tensor->data.size())};
      map[name] = shard_name(shard);
    }
    for (int i = 0; i < 2; ++i) write_file(blobs / shard_name(i), safetensors_of(shards[i]), false);
    write_file(blobs / kIndex, json_text(nlohmann::json{{"weight_map", map}}), false);
    for (const std::string& name : {shard_name(0), shard_name(1), std::string(kIndex)})
      fs::create_symlink(fs::path("../../blobs") / name, snapshot_ / name);
    setenv("HF_HUB_CACHE", folder_.path().c_str(), 1);
  }
  ~CachedDemoModel() override { unsetenv("HF_HUB_CACHE"); }

  static std::string shard_name(int i) { return fmt::format("model-0000{}-of-00002.safetensors", i + 1); }
  void link(const std::string& name, const fs::path& from, const fs::path& blobs) const {
    fs::copy_file(from / name, blobs / name);
    fs::create_symlink(fs::path("../../blobs") / name, snapshot_ / name);
  }
  std::string file(const std::string& name) const { return folder_.file(name).string(); }

  static constexpr const char* kIndex = "model.safetensors.index.json";
  static inline const std::string kCommit = std::string(39, '0') + "7";
  ScratchFolder folder_;
  fs::path snapshot_;
};

TEST_F(CachedDemoModel, IsCapturedByItsName) {
  const std::vector<std::string> capture{
      "capture", "--prompt", "The magic number is 7", "--policy", "keydiff", "--budget", "4", "--block", "2",
      "--quiet", "--model"};
  const auto run = [&](const std::string& model, const std::string& out) {
    std::vector<std::string> words = capture;
    words.insert(words.end(), {model, "--out", file(out)});
    return run_cli(words);
  };
  ASSERT_EQ(run("org/demo", "by_name.h5").status, 0);
  ASSERT_EQ(run(kDemoModel, "by_folder.h5").status, 0);
  const auto found = parse_json(run_cli({"inspect", file("by_name.h5"), "--json", "-"}).out);
  EXPECT_EQ(found["model"]["name"], "org/demo");
  EXPECT_EQ(found["model"]["commit"], kCommit);
  const CliResult same = run_cli({"compare", file("by_name.h5"), file("by_folder.h5")});
  EXPECT_EQ(same.status, 0) << same.out << same.err;
  EXPECT_EQ(parse_json(run_cli({"inspect", "org/demo@main", "--json", "-"}).out)["commit"], kCommit);
  EXPECT_EQ(run_cli({"tokenize", "--model", "org/demo@" + kCommit, "--prompt", "hi"}).out,
            run_cli({"tokenize", "--model", kDemoModel, "--prompt", "hi"}).out);
}

TEST_F(CachedDemoModel, WhatItLacksIsOneSentenceWithTheCommand) {
  fs::remove(folder_.file("models--org--demo") / "blobs" / shard_name(1));
  const CliResult result =
      run_cli({"capture", "--model", "org/demo", "--prompt", "x", "--out", file("x.h5")});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("is a link to ../../blobs/" + shard_name(1) + ", which is not there"),
                    HasSubstr("hf download org/demo --revision " + kCommit)));
  EXPECT_THAT(run_cli({"validate", "--model", "org/other", "--prompts", "p", "--out", file("v")}).err,
              HasSubstr("hf download org/other"));
}

TEST_F(CachedDemoModel, TheWindowsFormTakesAndSuggestsIt) {
  EXPECT_THAT(session::suggested_models("DEM"), ElementsAre("org/demo"));
  EXPECT_THAT(session::suggested_models("other"), IsEmpty());
  EXPECT_THAT(session::suggested_models("org/demo"), IsEmpty());  // it names a model
  session::LiveRequest request;
  request.model_folder = "org/demo";
  EXPECT_EQ(session::check_live(request).model, "");
  request.model_folder = "org/none";
  EXPECT_THAT(session::check_live(request).model, HasSubstr("fetch it with: hf download org/none"));
}

// As `LlamaModel.save_pretrained` leaves it: no "model." before the names, no head.
TEST(BaseModel, IsCapturedAndGivesNoNextToken) {
  RandomModel model({.tied = false});
  model.config["architectures"] = {"LlamaModel"};
  TensorMap tensors;
  for (const auto& [name, tensor] : model.tensors)
    if (name != "lm_head.weight") tensors[name.substr(std::string("model.").size())] = tensor;
  model.tensors = tensors;
  model.save();
  model.write("ids.json", "[1, 2, 3, 4, 5, 6]");
  const auto file = [&](const char* name) { return (model.folder() / name).string(); };
  const std::vector<std::string> words{"capture",
                                       "--model",
                                       model.folder().string(),
                                       "--prompt-ids",
                                       file("ids.json"),
                                       "--policy",
                                       "none",
                                       "--policy",
                                       "keydiff",
                                       "--budget",
                                       "3",
                                       "--block",
                                       "2",
                                       "--out",
                                       file("r.h5")};
  const CliResult done = run_cli(words);
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.err, HasSubstr("note: " + model.folder().string() + ": holds no lm_head.weight"));
  const CliResult analyzed = run_cli({"analyze", file("r.h5"), "--json", "-", "--no-bounds"});
  ASSERT_EQ(analyzed.status, 0) << analyzed.err;
  const auto run = parse_json(analyzed.out)["runs"][1];
  EXPECT_THAT(run["top_ids"], IsEmpty());
  EXPECT_TRUE(run["kl_nats"].is_null());
  EXPECT_EQ(run["heads"][0]["retained"].size(), 3U);
  std::vector<std::string> generating = words;
  generating.insert(generating.end(), {"--force", "--generate", "2"});
  EXPECT_EQ(run_cli(generating).status, 1);
  EXPECT_THAT(run_cli(generating).err,
              HasSubstr("holds no lm_head.weight, so that there are no next tokens"));
}

}  // namespace
}  // namespace keyscope::test
