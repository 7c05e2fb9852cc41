// `keyscope figure` for many heads at once: how the command line asks for small multiples.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/figures/cosine_matrix.hpp"
#include "app/figures/nexus.hpp"
#include "capture/recording/writer.hpp"
#include "tests/app/commands/captured_phonebook.hpp"
#include "tests/capture/recording/synthetic_capture.hpp"

namespace keyscope::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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

// The work grows with the square of the keys: nobody should wait for hours, or run out of memory, unwarned.
TEST(Figure, ADendrogramOfTooManyKeysIsRefusedAndSaysWhatCanBeDone) {
  const ScratchFolder folder;
  const std::string path = folder.file("long.h5").string();
  recording::SyntheticOptions options;
  options.n_layers = 1;
  options.layers = {0};
  options.n_heads = options.n_kv_heads = 1;
  options.head_dim = 2;
  options.n_prompt = figures::kMostKeysInDendrogram + 1;
  options.block_size = 8192;
  options.values = options.attention = options.logits = false;
  auto writer = recording::make_recording_writer(path, false);
  recording::SyntheticCapture(options).send(*writer);
  writer->end(true);
  std::vector<std::string> words{
      "figure", path,     "cosine-matrix", "--order", "dendrogram", "--out", folder.file("f.h5").string(),
      "--run",  "keydiff"};
  const CliResult refused = run_cli(words);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("32,769 keys"), HasSubstr("at most 32,768"),
                                 HasSubstr("earlier block or retained keys only"),
                                 Not(HasSubstr("let `keyscope figure` do it"))));
  words.emplace_back("--retained");
  const CliResult drawn = run_cli(words);
  EXPECT_EQ(drawn.status, 0) << drawn.err;
}

}  // namespace
}  // namespace keyscope::test
