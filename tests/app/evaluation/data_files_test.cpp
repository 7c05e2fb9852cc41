#include "app/evaluation/data_files.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/scratch_folder.hpp"

namespace keyscope::evaluation {
namespace {

namespace fs = std::filesystem;

TEST(DataFiles, OfAFolderAreItsJsonLinesByName) {
  const test::ScratchFolder folder;
  for (const char* name : {"b.jsonl", "a.jsonl", "notes.txt"}) std::ofstream(folder.file(name)) << "{}\n";
  const std::vector<fs::path> given{folder.file("notes.txt"), folder.file("a.jsonl").parent_path()};
  EXPECT_THAT(data_files(given), ::testing::ElementsAre(folder.file("notes.txt"), folder.file("a.jsonl"),
                                                        folder.file("b.jsonl")));
}

TEST(DataFiles, AreRefusedWhereThereAreNone) {
  const test::ScratchFolder folder;
  const std::vector<fs::path> empty{folder.file("x").parent_path()}, absent{folder.file("absent.jsonl")};
  EXPECT_THROW(data_files(empty), FileError);
  EXPECT_THROW(data_files(absent), FileError);
}

}  // namespace
}  // namespace keyscope::evaluation
