// `keyscope figure` for many heads at once: how the command line asks for small multiples.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/figures/nexus.hpp"
#include "tests/app/commands/captured_phonebook.hpp"

namespace keyscope::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FigureOfHeads : public CapturedPhonebook {
 protected:
  static CliResult draw(const std::string& name, std::vector<std::string> more) {
    std::vector<std::string> arguments{"figure", path("r.h5"), name, "--out", path("f.h5"), "--force"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_cli(arguments);
  }
  static figures::SmallMultiples grid(const std::string& name, const std::vector<std::string>& more) {
    const CliResult result = draw(name, more);
    EXPECT_EQ(result.status, 0) << result.err;
    return figures::read_figures(path("f.h5")).figures.at(0).multiples.value();
  }
};

TEST_F(FigureOfHeads, ListsMakeRowsAndColumns) {
  const auto some = grid("keyspace", {"--layers", "0-1,3", "--kv-heads", "2"});
  EXPECT_THAT(some.rows, ElementsAre("0", "1", "3"));
  EXPECT_THAT(some.columns, ElementsAre("2"));
  EXPECT_EQ(grid("score-attention", {"--layers", "all"}).columns.size(), 4U);
  EXPECT_EQ(grid("cosine-matrix", {"--kv-heads", "all"}).rows.size(), 4U);
  EXPECT_EQ(grid("attention", {"--layer", "1", "--query-heads", "all"}).columns.size(), 8U);
}

TEST_F(FigureOfHeads, ContradictionsAreWrongUsage) {
  EXPECT_EQ(draw("keyspace", {"--layers", "0", "--layer", "1"}).status, 2);
  EXPECT_EQ(draw("attention", {"--kv-heads", "0", "--query-heads", "1"}).status, 2);
  EXPECT_EQ(draw("keyspace", {"--layers", ""}).status, 2);
  EXPECT_EQ(draw("keyspace", {"--layers", "9"}).status, 2);
  const CliResult foreign = draw("log-volume", {"--layers", "all"});
  EXPECT_EQ(foreign.status, 2);
  EXPECT_THAT(foreign.err, HasSubstr("--layers does nothing to log-volume"));
}

}  // namespace
}  // namespace keyscope::test
