#include "base/outputs_together.hpp"

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope {

namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// While it lives, nothing can be opened: neither can a folder, to be synced.
class NothingOpens {
 public:
  NothingOpens() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{0, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NothingOpens() { setrlimit(RLIMIT_NOFILE, &before_); }
  NothingOpens(const NothingOpens&) = delete;
  NothingOpens& operator=(const NothingOpens&) = delete;

 private:
  rlimit before_{};
};

class Outputs : public ::testing::Test {
 protected:
  fs::path file(const std::string& name) const { return folder_.path() / name; }
  void put(const std::string& name, const std::string& text) const { std::ofstream(file(name)) << text; }

  NewFile part_of(const std::string& name, bool replace, bool keeps_part = false) const {
    put(name + ".part", "new " + name);
    return {file(name + ".part"), file(name), replace, keeps_part};
  }

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      found.push_back(entry.path().filename().string());
    return found;
  }

  static std::string refusal(const std::function<void()>& call) {
    try {
      call();
    } catch (const FileError& error) {
      return error.what();
    }
    return "not refused";
  }

  test::ScratchFolder folder_;
};

TEST_F(Outputs, GetTheirNamesAndLeaveNothingBeside) {
  put("a", "old");
  give_names(std::vector<NewFile>{part_of("a", true), part_of("b", false)});
  EXPECT_THAT(names(), UnorderedElementsAre("a", "b"));
  EXPECT_EQ(read_file(file("a")), "new a");
  EXPECT_EQ(read_file(file("b")), "new b");
}

TEST_F(Outputs, AreTakenBackWhereOneCannotGetItsName) {
  put("a", "old");
  put("c", "not to be replaced");
  const std::vector<NewFile> files{part_of("a", true), part_of("b", false), part_of("c", false)};
  EXPECT_THAT(refusal([&] { give_names(files); }), AllOf(HasSubstr("/c: "), HasSubstr("left as it is")));
  EXPECT_EQ(read_file(file("a")), "old");
  EXPECT_FALSE(fs::exists(file("b")));
  EXPECT_EQ(read_file(file("c")), "not to be replaced");
  for (const char* name : {"a", "b", "c"})
    EXPECT_EQ(read_file(file(std::string(name) + ".part")), std::string("new ") + name);
}

TEST_F(Outputs, AreTakenBackWhereTheFolderCannotBeSynced) {
  put("a", "old");
  const std::vector<NewFile> files{part_of("a", true), part_of("b", false, true)};
  std::string said;
  {
    const NothingOpens disk;
    said = refusal([&] { give_names(files); });
  }
  EXPECT_THAT(said, HasSubstr(folder_.path().string()));
  EXPECT_EQ(read_file(file("a")), "old");
  EXPECT_FALSE(fs::exists(file("b")));
  EXPECT_EQ(read_file(file("b.part")), "new b");
}

TEST_F(Outputs, OfOneCommandAppearTogether) {
  put("a", "old");
  OutputsTogether outputs;
  write_file(file("a"), "new", true);
  write_file(file("b"), "new", false);
  EXPECT_EQ(read_file(file("a")), "old");
  EXPECT_FALSE(fs::exists(file("b")));
  outputs.commit();
  EXPECT_THAT(names(), UnorderedElementsAre("a", "b"));
  EXPECT_EQ(read_file(file("a")), "new");
}

TEST_F(Outputs, AreGoneWhereTheCommandFails) {
  put("a", "old");
  try {
    const OutputsTogether outputs;
    write_file(file("a"), "new", true);
    complete_file(part_of("kept", false, true));
    throw FileError("the next one cannot be written");
  } catch (const FileError&) {  // NOLINT(bugprone-empty-catch): what is left is looked at
  }
  EXPECT_THAT(names(), UnorderedElementsAre("a", "kept.part"));
  EXPECT_EQ(read_file(file("a")), "old");
}

TEST_F(Outputs, WithinOthersDoNotWaitForThem) {
  OutputsTogether outer;
  write_file(file("a"), "a", false);
  {
    OutputsTogether inner;
    write_file(file("b"), "b", false);
    inner.commit();
  }
  EXPECT_FALSE(fs::exists(file("a")));
  EXPECT_TRUE(fs::exists(file("b")));
  outer.commit();
  EXPECT_TRUE(fs::exists(file("a")));
}

}  // namespace

}  // namespace keyscope
