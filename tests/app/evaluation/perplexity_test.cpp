#include "app/evaluation/perplexity.hpp"

#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/app/evaluation/demo_evaluation.hpp"
#include "tests/app/evaluation/evaluation_goldens.hpp"
#include "tests/scratch_folder.hpp"

namespace keyscope::evaluation {
namespace {

const std::string kText = std::string(kDemoModel) + "/prompts/needle_2048.txt";

PerplexityOptions golden_options() {
  PerplexityOptions options;
  options.texts = {kText};
  options.length = read_goldens("perplexity_goldens.json", "length").get<std::int64_t>();
  options.bins = read_goldens("perplexity_goldens.json", "bins").get<std::int64_t>();
  return options;
}

Settings settings_of(const std::vector<std::string>& policies, std::int64_t block) {
  Settings settings;
  settings.policies = parse_policies(policies);
  settings.budgets = parse_budgets({"32"});
  settings.blocks = {block};
  return settings;
}

// One forward pass over each window, by Transformers in float64.
TEST(Perplexity, OfTheFullCacheEqualsAPlainForward) {
  const PerplexitySet set = read_texts(golden_options(), *demo_model());
  EXPECT_EQ(set.n_scored, read_goldens("perplexity_goldens.json", "n_scored").get<std::int64_t>());
  EXPECT_EQ(set.n_bytes, read_goldens("perplexity_goldens.json", "n_bytes").get<std::int64_t>());
  EXPECT_EQ(set.n_left_out, read_goldens("perplexity_goldens.json", "n_left_out").get<std::int64_t>());
  const Settings settings = settings_of({}, 48);
  const auto evaluation = evaluate_demo(settings, set.examples, perplexity_scorer(set));
  const nlohmann::json goldens = read_goldens("perplexity_goldens.json", "windows");
  ASSERT_EQ(evaluation.results.size(), goldens.size());
  for (std::size_t i = 0; i < goldens.size(); ++i) {
    const ExampleResult& result = evaluation.results[i];
    EXPECT_NEAR(result.score("nll_nats"), goldens[i]["nll_nats"].get<double>(), 1e-5);
    ASSERT_EQ(goldens[i]["bins"].size(), 5U);
    for (std::int64_t bin = 0; bin < 5; ++bin)
      EXPECT_NEAR(result.score(bin_score(set, bin)),
                  goldens[i]["bins"][static_cast<std::size_t>(bin)].get<double>(), 1e-5);
  }
}

// The budget holds from the end of the first block on: its tokens cost what they cost under the full cache.
TEST(Perplexity, UnderAPolicyPartsFromTheFullCacheBehindTheBudget) {
  PerplexityOptions options = golden_options();
  options.windows = 2;
  options.bins = options.length - 1;
  const PerplexitySet set = read_texts(options, *demo_model());
  const auto evaluation = evaluate_demo(settings_of({"sink"}, 16), set.examples, perplexity_scorer(set));
  ASSERT_EQ(evaluation.results.size(), 4U);
  for (std::size_t window = 0; window < 2; ++window) {
    const ExampleResult &full = evaluation.results[2 * window], &sink = evaluation.results[2 * window + 1];
    int n_apart = 0;
    for (std::int64_t bin = 0; bin < set.bins.n_bins; ++bin) {
      const double more = sink.score(bin_score(set, bin)) - full.score(bin_score(set, bin));
      // The token at position 48 is the last that blocks of 16 score before anything beyond 32 rows is
      // evicted.
      if (bin + 1 <= 48)
        EXPECT_NEAR(more, 0, 1e-5) << bin;
      else
        n_apart += std::abs(more) > 1e-3 ? 1 : 0;
    }
    EXPECT_GT(n_apart, 100);
  }
}

TEST(Perplexity, OfAStrideScoresTheEndsOfWindows) {
  PerplexityOptions options = golden_options();
  options.stride = 64;
  options.bins = 64;
  options.windows = 3;
  const PerplexitySet set = read_texts(options, *demo_model());
  EXPECT_EQ(set.first_scored, 192);
  EXPECT_EQ(set.n_scored, 192);
  EXPECT_EQ(set.examples[2].score_from, 192);
  EXPECT_EQ(bin_score(set, 63), "nll_nats 255-255");
  options.stride.reset();
  options.bins = 255;
  options.windows = 1;
  const PerplexitySet whole = read_texts(options, *demo_model());
  const auto ends = evaluate_demo(settings_of({}, 64), set.examples, perplexity_scorer(set));
  const auto all = evaluate_demo(settings_of({}, 64), whole.examples, perplexity_scorer(whole));
  EXPECT_NEAR(ends.results[0].score("nll_nats 192-192"), all.results[0].score("nll_nats 192-192"), 1e-5);
}

TEST(Perplexity, RefusesWhatCannotBeRead) {
  const test::ScratchFolder folder;
  PerplexityOptions options = golden_options();
  for (const std::int64_t length : {std::int64_t{1}, demo_model()->config().context_length + 1}) {
    options.length = length;
    EXPECT_THROW(read_texts(options, *demo_model()), UsageError);
  }
  options = golden_options();
  options.stride = 256;
  EXPECT_THROW(read_texts(options, *demo_model()), UsageError);
  options = golden_options();
  options.bins = 0;
  EXPECT_THROW(read_texts(options, *demo_model()), UsageError);
  std::ofstream(folder.file("short.txt")) << "Short.";
  std::ofstream(folder.file("bytes.txt")) << std::string(2000, '\xFF');
  for (const auto& path : {folder.file("short.txt"), folder.file("bytes.txt"), folder.file("absent.txt")}) {
    options = golden_options();
    options.texts = {path};
    EXPECT_THROW(read_texts(options, *demo_model()), FileError) << path;
  }
}

}  // namespace
}  // namespace keyscope::evaluation
