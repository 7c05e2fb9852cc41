#include "capture/inference/capture.hpp"

#include <array>
#include <atomic>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "tests/capture/inference/arithmetics.hpp"
#include "tests/support/captured.hpp"
#include "tests/support/random_model.hpp"

namespace keyscope::capture {

// What sinks receive of a capture, and how it ends.

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Keeps all it receives; throws from one block where a test wants that.
class NotingSink : public recording::RecordSink {
 public:
  void begin(std::shared_ptr<const recording::RecordPlan> begun) override {
    calls.push_back("begin");
    plan = std::move(begun);
  }
  void block(std::shared_ptr<const recording::BlockRecord> record) override {
    if (static_cast<int>(records.size()) == fails_at) throw std::runtime_error("the disk is full");
    calls.push_back("block");
    records.push_back(std::move(record));
  }
  void prompt_done(const recording::PromptResult& result) override {
    calls.push_back("prompt_done");
    prompts.push_back(result);
  }
  void run_done(int run, const recording::TokenText& text) override {
    calls.push_back("run_done " + std::to_string(run));
    generated.push_back(text);
  }
  void end(bool complete) override { calls.push_back(complete ? "end" : "end early"); }

  int fails_at = -1;
  std::vector<std::string> calls;
  std::shared_ptr<const recording::RecordPlan> plan;
  std::vector<std::shared_ptr<const recording::BlockRecord>> records;
  std::vector<recording::PromptResult> prompts;
  std::vector<recording::TokenText> generated;
};

class Capture : public ::testing::TestWithParam<Arithmetic> {
 protected:
  void SetUp() override {
    load();
    options_.prompt_ids = test::random_ids(10, 50);
    options_.policies = test::policies({"none"});
    options_.budget = 5;
    options_.block_size = 4;
    options_.ignore_eos = true;
  }

  void load() { model_ = Model::load(folder_.save(), test::model_options(GetParam())); }

  std::vector<RunOutcome> run(CaptureControl& control) {
    std::array<recording::RecordSink*, 2> sinks{&sink_, &second_};
    return run_capture(*model_, options_, sinks, control);
  }
  std::vector<RunOutcome> run() {
    CaptureControl control;
    return run(control);
  }

  test::RandomModel folder_;
  std::shared_ptr<const Model> model_;
  CaptureOptions options_;
  NotingSink sink_, second_;
};

TEST_P(Capture, TellsEverySinkInOrder) {
  options_.policies = test::policies({"none", "keydiff"});
  run();
  EXPECT_THAT(sink_.calls, ElementsAre("begin", "block", "block", "block", "prompt_done", "run_done 0",
                                       "block", "block", "block", "prompt_done", "run_done 1", "end"));
  EXPECT_EQ(second_.calls, sink_.calls);
  EXPECT_EQ(second_.records, sink_.records);
}

TEST_P(Capture, BlocksCoverThePromptAndEveryTokenThatIsFedBack) {
  options_.generate = 3;
  const auto outcomes = run();
  EXPECT_EQ(outcomes[0].generated.size(), 3U);
  ASSERT_EQ(sink_.records.size(), 5U);
  const std::vector<std::int32_t> starts{0, 4, 8, 10, 11}, sizes{4, 4, 2, 1, 1};
  for (std::size_t i = 0; i < 5; ++i) {
    const auto& record = *sink_.records[i];
    EXPECT_EQ(record.block, static_cast<std::int32_t>(i));
    EXPECT_EQ(record.start, starts[i]);
    EXPECT_EQ(record.n_new, sizes[i]);
    EXPECT_EQ(record.prompt, i < 3);
    EXPECT_GT(record.elapsed_ms, 0);
    ASSERT_EQ(record.layers.size(), 2U);
    for (const auto& layer : record.layers) {
      EXPECT_EQ(layer.keys.size(), static_cast<std::size_t>(2 * sizes[i] * 8));
      EXPECT_EQ(layer.queries.size(), static_cast<std::size_t>(4 * sizes[i] * 8));
      EXPECT_TRUE(layer.values.empty());
      EXPECT_EQ(layer.attention.empty(), i >= 3) << "attention is counted over prompt queries only";
    }
  }
}

TEST_P(Capture, BlocksTellWhatWasGeneratedFromThem) {
  options_.generate = 3;
  const auto generated = run()[0].generated;
  std::vector<std::int32_t> received;
  for (const auto& record : sink_.records) received.push_back(record->next_id);
  EXPECT_THAT(received, ElementsAre(-1, -1, generated[0], generated[1], generated[2]));
  EXPECT_EQ(sink_.generated[0].id, generated);
}

TEST_P(Capture, OneIdNeedsNoBlockOfItsOwn) {
  options_.generate = 1;
  const auto one = run()[0].generated;
  EXPECT_EQ(one.size(), 1U);
  EXPECT_EQ(sink_.records.size(), 3U);
  EXPECT_EQ(one[0], sink_.prompts[0].top_ids[0]);
  options_.generate = 0;
  EXPECT_TRUE(run()[0].generated.empty());
}

TEST_P(Capture, StopsAfterTheFirstEndOfTextIdAndKeepsIt) {
  options_.generate = 8;
  const auto all = run()[0].generated;
  ASSERT_EQ(all.size(), 8U);
  const std::int32_t stop = all[3];
  const auto first = std::find(all.begin(), all.end(), stop);
  folder_.config["eos_token_id"] = {49999, stop};
  load();
  options_.ignore_eos = false;
  sink_ = {};
  const auto stopped = run()[0].generated;
  EXPECT_EQ(stopped, std::vector<std::int32_t>(all.begin(), first + 1));
  EXPECT_EQ(sink_.records.size(), 3 + stopped.size() - 1);
  options_.ignore_eos = true;
  EXPECT_EQ(run()[0].generated, all);
}

TEST_P(Capture, LogitsOfTheLastPositionsMaySpanBlocks) {
  options_.record_logits = true;
  options_.score_last = 7;
  run();
  const auto in_blocks = sink_.prompts[0].logits;
  ASSERT_EQ(in_blocks.size(), 7U * 50U);
  options_.block_size = 64;
  sink_ = {};
  run();
  for (std::size_t i = 0; i < in_blocks.size(); ++i)
    ASSERT_NEAR(in_blocks[i], sink_.prompts[0].logits[i], 1e-3);
  const auto& top = sink_.prompts[0];
  ASSERT_EQ(top.top_ids.size(), 10U);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_NEAR(top.top_logits[i], top.logits[300 + top.top_ids[i]], 1e-4);
}

TEST_P(Capture, AVocabularyOfFewIdsHasFewTopLogits) {
  const test::RandomModel small({.vocab_size = 6});
  model_ = Model::load(small.save(), test::model_options(GetParam()));
  options_.prompt_ids = {4, 5, 0};
  run();
  EXPECT_EQ(sink_.prompts[0].top_ids.size(), 6U);
}

TEST_P(Capture, RecordsOnlyTheLayersThatAreAsked) {
  options_.policies = test::policies({"tova"});
  options_.layers = {1};
  run();
  for (const auto& record : sink_.records) {
    ASSERT_EQ(record->layers.size(), 1U);
    EXPECT_EQ(record->layers[0].layer, 1);
  }
  const auto one_layer = sink_.records.back()->layers[0].evictions;
  options_.layers = {};
  sink_ = {};
  run();
  EXPECT_EQ(sink_.records.back()->layers[1].evictions[0].position, one_layer[0].position);
}

TEST_P(Capture, AttentionOfEveryQueryIsOneInAll) {
  options_.policies = test::policies({"keydiff"});
  run();
  for (const auto& record : sink_.records)
    for (const auto& layer : record->layers)
      for (const auto& head : layer.attention) {
        double sum = 0;
        for (const double received : head.received) sum += received;
        EXPECT_NEAR(sum, record->n_new, 1e-5);
        EXPECT_EQ(head.last.empty(), record != sink_.records.back());
      }
}

TEST_P(Capture, ReportsItsProgress) {
  options_.policies = test::policies({"none", "sink"});
  options_.generate = 2;
  CaptureControl control;
  std::vector<CaptureProgress> seen;
  control.on_progress = [&](const CaptureProgress& progress) { seen.push_back(progress); };
  run(control);
  ASSERT_EQ(seen.size(), 8U);
  EXPECT_EQ(seen.front().run, "none");
  EXPECT_EQ(seen.front().tokens_done, 4);
  EXPECT_EQ(seen.back().run, "sink");
  EXPECT_EQ(seen.back().run_index, 1);
  EXPECT_EQ(seen.back().n_runs, 2);
  EXPECT_EQ(seen.back().block, 4);
  EXPECT_EQ(seen.back().n_blocks, 4);
  EXPECT_EQ(seen.back().tokens_done, 22);
  EXPECT_EQ(seen.back().tokens_total, 22);
}

TEST_P(Capture, IsCancelledWithinOneBlock) {
  CaptureControl control;
  control.on_progress = [&](const CaptureProgress& progress) {
    if (progress.block == 2) control.cancel();
  };
  EXPECT_THROW(run(control), Cancelled);
  EXPECT_THAT(sink_.calls, ElementsAre("begin", "block", "block", "end early"));
}

TEST_P(Capture, ASinkThatFailsEndsItForAll) {
  second_.fails_at = 1;
  EXPECT_THROW(run(), std::runtime_error);
  EXPECT_EQ(sink_.calls.back(), "end early");
  EXPECT_EQ(second_.calls.back(), "end early");
}

TEST_P(Capture, NothingBeginsWhereTheRequestIsWrong) {
  options_.prompt_ids.clear();
  EXPECT_THROW(run(), InvalidInput);
  EXPECT_TRUE(sink_.calls.empty());
}

TEST_P(Capture, SaysInWhichLayerANumberIsNotFinite) {
  folder_.tensors["model.layers.1.self_attn.k_proj.weight"].bytes.replace(0, 4, "\xFF\xFF\xFF\x7F", 4);
  load();
  try {
    run();
    FAIL() << "NaN went through";
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(HasSubstr("layer 1"), HasSubstr("keys"), HasSubstr("NaN")));
  }
  EXPECT_EQ(sink_.calls.back(), "end early");
}

// A device says so later, whether anybody records or not: no less, and before what comes of it.
TEST_P(Capture, SaysInWhichLayerWhateverCameOfIt) {
  folder_.tensors["model.layers.1.self_attn.k_proj.weight"].bytes.replace(0, 4, "\xFF\xFF\xFF\x7F", 4);
  load();
  const std::array<recording::RecordSink*, 1> one{&sink_};
  for (const std::string policy :
       {"none", "keydiff", "snapkv", "leverage", "random", "keydiff:split=pyramid"})
    for (const Schedule schedule : {Schedule::kBlock, Schedule::kLayer})
      for (const std::int64_t block : {1, 4, 1000})
        for (const bool recorded : {false, true}) {
          options_.policies = test::policies({policy});
          options_.budget = 3;
          options_.schedule = schedule;
          options_.block_size = block;
          const auto sinks = std::span(one).first(recorded ? 1 : 0);
          CaptureControl control;
          try {
            run_capture(*model_, options_, sinks, control);
            FAIL() << "NaN went through";
          } catch (const InvalidInput& error) {
            EXPECT_THAT(error.what(), ::testing::AllOf(HasSubstr("layer 1, tokens from 0"), HasSubstr("keys"),
                                                       HasSubstr("NaN")))
                << policy << ", blocks of " << block << (recorded ? ", recorded" : "");
          }
        }
}

TEST_P(Capture, SaysInWhichLayerWhereOnlyLaterOnesAreRecorded) {
  folder_.tensors["model.layers.0.self_attn.k_proj.weight"].bytes.replace(0, 4, "\xFF\xFF\xFF\x7F", 4);
  load();
  options_.policies = test::policies({"none"});
  options_.layers = {1};
  for (const Schedule schedule : {Schedule::kBlock, Schedule::kLayer}) {
    options_.schedule = schedule;
    try {
      run();
      FAIL() << "NaN went through";
    } catch (const InvalidInput& error) {
      EXPECT_THAT(error.what(), HasSubstr("layer 0, tokens from 0"));
    }
  }
}

// The last layer's MLP is seen by no attention.
TEST_P(Capture, SaysThatTheLogitsAreNotFinite) {
  folder_.tensors["model.layers.1.mlp.down_proj.weight"].bytes.replace(0, 4, "\xFF\xFF\xFF\x7F", 4);
  load();
  try {
    run();
    FAIL() << "NaN went through";
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), HasSubstr("logits"));
  }
}

TEST_P(Capture, AModelWithoutATokenizerHasIdsButNoTexts) {
  options_.generate = 2;
  run();
  EXPECT_EQ(sink_.plan->prompt.id, options_.prompt_ids);
  EXPECT_TRUE(sink_.plan->prompt.text.empty());
  EXPECT_EQ(sink_.generated[0].offset.size(), 3U);
}

// One id of the model is beyond its tokenizer, as in vocabularies that are padded to a round number.
TEST_P(Capture, IdsThatTheTokenizerDoesNotKnowHaveNoText) {
  nlohmann::json vocabulary;
  for (int i = 0; i < 40; ++i) vocabulary[std::string(1, static_cast<char>('0' + i))] = i;
  folder_.write(
      "tokenizer.json",
      json_text(nlohmann::json{
          {"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", nlohmann::json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
          {"post_processor", nullptr},
          {"decoder",
           {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}}));
  load();
  options_.prompt_ids = {17, 45, 18, 49};
  options_.generate = 12;
  run();
  EXPECT_EQ(sink_.plan->prompt.text, "AB");
  EXPECT_THAT(sink_.plan->prompt.offset, ElementsAre(0, 1, 1, 2, 2));
  EXPECT_EQ(sink_.generated[0].id.size(), 12U);
}

INSTANTIATE_TEST_SUITE_P(Arithmetics, Capture, test::both_arithmetics(), test::arithmetic_name);

TEST(CaptureControl, LetsBlocksPassUntilItIsPaused) {
  CaptureControl control;
  control.wait_for_turn();
  EXPECT_FALSE(control.paused());
  EXPECT_FALSE(control.cancelled());
}

TEST(CaptureControl, AStepLetsOneBlockPassAndResumeAll) {
  CaptureControl control;
  control.pause();
  EXPECT_TRUE(control.paused());
  std::atomic<int> passed = 0;
  std::thread worker([&] {
    for (int i = 0; i < 5; ++i) {
      control.wait_for_turn();
      ++passed;
    }
  });
  control.step();
  while (passed < 1) std::this_thread::yield();
  control.step();
  control.step();
  while (passed < 3) std::this_thread::yield();
  EXPECT_EQ(passed, 3);
  EXPECT_TRUE(control.paused());
  control.resume();
  worker.join();
  EXPECT_EQ(passed, 5);
}

TEST(CaptureControl, AStepBeforeAPauseIsNotKeptForIt) {
  CaptureControl control;
  control.step();
  control.pause();
  std::atomic<bool> passed = false;
  std::thread worker([&] {
    control.wait_for_turn();
    passed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(passed);
  control.resume();
  worker.join();
}

TEST(CaptureControl, CancelWakesWhoWaits) {
  CaptureControl control;
  control.pause();
  std::atomic<bool> cancelled = false;
  std::thread worker([&] {
    try {
      control.wait_for_turn();
    } catch (const Cancelled&) {
      cancelled = true;
    }
  });
  control.cancel();
  worker.join();
  EXPECT_TRUE(cancelled);
  EXPECT_TRUE(control.cancelled());
  EXPECT_THROW(control.wait_for_turn(), Cancelled);
}

}  // namespace

}  // namespace keyscope::capture
