#include "capture/inference/watched_rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "capture/inference/completion.hpp"
#include "tests/capture/inference/arithmetics.hpp"
#include "tests/support/captured.hpp"
#include "tests/support/random_model.hpp"

namespace keyscope::capture {
namespace {

constexpr float kNoMargin = std::numeric_limits<float>::quiet_NaN();
constexpr std::int64_t kWatchedBlock = 8, kWatchedBudget = 11, kPromptTokens = 50;

// What became of rows is what a capture of the same prompt under the same policy records.
class WatchedRowsOf : public ::testing::TestWithParam<Arithmetic> {
 protected:
  using Place = std::tuple<int, int, std::int32_t>;  // layer, KV head, position

  std::vector<Completion> complete(const Model& model, const std::vector<CompletionRequest>& requests) const {
    std::vector<Completion> completions(requests.size());
    CaptureControl control;
    complete_prompts(
        model, {kWatchedBlock, 7}, requests,
        {control, [&](std::size_t i, Completion completion) { completions[i] = std::move(completion); }});
    return completions;
  }

  static CompletionRequest request(const std::vector<std::int32_t>& ids, const std::string& policy,
                                   std::vector<std::int32_t> watched) {
    return {.prompt_ids = ids,
            .policy = analysis::parse_policy(policy),
            .budget = policy == "none" ? 0 : kWatchedBudget,
            .continuation = {.max_new_tokens = 6, .ignore_eos = true},
            .watched = std::move(watched)};
  }

  static std::shared_ptr<recording::MemoryRecording> recorded(const Model& model,
                                                              const CompletionRequest& request) {
    CaptureOptions options;
    options.prompt_ids.assign(request.prompt_ids.begin(), request.prompt_ids.end());
    options.policies = {request.policy};
    options.budget = request.budget;
    options.block_size = kWatchedBlock;
    options.generate = request.continuation.max_new_tokens;
    options.ignore_eos = true;
    options.schedule = Schedule::kBlock;
    options.seed = 7;
    return test::run_in_memory(model, options).recording;
  }

  static std::int64_t n_read_after(const recording::RunInfo& run, std::int32_t block) {
    const std::size_t next = static_cast<std::size_t>(block) + 1;
    return next < run.block_start.size() ? run.block_start[next] : run.n_tokens;
  }

  // All of a completion's lost rows against `evicted_at` and `evicted_margin`, and their ranks against those
  // of all rows that were there by their margins, which are what their scores lack.
  static void expect_recorded(const Completion& completion, const recording::MemoryRecording& recording,
                              const std::vector<std::int32_t>& watched, const std::string& what) {
    std::map<Place, LostRow> lost;
    for (const LostRow& row : completion.lost)
      EXPECT_TRUE(lost.emplace(Place{row.layer, row.kv_head, row.position}, row).second) << what;
    const auto held = recording.info();
    const recording::RecordingInfo& info = *held;
    for (int layer = 0; layer < info.model.n_layers; ++layer) {
      for (int head = 0; head < info.model.n_kv_heads; ++head) {
        const auto evicted = recording.trace(0, layer, head);
        for (const std::int32_t position : watched) {
          const std::int32_t block = evicted.evicted_at[position];
          const auto found = lost.find({layer, head, position});
          ASSERT_EQ(found != lost.end(), block >= 0) << what << ", position " << position;
          if (block < 0) continue;
          const LostRow& row = found->second;
          const float margin = evicted.evicted_margin[position];
          EXPECT_EQ(row.n_read, n_read_after(info.runs[0], block)) << what;
          if (std::isnan(margin)) {
            EXPECT_EQ(row.rank, 0) << what;
            lost.erase(found);
            continue;
          }
          EXPECT_EQ(row.margin, margin) << what;
          std::int64_t before = 1, rows = 0;
          for (std::int32_t other = 0; other < row.n_read; ++other) {
            const std::int32_t at = evicted.evicted_at[other];
            if (at >= 0 && at < block) continue;
            ++rows;
            const bool stays = at != block;
            if (stays || std::pair(evicted.evicted_margin[other], other) < std::pair(margin, position))
              ++before;
          }
          EXPECT_EQ(row.rank, before) << what;
          EXPECT_EQ(row.n_rows, rows) << what;
          lost.erase(found);
        }
      }
    }
    EXPECT_TRUE(lost.empty()) << what << ": rows that nobody watches, or that stayed";
  }
};

TEST_P(WatchedRowsOf, AreLostWhenAndByWhatARecordingSays) {
  test::RandomModel folder;
  const auto model = Model::load(folder.save(), test::model_options(GetParam()));
  const auto ids = test::random_ids(kPromptTokens, 50);
  std::vector<std::int32_t> every(kPromptTokens), some{3, 4, 5, 30, 49};
  std::iota(every.begin(), every.end(), 0);
  const std::vector<std::string> policies{"none",
                                          "keydiff",
                                          "snapkv",
                                          "h2o",
                                          "random",
                                          "sink",
                                          "l2norm:skip=1",
                                          "keydiff:recent=0.3",
                                          "keydiff:protect=sinks:2+recent:0.2",
                                          "keydiff:split=adakv",
                                          "keydiff:granularity=page:4",
                                          "keydiff:granularity=model",
                                          "keydiff:split=cake",
                                          "expected",
                                          "dropkv:window=1"};
  std::vector<CompletionRequest> requests;
  for (const std::string& policy : policies)
    for (const auto& watched : {every, some}) requests.push_back(request(ids, policy, watched));
  const auto completions = complete(*model, requests);
  for (std::size_t i = 0; i < requests.size(); ++i)
    expect_recorded(completions[i], *recorded(*model, requests[i]), requests[i].watched, policies[i / 2]);
}

// In the first layer, whose keys do not depend on what was evicted, by the scores themselves.
TEST_P(WatchedRowsOf, RanksAreThoseOfTheScores) {
  test::RandomModel folder;
  const auto model = Model::load(folder.save(), test::model_options(GetParam()));
  const auto ids = test::random_ids(kPromptTokens, 50);
  std::vector<std::int32_t> every(kPromptTokens);
  std::iota(every.begin(), every.end(), 0);
  const auto asked = request(ids, "keydiff", every);
  const auto recording = recorded(*model, asked);
  const auto policy = analysis::make_policy(asked.policy, 0);
  const auto keys = recording->keys(0, 0, 0);
  const auto evicted = recording->trace(0, 0, 0).evicted_at;
  std::int64_t n_checked = 0;
  const auto completions = complete(*model, {asked});
  for (const LostRow& row : completions.front().lost) {
    if (row.layer != 0 || row.kv_head != 0) continue;
    std::vector<std::int32_t> there;
    for (std::int32_t other = 0; other < row.n_read; ++other)
      if (evicted[other] < 0 || evicted[other] >= evicted[row.position]) there.push_back(other);
    const RowMatrixF rows = keys(there, Eigen::all);
    std::vector<double> scores(there.size());
    const RowMatrixF no_values;
    policy->score({.keys = rows, .values = no_values, .positions = there}, scores);
    const auto place = std::ranges::find(there, row.position) - there.begin();
    const auto better = std::ranges::count_if(scores, [&](double score) { return score > scores[place]; });
    EXPECT_EQ(row.rank, better + 1) << row.position;
    ++n_checked;
  }
  EXPECT_GT(n_checked, 20);
}

TEST_P(WatchedRowsOf, AWindowTakesRowsWhateverThePolicy) {
  test::RandomModel folder;
  folder.config["model_type"] = "mistral";
  folder.config["architectures"] = nlohmann::json::array({"MistralForCausalLM"});
  folder.config["sliding_window"] = 12;
  const auto model = Model::load(folder.save(), test::model_options(GetParam()));
  const auto ids = test::random_ids(kPromptTokens, 50);
  const auto completions =
      complete(*model, {request(ids, "none", {2, 45}), request(ids, "keydiff", {2, 45})});
  for (const Completion& completion : completions) EXPECT_FALSE(completion.lost.empty());
  for (const LostRow& row : completions[0].lost) {
    EXPECT_TRUE(row.past_window);
    EXPECT_EQ(row.position, 2);  // 45 is seen to the end
    EXPECT_EQ(row.n_read, 16);   // at the end of its block, 13 is the oldest that is seen
    EXPECT_EQ(row.rank, 0);
  }
}

TEST_P(WatchedRowsOf, SizesAreThoseAfterEveryBlock) {
  test::RandomModel folder;
  const auto model = Model::load(folder.save(), test::model_options(GetParam()));
  const auto ids = test::random_ids(kPromptTokens, 50);
  const auto completions = complete(*model, {request(ids, "none", {}), request(ids, "keydiff", {})});
  // 2 layers, 2 KV heads, a key and a value of 8 float32.
  constexpr std::int64_t kRowBytes = std::int64_t{2} * 2 * 2 * 8 * 4;
  std::vector<CacheSize> full, cut;
  for (const std::int64_t n : {8, 16, 24, 32, 40, 48, 50, 51, 52, 53, 54, 55}) {
    full.push_back({n, static_cast<double>(n), n * kRowBytes});
    const std::int64_t rows = std::min(n, kWatchedBudget);
    cut.push_back({n, static_cast<double>(rows), rows * kRowBytes});
  }
  EXPECT_EQ(completions[0].sizes, full);
  EXPECT_EQ(completions[1].sizes, cut);
}

INSTANTIATE_TEST_SUITE_P(Arithmetics, WatchedRowsOf, test::both_arithmetics(), test::arithmetic_name);

TEST(WatchedRows, ARankCountsWhatStayedAndWhatMissedByLess) {
  const std::vector<std::int32_t> watched{1, 4};
  WatchedRows rows(watched, 3);
  LayerEviction eviction;
  eviction.heads.resize(2);
  eviction.retained = {{0, 3}, {0, 1, 2, 3, 4}};
  eviction.heads[0].position = {1, 2, 4, 5};
  eviction.heads[0].margin = {0.5F, 0.25F, 0.5F, 1.0F};
  rows.note(eviction, 6);
  ASSERT_EQ(rows.lost().size(), 2U);
  const LostRow expected{
      .layer = 3, .kv_head = 0, .position = 1, .n_read = 6, .rank = 4, .n_rows = 6, .margin = 0.5F};
  EXPECT_EQ(rows.lost()[0], expected);
  EXPECT_EQ(rows.lost()[1].rank, 5);  // of equal ones the older first
}

TEST(WatchedRows, WhereEverythingElseWasForcedThereIsNoRank) {
  const std::vector<std::int32_t> watched{1};
  WatchedRows rows(watched, 0);
  LayerEviction eviction;
  eviction.heads.resize(1);
  eviction.retained = {{0}};
  eviction.heads[0].position = {1};
  eviction.heads[0].margin = {kNoMargin};
  rows.note(eviction, 2);
  ASSERT_EQ(rows.lost().size(), 1U);
  EXPECT_EQ(rows.lost()[0].rank, 0);
  EXPECT_EQ(rows.lost()[0].n_rows, 2);
}

}  // namespace
}  // namespace keyscope::capture
