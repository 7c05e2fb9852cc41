#include "app/evaluation/anatomy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/evaluation/anatomy_report.hpp"
#include "app/evaluation/niah.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "capture/inference/capture.hpp"
#include "tests/app/evaluation/made_results.hpp"
#include "tests/support/captured.hpp"

namespace keyscope::evaluation {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Two layers of two KV heads; a prompt of 10 tokens in blocks of 4; evidence at 1, 2 and at 6, of which 1 is
// no answer.
class AnatomyOf : public ::testing::Test {
 protected:
  void SetUp() override {
    config_.n_layers = 2;
    config_.n_kv_heads = 2;
    completion_.n_prompt = 10;
    completion_.generated = {5};
    completion_.text = "7";
    completion_.sizes = {{4, 4, 40}, {8, 6, 60}, {10, 6, 60}, {11, 6, 60}};
  }
  void lose(int layer, int head, std::int32_t position, std::int64_t n_read, std::int64_t rank = 7,
            float margin = 0.5F) {
    completion_.lost.push_back({.layer = layer,
                                .kv_head = head,
                                .position = position,
                                .n_read = n_read,
                                .rank = rank,
                                .n_rows = 8,
                                .margin = margin});
  }
  void lose_everywhere(std::int32_t position, std::int64_t n_read) {
    for (int layer = 0; layer < 2; ++layer)
      for (int head = 0; head < 2; ++head) lose(layer, head, position, n_read);
  }
  Anatomy anatomy() const { return anatomy_of(config_, evidence_, completion_, 4); }

  capture::ModelConfig config_;
  Evidence evidence_{{{1, 3}, {6, 7}}, {{2, 3}, {6, 7}}, TokenRange{8, 10}};
  capture::Completion completion_;
};

TEST_F(AnatomyOf, WhereNothingWentAllIsKept) {
  const Anatomy found = anatomy();
  ASSERT_TRUE(found.evidence && found.question);
  EXPECT_EQ(found.evidence->n_rows, 3);
  EXPECT_EQ(found.evidence->n_places, 2);
  EXPECT_EQ(found.evidence->gone_everywhere, 0);
  EXPECT_EQ(found.evidence->first, std::nullopt);
  ASSERT_EQ(found.evidence->layers.size(), 2U);
  EXPECT_EQ(found.evidence->layers[1].kept, 4);  // two heads, two places
  EXPECT_EQ(found.evidence->layers[1].rows_kept, 1);
  EXPECT_EQ(found.evidence->share(&LayerEvidence::kept), 1);
  EXPECT_EQ(found.question->rows_kept, 1);
  EXPECT_FALSE(found.empty);
  EXPECT_EQ(found.sizes, completion_.sizes);
}

TEST_F(AnatomyOf, PlacesAreKeptTornOrLostByHead) {
  lose(0, 0, 1, 8);
  lose(0, 0, 2, 10, 8, 1.5F);
  lose(0, 1, 2, 8, 6, 0.25F);
  const LayerEvidence layer = anatomy().evidence->layers[0];
  EXPECT_EQ(layer.kept, 2);  // the place at 6, in both
  EXPECT_EQ(layer.torn, 1);
  EXPECT_EQ(layer.lost, 1);
  EXPECT_DOUBLE_EQ(layer.rows_kept, 0.5);
  EXPECT_DOUBLE_EQ(*layer.rank_share, (7 + 8 + 6) / 24.0);
  EXPECT_DOUBLE_EQ(*layer.margin, 0.5);
  ASSERT_TRUE(layer.first);
  EXPECT_EQ(*layer.first,
            (FirstLoss{
                .layer = 0, .kv_head = 0, .position = 1, .block = 1, .rank = 7, .n_rows = 8, .margin = 0.5}));
  EXPECT_EQ(anatomy().evidence->first, layer.first);
  EXPECT_EQ(anatomy().evidence->layers[1].kept, 4);
}

TEST_F(AnatomyOf, GoneEverywhereIsInNoHeadOfAnyLayer) {
  lose_everywhere(1, 8);
  lose(0, 0, 6, 8);
  EXPECT_EQ(anatomy().evidence->gone_everywhere, 0);
  lose_everywhere(2, 8);
  EXPECT_EQ(anatomy().evidence->gone_everywhere, 0.5);
  for (int layer = 0; layer < 2; ++layer)  // while it answers
    for (int head = 0; head < 2; ++head)
      if (layer + head > 0) lose(layer, head, 6, 11);
  EXPECT_EQ(anatomy().evidence->gone_everywhere, 0.5);
  EXPECT_EQ(anatomy().evidence->gone_at_end, 1);
  EXPECT_EQ(anatomy().evidence->layers[0].lost, 3);
}

TEST_F(AnatomyOf, BlocksAfterThePromptAreATokenEach) {
  lose(1, 1, 6, 11);
  EXPECT_EQ(anatomy().evidence->first->block, 3);  // 0, 1, 2 are the prompt's
}

// What a window leaves behind is not the policy's doing.
TEST_F(AnatomyOf, RowsBehindAWindowDoNotCount) {
  config_.layer_windows = {4, 0};  // at the prompt's end the first layer sees from 7 on
  for (int head = 0; head < 2; ++head)
    for (const std::int32_t position : {1, 2, 6})
      completion_.lost.push_back(
          {.layer = 0, .kv_head = head, .position = position, .n_read = 10, .past_window = true});
  Anatomy found = anatomy();
  EXPECT_EQ(found.evidence->first, std::nullopt);
  ASSERT_EQ(found.evidence->layers.size(), 1U);
  EXPECT_EQ(found.evidence->layers[0].layer, 1);
  EXPECT_EQ(found.evidence->gone_everywhere, 0);
  EXPECT_EQ(found.question->rows_kept, 1);
  config_.layer_windows = {4, 4};
  found = anatomy();
  EXPECT_TRUE(found.evidence->layers.empty());
  EXPECT_EQ(found.evidence->gone_everywhere, std::nullopt);
}

// Nor is what a policy evicted that the window would have passed by the prompt's end.
TEST_F(AnatomyOf, RowsEvictedBeforeAWindowPassedThemDoNotCount) {
  config_.layer_windows = {6, 0};  // at the prompt's end the first layer sees from 5 on
  lose(0, 0, 1, 4);
  EXPECT_EQ(anatomy().evidence->first, std::nullopt);
  EXPECT_EQ(anatomy().evidence->layers[0].rank_share, std::nullopt);
  lose(0, 0, 6, 8);
  ASSERT_TRUE(anatomy().evidence->first);
  EXPECT_EQ(anatomy().evidence->first->position, 6);
  EXPECT_EQ(anatomy().evidence->layers[0].first, anatomy().evidence->first);
  EXPECT_EQ(anatomy().evidence->layers[0].lost, 1);
}

TEST_F(AnatomyOf, LayersWithoutKeysHoldNothing) {
  config_.layer_attends = {false, true};
  ASSERT_EQ(anatomy().evidence->layers.size(), 1U);
  EXPECT_EQ(anatomy().evidence->layers[0].layer, 1);
}

TEST_F(AnatomyOf, EmptyAnswersAreThoseOfWhiteSpace) {
  completion_.text = " \n";
  EXPECT_TRUE(anatomy().empty);
  completion_.generated.clear();  // nothing was asked for
  EXPECT_FALSE(anatomy().empty);
}

TEST_F(AnatomyOf, SizesAreThinnedButForTheEnds) {
  completion_.sizes.clear();
  completion_.n_prompt = 777;
  for (std::int64_t n = 1; n <= 1000; ++n) completion_.sizes.push_back({n, static_cast<double>(n), n});
  const auto sizes = anatomy().sizes;
  EXPECT_LE(sizes.size(), kMostSizes);
  EXPECT_GE(sizes.size(), kMostSizes - 1);
  EXPECT_EQ(sizes.front().n_read, 1);
  EXPECT_EQ(sizes.back().n_read, 1000);
  EXPECT_EQ(std::ranges::count(sizes, 777, &capture::CacheSize::n_read), 1);
  EXPECT_TRUE(std::ranges::is_sorted(sizes, {}, &capture::CacheSize::n_read));
}

TEST_F(AnatomyOf, ReadsBackAsItWasWritten) {
  lose(0, 0, 1, 8, 7, 0.1F);
  lose(0, 1, 1, 8, 0, std::numeric_limits<float>::quiet_NaN());
  for (const bool known : {true, false}) {
    if (!known) evidence_ = {};
    const Anatomy found = anatomy();
    EXPECT_EQ(parse_anatomy(parse_json(anatomy_json(found).dump()), "here"), found);
  }
}

TEST_F(AnatomyOf, DamageIsNamed) {
  const nlohmann::json sound = parse_json(anatomy_json(anatomy()).dump());
  const auto refusal = [&](const nlohmann::json::json_pointer& at, const nlohmann::json& value) {
    nlohmann::json damaged = sound;
    damaged[at] = value;
    try {
      parse_anatomy(damaged, "examples.jsonl, line 3");
    } catch (const FileError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  using nlohmann::literals::operator""_json_pointer;
  EXPECT_THAT(refusal("/empty"_json_pointer, 1), HasSubstr("examples.jsonl, line 3"));
  EXPECT_THAT(refusal("/evidence/layers/0/kept"_json_pointer, "four"), HasSubstr("kept"));
  EXPECT_THAT(refusal("/evidence/rows"_json_pointer, -1), HasSubstr("rows"));
  EXPECT_THAT(refusal("/cache/rows"_json_pointer, nlohmann::json::array()), HasSubstr("0 entries"));
  EXPECT_THAT(refusal("/question"_json_pointer, 3), HasSubstr("question"));
}

// The slow, obvious reference: what a capture of the same prompt records of every row.
TEST(AnatomyOfAnEvaluation, IsWhatRecordingsSay) {
  Settings settings;
  settings.task = "niah";
  settings.policies = parse_policies({"keydiff", "snapkv", "sink"});
  settings.budgets = parse_budgets({"25%"});
  settings.blocks = {32};
  NiahTask task;
  task.lengths = {200};
  task.depths = {10, 60};
  const auto examples = niah_examples(task, 1, demo_model()->config(), *demo_model()->tokenizer()).examples;
  const Evaluation evaluation = evaluate_demo(settings, examples, score_lookup);
  const auto grid = grid_of(settings);
  for (std::size_t i = 0; i < evaluation.results.size(); ++i) {
    const Example& example = examples[i / grid.size()];
    const GridPoint& point = grid[i % grid.size()];
    const Anatomy& anatomy = evaluation.results[i].anatomy;
    capture::CaptureOptions options;
    options.prompt_ids = example.prompt_ids;
    options.policies = {point.spec};
    options.budget = point.rows_for(std::ssize(example.prompt_ids));
    options.block_size = 32;
    const auto recording = test::run_in_memory(*demo_model(), options).recording;
    const auto& model = demo_model()->config();
    std::map<std::int64_t, std::int64_t> holders, answers;  // KV heads that have a row, by position
    std::int64_t n_rows = 0, n_question = 0;
    for (int layer = 0; layer < model.n_layers; ++layer)
      for (int head = 0; head < model.n_kv_heads; ++head) {
        const auto trace = recording->trace(0, layer, head);
        for (const TokenRange& place : example.evidence.places)
          for (std::int64_t row = place.first; row < place.end; ++row) {
            holders[row] += trace.evicted_at[row] < 0 ? 1 : 0;
            ++n_rows;
          }
        for (const TokenRange& answer : example.evidence.answers)
          for (std::int64_t row = answer.first; row < answer.end; ++row)
            answers[row] += trace.evicted_at[row] < 0 ? 1 : 0;
        for (std::int64_t row = example.evidence.question->first; row < example.evidence.question->end; ++row)
          n_question += trace.evicted_at[row] < 0 ? 1 : 0;
      }
    ASSERT_TRUE(anatomy.evidence) << example.id;
    const auto n_gone = std::ranges::count(answers, 0, [](const auto& entry) { return entry.second; });
    EXPECT_DOUBLE_EQ(*anatomy.evidence->gone_everywhere,
                     static_cast<double>(n_gone) / static_cast<double>(answers.size()))
        << point.policy;
    double kept = 0;
    for (const LayerEvidence& layer : anatomy.evidence->layers)
      kept += layer.rows_kept / static_cast<double>(anatomy.evidence->layers.size());
    std::int64_t n_kept = 0;
    for (const auto& [row, n] : holders) n_kept += n;
    EXPECT_NEAR(kept, static_cast<double>(n_kept) / static_cast<double>(n_rows), 1e-12) << point.policy;
    EXPECT_NEAR(*anatomy.question->rows_kept,
                static_cast<double>(n_question) / (static_cast<double>(example.evidence.question->size()) *
                                                   model.n_layers * model.n_kv_heads),
                1e-12);
    EXPECT_EQ(anatomy.evidence->first.has_value(), kept < 1 || anatomy.evidence->gone_at_end > 0);
    if (const auto& first = anatomy.evidence->first; first && first->block * 32 < 200) {
      EXPECT_EQ(recording->trace(0, first->layer, first->kv_head).evicted_at[first->position], first->block);
    }
  }
}

// Three examples under the full cache and keydiff: one as good with all of its evidence, one worse without,
// one worse of which nothing is known.
class AnatomySummaries : public ::testing::Test {
 protected:
  void SetUp() override {
    settings_ = made_settings();
    settings_.budgets = parse_budgets({"10"});
    settings_.blocks = {4};
    grid_ = grid_of(settings_);
    results_ = made_results(3, grid_, [](std::size_t example, const GridPoint& point) {
      return Scores{{"recall", point.evicts() && example > 0 ? 0.0 : 1.0}};
    });
    for (std::size_t example = 0; example < 2; ++example)
      for (std::size_t point = 0; point < 2; ++point) {
        const bool lost = example == 1 && point == 1;
        EvidenceFate fate{
            .n_places = 1, .n_rows = 2, .n_answer_rows = 1, .gone_everywhere = lost ? 0.5 : 0.0};
        fate.layers = {{.layer = 0,
                        .kept = lost ? 0 : 2,
                        .torn = lost ? 1 : 0,
                        .lost = lost ? 1 : 0,
                        .rows_kept = lost ? 0.25 : 1},
                       {.layer = 1, .kept = 2, .rows_kept = 1}};
        Anatomy& anatomy = results_[example * 2 + point].anatomy;
        anatomy.evidence = fate;
        anatomy.question = QuestionFate{3, lost ? 0.5 : 1};
        anatomy.sizes = {{4, 4, 40}, {8, 4, 40}};
        anatomy.empty = lost;
      }
  }

  Settings settings_;
  std::vector<GridPoint> grid_;
  std::vector<ExampleResult> results_;
};

TEST_F(AnatomySummaries, CountAnswersByWhatWasLeft) {
  const ScoreTable table(results_, grid_);
  const auto summaries = anatomy_summaries(table, 0);
  ASSERT_EQ(summaries.size(), 2U);
  const AnatomySummary& summary = summaries[1];
  EXPECT_EQ(summary.n, 3);
  EXPECT_EQ(summary.n_known, 2);
  EXPECT_DOUBLE_EQ(summary.budget_share, 0.25);
  EXPECT_DOUBLE_EQ(summary.gone_everywhere.mean, 0.25);
  EXPECT_DOUBLE_EQ(summary.kept, 0.75);  // of 1 and 1/2
  EXPECT_DOUBLE_EQ(summary.torn, 0.125);
  EXPECT_DOUBLE_EQ(summary.lost, 0.125);
  EXPECT_DOUBLE_EQ(summary.question_kept.mean, 0.75);
  EXPECT_EQ(summary.n_empty, 1);
  EXPECT_EQ(summary.worse.n, 2);
  EXPECT_EQ(summary.worse.gone, 1);
  EXPECT_EQ(summary.worse.whole, 0);
  EXPECT_EQ(summary.worse.empty, 1);
  EXPECT_EQ(summary.others.n, 1);
  EXPECT_EQ(summary.others.whole, 1);
  EXPECT_EQ(summary.layer_kept.size(), 2U);
  EXPECT_THAT(summary.layer_kept[0], ElementsAre(1, 0.25));
  const auto json = anatomies_json(table, summaries);
  EXPECT_EQ(json[1]["worse_than_full"]["evidence_gone"], 1);
  EXPECT_EQ(json[1]["global_eviction_ratio"], 0.25);
  EXPECT_EQ(json[0]["evidence_kept"], 1);
}

TEST_F(AnatomySummaries, TheTableSaysOfHowManyItKnows) {
  const ScoreTable table(results_, grid_);
  const std::string text = anatomy_table(table, anatomy_summaries(table, 0));
  EXPECT_THAT(text, HasSubstr("keydiff"));
  EXPECT_THAT(text, HasSubstr("2 of 3 examples"));
  EXPECT_THAT(text, Not(HasSubstr("none")));
}

TEST_F(AnatomySummaries, WithoutEvidenceThereAreDashesAndEmptyAnswers) {
  for (ExampleResult& result : results_) result.anatomy.evidence.reset();
  const ScoreTable table(results_, grid_);
  const auto summaries = anatomy_summaries(table, 0);
  EXPECT_TRUE(std::isnan(summaries[1].gone_everywhere.mean));
  EXPECT_TRUE(anatomies_json(table, summaries)[1]["global_eviction_ratio"].is_null());
  EXPECT_THAT(anatomy_table(table, summaries), HasSubstr("–"));
  const auto figure = anatomy_figure(table, summaries, settings_, "Made.");
  ASSERT_EQ(figure.panels.size(), 3U);
  EXPECT_EQ(figure.panels[1].id, "empty");
}

TEST_F(AnatomySummaries, WhereNothingEvictsThereIsNoTable) {
  settings_.policies.clear();
  grid_ = grid_of(settings_);
  results_ = made_results(2, grid_, [](std::size_t, const GridPoint&) { return Scores{{"recall", 1}}; });
  const ScoreTable table(results_, grid_);
  EXPECT_EQ(anatomy_table(table, anatomy_summaries(table, 0)), "");
}

}  // namespace
}  // namespace keyscope::evaluation
