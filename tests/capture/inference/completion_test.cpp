#include "capture/inference/completion.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/slots.hpp"
#include "base/errors.hpp"
#include "tests/capture/inference/arithmetics.hpp"
#include "tests/support/captured.hpp"
#include "tests/support/random_model.hpp"

namespace keyscope::capture {

// What the shared walk gives for each request is what `run_capture` gives for it alone.

namespace {

using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

// Of what files say of heads, in a model of two layers with two KV heads of eight channels.
std::vector<analysis::PolicySpec> policies_of_files() {
  const std::string streams = test::inference_golden("tiny_llama.streams.json").string();
  return {
      analysis::parse_policy("qfilters:file=" + test::inference_golden("tiny_llama.filters.json").string()),
      analysis::parse_policy("duo:sinks=2,file=" + streams),
      analysis::parse_policy("duo:protect=recent:3,split=pyramid,file=" + streams)};
}

// Those that leave every layer its own rows, as layers with sliding windows have them.
std::vector<analysis::PolicySpec> every_policy_of_layers() {
  auto specs = test::every_policy();
  std::erase_if(specs, [](const analysis::PolicySpec& spec) {
    return analysis::read_slots(spec).granularity == analysis::Slots::Granularity::kModel;
  });
  return specs;
}

class Completions : public ::testing::TestWithParam<Arithmetic> {
 protected:
  void SetUp() override { model_ = Model::load(folder_.save(), test::model_options(GetParam())); }

  CompletionRequest request(const Ids& ids, const analysis::PolicySpec& policy, std::int64_t budget) const {
    return {.prompt_ids = ids,
            .policy = policy,
            .budget = budget,
            .continuation = {.max_new_tokens = 5, .ignore_eos = true}};
  }

  // In the requests' order.
  std::vector<Completion> complete(const std::vector<CompletionRequest>& requests, std::int64_t block = 8) {
    std::vector<Completion> completions(requests.size());
    std::set<std::size_t> done;
    CaptureControl control;
    cost_ = complete_prompts(*model_, {block, 7, format_}, requests,
                             {control,
                              [&](std::size_t i, Completion completion) {
                                EXPECT_TRUE(done.insert(i).second) << "request " << i << " ended twice";
                                completions[i] = std::move(completion);
                              },
                              [&](const CompletionProgress& now) { progress_ = now; }});
    EXPECT_EQ(done.size(), requests.size());
    return completions;
  }

  // The slow, obvious reference: a capture of this prompt under this policy and nothing else.
  Ids alone(const CompletionRequest& request, std::int64_t block = 8) {
    CaptureOptions options;
    options.prompt_ids.assign(request.prompt_ids.begin(), request.prompt_ids.end());
    options.policies = {request.policy};
    options.budget = request.budget;
    options.block_size = block;
    options.generate = request.continuation.max_new_tokens;
    options.ignore_eos = request.continuation.ignore_eos;
    options.seed = 7;
    options.cache_formats = {format_};
    CaptureControl control;
    return run_capture(*model_, options, {}, control).front().generated;
  }

  test::RandomModel folder_;  // 4 query heads share 2 KV heads
  std::shared_ptr<const Model> model_;
  analysis::CacheFormat format_ = {};
  CompletionCost cost_;
  CompletionProgress progress_;
};

// Prompts that part in every way there is.
std::vector<Ids> kindred_prompts() {
  const Ids trunk = test::random_ids(50, 50);
  Ids other_end = trunk, other_middle = trunk, prefix(trunk.begin(), trunk.begin() + 32);
  other_end.back() = 4 + (other_end.back() - 3) % 46;
  other_middle[20] = 4 + (other_middle[20] - 3) % 46;
  const Ids off_the_boundary(trunk.begin(), trunk.begin() + 35),
      shorter_than_a_block(trunk.begin(), trunk.begin() + 3);
  return {trunk,
          trunk,
          other_end,
          other_middle,
          prefix,
          off_the_boundary,
          shorter_than_a_block,
          {9},
          test::random_ids(41, 50, 2)};
}

TEST_P(Completions, EveryPolicyGivesEveryPromptWhatItGetsAlone) {
  const auto prompts = kindred_prompts();
  std::vector<CompletionRequest> requests;
  auto policies = test::every_policy();
  std::ranges::copy(policies_of_files(), std::back_inserter(policies));
  for (const auto& policy : policies)
    for (const Ids& ids : prompts)
      for (const std::int64_t budget : {5, 20, 1000}) requests.push_back(request(ids, policy, budget));
  const auto completions = complete(requests);
  for (std::size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(completions[i].generated, alone(requests[i]))
        << requests[i].policy.name << ", budget " << requests[i].budget << ", prompt of "
        << requests[i].prompt_ids.size();
}

TEST_P(Completions, BlocksOfAnySizeAgreeWithTheCapture) {
  const auto prompts = kindred_prompts();
  for (const std::int64_t block : {1, 7, 50, 64}) {
    std::vector<CompletionRequest> requests;
    for (const char* policy : {"none", "keydiff", "h2o", "snapkv"})
      for (const Ids& ids : prompts) requests.push_back(request(ids, analysis::parse_policy(policy), 11));
    const auto completions = complete(requests, block);
    for (std::size_t i = 0; i < requests.size(); ++i)
      EXPECT_EQ(completions[i].generated, alone(requests[i], block)) << block << ", request " << i;
  }
}

// Policies rank rows that a sliding window drops; parting early must not matter.
TEST_P(Completions, SlidingWindowsChangeNothingOfThat) {
  folder_.config["model_type"] = "mistral";
  folder_.config["architectures"] = nlohmann::json::array({"MistralForCausalLM"});
  folder_.config["sliding_window"] = 12;
  model_ = Model::load(folder_.save(), test::model_options(GetParam()));
  ASSERT_EQ(model_->config().window(0), 12);
  std::vector<CompletionRequest> requests;
  const auto prompts = kindred_prompts();
  auto policies = every_policy_of_layers();
  std::ranges::copy(policies_of_files(), std::back_inserter(policies));
  for (const auto& policy : policies)
    for (const Ids& ids : prompts) requests.push_back(request(ids, policy, 10));
  const auto completions = complete(requests);
  for (std::size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(completions[i].generated, alone(requests[i])) << requests[i].policy.name << ", request " << i;
}

// A layer that borrows keys must part with them as its lender does, in every branch.
TEST_P(Completions, BorrowedKeysChangeNothingOfThat) {
  model_ = Model::load(test::inference_golden("tiny_gemma4"), test::model_options(GetParam()));
  auto prompts = kindred_prompts();
  for (Ids& ids : prompts)
    for (std::int32_t& id : ids) id %= 48;
  std::vector<CompletionRequest> requests;
  for (const auto& policy : every_policy_of_layers())
    for (const Ids& ids : prompts) requests.push_back(request(ids, policy, 10));
  const auto completions = complete(requests);
  for (std::size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(completions[i].generated, alone(requests[i])) << requests[i].policy.name << ", request " << i;
}

// Groups of keys that fill across a fork, and scales that the first block sets.
TEST_P(Completions, QuantisedCachesChangeNothingOfThat) {
  std::vector<CompletionRequest> requests;
  const auto prompts = kindred_prompts();
  for (const char* policy : {"none", "keydiff", "h2o", "sink", "random"})
    for (const Ids& ids : prompts) requests.push_back(request(ids, analysis::parse_policy(policy), 36));
  for (const auto& [dtype, scales] : {std::pair{"int4", "channel"}, {"int8", "token"}, {"fp8", "head"}}) {
    format_ = analysis::cache_format(dtype, scales);
    const auto completions = complete(requests);
    for (std::size_t i = 0; i < requests.size(); ++i)
      EXPECT_EQ(completions[i].generated, alone(requests[i])) << dtype << ", request " << i;
  }
}

TEST_P(Completions, WhatIsCommonIsRunOnce) {
  const Ids trunk = test::random_ids(32, 50);
  Ids longer = trunk;
  for (const std::int32_t id : test::random_ids(8, 50, 3)) longer.push_back(id);
  const auto none = analysis::parse_policy("none"), sink = analysis::parse_policy("sink"),
             tova = analysis::parse_policy("tova");
  std::vector<CompletionRequest> requests{request(trunk, none, 0), request(longer, none, 0),
                                          request(trunk, sink, 16), request(trunk, tova, 16)};
  for (auto& each : requests) each.continuation.max_new_tokens = 1;
  complete(requests);
  // Once: 32 of the trunk and 8 more under `none`; of the two that evict only what comes after the block,
  // tokens 16 to 23, after which they do.
  EXPECT_EQ(cost_.tokens_asked, 32 + 40 + 2 * 32);
  EXPECT_EQ(cost_.tokens_run, 32 + 8 + 2 * 8);
  EXPECT_EQ(progress_.tokens_done, progress_.tokens_total);
  EXPECT_EQ(progress_.tokens_total, 32 + 40 + 2 * 32);
  EXPECT_EQ(progress_.tokens_shared, cost_.tokens_asked - cost_.tokens_run);
}

TEST_P(Completions, EqualRequestsAreCompletedOnceAndOtherSeedsByThemselves) {
  const Ids ids = test::random_ids(16, 50);
  CompletionRequest greedy = request(ids, analysis::parse_policy("none"), 0), drawn = greedy, other = greedy;
  drawn.continuation.sampling = {.temperature = 5, .top_p = 1, .seed = 1};
  other.continuation.sampling = {.temperature = 5, .top_p = 1, .seed = 2};
  const auto completions = complete({greedy, greedy, drawn, other, drawn});
  EXPECT_EQ(cost_.tokens_run, 16 + 3 * 4);
  EXPECT_EQ(completions[0].generated, completions[1].generated);
  EXPECT_EQ(completions[2].generated, completions[4].generated);
  EXPECT_NE(completions[2].generated, completions[3].generated);
}

// ln p of every id by a softmax over the logits that a capture records.
std::vector<double> recorded_scores(const Model& model, const CompletionRequest& request,
                                    std::int64_t block) {
  CaptureOptions options;
  options.prompt_ids.assign(request.prompt_ids.begin(), request.prompt_ids.end());
  options.policies = {request.policy};
  options.budget = request.budget;
  options.block_size = block;
  options.record_logits = true;
  options.score_last = 1000;
  options.seed = 7;
  const auto logits = test::run_in_memory(model, options).recording->logits(0);
  std::vector<double> scores;
  for (std::size_t i = 1; i < request.prompt_ids.size(); ++i) {
    double sum = 0;
    const auto row = logits.row(static_cast<Eigen::Index>(i - 1)).cast<double>();
    for (const double logit : row) sum += std::exp(logit);
    scores.push_back(row(request.prompt_ids[i]) - std::log(sum));
  }
  return scores;
}

TEST_P(Completions, ScoresOfAPromptAreThoseOfARecordedCapture) {
  const auto prompts = kindred_prompts();
  std::vector<CompletionRequest> requests;
  for (const char* policy : {"none", "keydiff", "h2o"})
    for (const Ids& ids : prompts) {
      requests.push_back(request(ids, analysis::parse_policy(policy), 11));
      requests.back().continuation.max_new_tokens = 0;
      requests.back().score_from = 1 + static_cast<std::int64_t>(requests.size()) % 12;
    }
  const auto completions = complete(requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto expected = recorded_scores(*model_, requests[i], 8);
    const auto skipped =
        std::min<std::size_t>(expected.size(), static_cast<std::size_t>(*requests[i].score_from - 1));
    expected.erase(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(skipped));
    ASSERT_EQ(completions[i].log_probabilities.size(), expected.size()) << i;
    for (std::size_t at = 0; at < expected.size(); ++at)
      EXPECT_NEAR(completions[i].log_probabilities[at], expected[at], 2e-5) << i << ", " << at;
    EXPECT_TRUE(completions[i].generated.empty());
  }
}

// ln p of an id after a prompt by the logits that a capture records of its last token alone: the same product
// of a matrix and one row that the walk takes at a block's end, and therefore the same bits.
double recorded_score_after(const Model& model, CaptureOptions options, std::int32_t id) {
  options.record_logits = true;
  options.score_last = 1;
  const auto logits = test::run_in_memory(model, options).recording->logits(0);
  const auto row = logits.row(0).cast<double>();
  double sum = 0;
  for (const double logit : row) sum += std::exp(logit - row.maxCoeff());
  return row(id) - row.maxCoeff() - std::log(sum);
}

// Every policy evicts at least three times, the first time after a block that it has in common with all
// others, which want other statistics of its attention.
TEST_P(Completions, PoliciesThatShareABlockHaveTheBitsOfACaptureOfTheirOwn) {
  const Ids ids = test::random_ids(49, 50);
  std::vector<CompletionRequest> requests;
  for (const auto& policy : test::every_policy())
    for (const std::int64_t budget : {5, 20}) {
      requests.push_back(request(ids, policy, budget));
      requests.back().continuation.max_new_tokens = 0;
      requests.back().score_from = 48;
    }
  const auto completions = complete(requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    CaptureOptions options;
    options.prompt_ids.assign(ids.begin(), ids.end() - 1);
    options.policies = {requests[i].policy};
    options.budget = requests[i].budget;
    options.block_size = 8;
    options.schedule = Schedule::kBlock;
    options.seed = 7;
    ASSERT_EQ(completions[i].log_probabilities.size(), 1U);
    EXPECT_DOUBLE_EQ(completions[i].log_probabilities.front(),
                     recorded_score_after(*model_, options, ids.back()))
        << requests[i].policy.name << ", budget " << requests[i].budget;
  }
}

TEST_P(Completions, RowsKeptAreThoseAfterThePrompt) {
  const Ids ids = test::random_ids(40, 50);
  const auto completions = complete({request(ids, analysis::parse_policy("none"), 0),
                                     request(ids, analysis::parse_policy("keydiff"), 12),
                                     request(ids, analysis::parse_policy("l2norm:skip=1"), 12)});
  EXPECT_EQ(completions[0].rows_kept, 40);
  EXPECT_EQ(completions[1].rows_kept, 12);
  EXPECT_EQ(completions[2].rows_kept, (40 + 12) / 2.0);
}

TEST_P(Completions, AnEndOfSequenceEndsIt) {
  const Ids ids = test::random_ids(20, 50);
  const auto none = analysis::parse_policy("none");
  const Ids free = complete({request(ids, none, 0)}).front().generated;
  folder_.config["eos_token_id"] = free[2];
  model_ = Model::load(folder_.save(), test::model_options(GetParam()));
  auto ending = request(ids, none, 0);
  ending.continuation.ignore_eos = false;
  const auto completion = complete({ending}).front();
  EXPECT_EQ(completion.end, CompletionEnd::kEndOfSequence);
  EXPECT_EQ(completion.generated, alone(ending));
  EXPECT_EQ(progress_.tokens_done, progress_.tokens_total);
}

TEST_P(Completions, ACancelEndsItWithinABlock) {
  const Ids ids = test::random_ids(64, 50);
  CaptureControl control;
  int blocks = 0;
  const std::vector<CompletionRequest> requests{request(ids, analysis::parse_policy("none"), 0)};
  const CompletionWatch watch{control, [](std::size_t, const Completion&) { FAIL() << "nothing ends"; },
                              [&](const CompletionProgress&) {
                                if (++blocks == 3) control.cancel();
                              }};
  EXPECT_THROW(complete_prompts(*model_, {8, 0}, requests, watch), Cancelled);
  EXPECT_EQ(blocks, 3);
}

TEST_P(Completions, WhatCannotBeIsRefusedBeforeAnythingRuns) {
  const Ids ids = test::random_ids(10, 50), empty, outside{4, 50};
  const Ids too_long = test::random_ids(510, 50);
  const auto sink = analysis::parse_policy("sink");
  const auto refusal = [&](const CompletionRequest& bad) {
    CaptureControl control;
    const std::vector<CompletionRequest> requests{request(ids, sink, 4), bad};
    try {
      complete_prompts(*model_, {8, 0}, requests, {control, [](std::size_t, const Completion&) { FAIL(); }});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  EXPECT_THAT(refusal(request(empty, sink, 4)), HasSubstr("request 1: the prompt is empty"));
  EXPECT_THAT(refusal(request(outside, sink, 4)), HasSubstr("prompt token 1 is id 50"));
  EXPECT_THAT(refusal(request(too_long, sink, 4)), HasSubstr("510 tokens, 4 generated ones follow"));
  EXPECT_THAT(refusal(request(ids, sink, 0)), HasSubstr("budget of at least 1"));
  auto bad = request(ids, sink, 4);
  bad.continuation.stop_texts = {"\n"};
  EXPECT_THAT(refusal(bad), HasSubstr("no tokenizer.json"));
  bad = request(ids, sink, 4);
  bad.score_from = 0;
  EXPECT_THAT(refusal(bad), HasSubstr("scores from position 0"));
  bad = request(ids, sink, 4);
  bad.continuation.sampling.top_p = 0;
  EXPECT_THAT(refusal(bad), HasSubstr("top-p 0"));
}

INSTANTIATE_TEST_SUITE_P(Arithmetics, Completions, test::both_arithmetics(), test::arithmetic_name);

// Shares of 0.5, 0.3, 0.15 and 0.05.
std::vector<float> four_tokens() {
  std::vector<float> logits;
  for (const double share : {0.15, 0.5, 0.05, 0.3}) logits.push_back(static_cast<float>(std::log(share)));
  return logits;
}

std::map<std::int32_t, double> shares_of_draws(const Sampling& sampling, int n) {
  std::map<std::int32_t, double> shares;
  for (int draw = 0; draw < n; ++draw) shares[choose_token(four_tokens(), sampling, draw)] += 1.0 / n;
  return shares;
}

TEST(TokenChoice, WithoutATemperatureItIsTheLikeliestAndOfEqualOnesTheFirst) {
  EXPECT_EQ(choose_token(four_tokens(), {}, 0), 1);
  EXPECT_EQ(choose_token(std::vector<float>{1, 3, 3, 2}, {}, 5), 1);
}

TEST(TokenChoice, DrawsFollowTheSoftmax) {
  const auto shares = shares_of_draws({.temperature = 1, .top_p = 1, .seed = 4}, 20'000);
  EXPECT_NEAR(shares.at(1), 0.5, 0.015);
  EXPECT_NEAR(shares.at(3), 0.3, 0.015);
  EXPECT_NEAR(shares.at(0), 0.15, 0.015);
  EXPECT_NEAR(shares.at(2), 0.05, 0.01);
}

// At temperature 1/2 shares are squared: 0.25, 0.09, 0.0225, 0.0025 over their sum 0.365.
TEST(TokenChoice, ATemperatureSharpens) {
  const auto shares = shares_of_draws({.temperature = 0.5, .top_p = 1, .seed = 4}, 20'000);
  EXPECT_NEAR(shares.at(1), 0.25 / 0.365, 0.015);
  EXPECT_NEAR(shares.at(3), 0.09 / 0.365, 0.015);
}

// The two likeliest hold 0.8, which is enough for 0.6 and for 0.8, not for 0.81.
TEST(TokenChoice, OnlyTheNucleusIsDrawnFrom) {
  for (const double top_p : {0.6, 0.79}) {
    const auto shares = shares_of_draws({.temperature = 1, .top_p = top_p, .seed = 9}, 20'000);
    EXPECT_EQ(shares.size(), 2U) << top_p;
    EXPECT_NEAR(shares.at(1), 0.5 / 0.8, 0.015) << top_p;
  }
  EXPECT_EQ(shares_of_draws({.temperature = 1, .top_p = 0.81, .seed = 9}, 2'000).size(), 3U);
  EXPECT_EQ(shares_of_draws({.temperature = 1, .top_p = 0.3, .seed = 9}, 2'000).size(), 1U);
}

TEST(TokenChoice, ADrawDependsOnItsSeedAndNumberAlone) {
  const Sampling one{.temperature = 1, .top_p = 1, .seed = 1}, two{.temperature = 1, .top_p = 1, .seed = 2};
  int different = 0;
  for (int draw = 0; draw < 100; ++draw) {
    EXPECT_EQ(choose_token(four_tokens(), one, draw), choose_token(four_tokens(), one, draw));
    different += choose_token(four_tokens(), one, draw) != choose_token(four_tokens(), two, draw) ? 1 : 0;
  }
  EXPECT_GT(different, 30);
}

TEST(TokenChoice, WhatCannotBeIsRefused) {
  EXPECT_NO_THROW(check_sampling({.temperature = 0.95, .top_p = 0.95, .seed = 0}));
  for (const double temperature : {-1.0, std::numeric_limits<double>::infinity(), std::nan("")})
    EXPECT_THROW(check_sampling({.temperature = temperature, .top_p = 1, .seed = 0}), UsageError);
  for (const double top_p : {0.0, 1.5, std::nan("")})
    EXPECT_THROW(check_sampling({.temperature = 1, .top_p = top_p, .seed = 0}), UsageError);
}

}  // namespace

}  // namespace keyscope::capture
