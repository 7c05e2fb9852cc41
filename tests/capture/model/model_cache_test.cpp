#include "capture/model/model_cache.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::capture {

namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kCommit(40, 'a'), kOther(40, 'b');

// A cache of made-up models, which the environment names while it lives.
class ModelCache : public ::testing::Test {
 protected:
  ModelCache() {
    setenv("HF_HUB_CACHE", folder_.path().c_str(), 1);
    add("models--org--small", kCommit);
    write("models--org--small/refs/main", kCommit);
  }
  ~ModelCache() override { unsetenv("HF_HUB_CACHE"); }

  void add(const std::string& repository, const std::string& commit) const {
    fs::create_directories(folder_.file(repository) / "snapshots" / commit);
  }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(folder_.file(name).parent_path());
    write_file(folder_.file(name), text, true);
  }
  fs::path snapshot(const std::string& repository, const std::string& commit) const {
    return folder_.file(repository) / "snapshots" / commit;
  }
  static std::string complaint(const std::string& name) {
    try {
      find_model(name);
      return "";
    } catch (const FileError& error) {
      return error.what();
    }
  }

  test::ScratchFolder folder_;
};

TEST_F(ModelCache, FindsAModelByItsNameAndItsRevision) {
  EXPECT_EQ(find_model("org/small"), snapshot("models--org--small", kCommit));
  EXPECT_EQ(find_model("org/small@main"), snapshot("models--org--small", kCommit));
  EXPECT_EQ(find_model("org/small@" + kCommit), snapshot("models--org--small", kCommit));
  add("models--org--small", kOther);
  write("models--org--small/refs/v1.0", kOther + "\n");
  write("models--org--small/refs/refs/pr/7", kOther);
  EXPECT_EQ(find_model("org/small@v1.0"), snapshot("models--org--small", kOther));
  EXPECT_EQ(find_model("org/small@refs/pr/7"), snapshot("models--org--small", kOther));
  EXPECT_EQ(find_model("org/small"), snapshot("models--org--small", kCommit));
  add("models--gpt2", kOther);  // as the oldest ones are called
  EXPECT_EQ(find_model("gpt2@" + kOther), snapshot("models--gpt2", kOther));
}

TEST_F(ModelCache, AFolderThatIsThereComesFirst) {
  EXPECT_EQ(find_model(folder_.path().string()), folder_.path());
  EXPECT_EQ(find_model("."), ".");
}

TEST_F(ModelCache, WhatIsMissingIsSaidWithTheCommandThatFetchesIt) {
  EXPECT_THAT(complaint("org/large"),
              AllOf(HasSubstr("org/large: is no folder here"), HasSubstr(folder_.path().string()),
                    HasSubstr("hf download org/large")));
  EXPECT_THAT(complaint("org/small@v2"),
              AllOf(HasSubstr("only at " + kCommit), HasSubstr("hf download org/small --revision v2")));
  EXPECT_THAT(fetch_advice(find_model("org/small")),
              HasSubstr("hf download org/small --revision " + kCommit));
  EXPECT_EQ(fetch_advice(folder_.path()), "");
}

TEST_F(ModelCache, NoNameLeadsOutOfTheCache) {
  fs::create_directories(folder_.path() / "snapshots" / kCommit);
  write("models--org--small/refs/evil", "../../..");
  for (const char* name : {"../small", "org/..", "org/small@../../..", "org/small@/etc", "/no/such/model",
                           "a/b/c", "org--small/x", "org/small@evil", "", "@main", "org/small@"})
    EXPECT_NE(complaint(name), "") << name;
}

TEST_F(ModelCache, ListsWhatIsThere) {
  add("models--a--b", kOther);
  fs::create_directories(folder_.file("models--no--snapshot"));
  fs::create_directories(folder_.file("datasets--a--b") / "snapshots" / kOther);
  EXPECT_THAT(cached_models(), ElementsAre("a/b", "org/small"));
  setenv("HF_HUB_CACHE", folder_.file("none").c_str(), 1);
  EXPECT_THAT(cached_models(), IsEmpty());
}

TEST_F(ModelCache, AFolderOfItSaysWhichModelItIs) {
  const fs::path folder = find_model("org/small");
  ASSERT_TRUE(cached_model(folder).has_value());
  EXPECT_EQ(cached_model(folder)->repository, "org/small");
  EXPECT_EQ(cached_model(folder / "")->commit, kCommit);
  EXPECT_EQ(model_name(folder), "org/small");
  EXPECT_EQ(model_name("/models/demo/"), "demo");
  EXPECT_FALSE(cached_model("/models/demo").has_value());
}

TEST_F(ModelCache, LiesWhereTheEnvironmentSays) {
  EXPECT_EQ(model_cache(), folder_.path());
  setenv("HF_HUB_CACHE", "", 1);
  setenv("HF_HOME", "~/hf", 1);
  setenv("HOME", "/home/someone", 1);
  EXPECT_EQ(model_cache(), "/home/someone/hf/hub");
  unsetenv("HF_HOME");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(model_cache(), "/home/someone/.cache/huggingface/hub");
}

}  // namespace

}  // namespace keyscope::capture
