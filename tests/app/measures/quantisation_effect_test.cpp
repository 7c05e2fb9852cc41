// What quantising a cache changes, measured on captures of a small model and once more by hand.

#include "app/measures/quantisation_effect.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/measures/recording_measures.hpp"
#include "tests/support/captured.hpp"

namespace keyscope::measures {
namespace {

using recording::Recording;

// Runs `none` and `keydiff`, then both with a cache of int4.
std::shared_ptr<Recording> captured(std::vector<analysis::CacheFormat> formats = {
                                        {}, analysis::cache_format("int4")}) {
  capture::CaptureOptions options = test::full_cache_options();
  options.policies = test::policies({"none", "keydiff"});
  options.budget = 36;
  options.cache_formats = std::move(formats);
  return test::run_in_memory(test::tiny_model(), options).recording;
}

TEST(QuantisationEffect, ARunIsComparedWithTheOneThatIsTheSameButForItsCache) {
  const auto info = captured()->info();
  EXPECT_EQ(unquantised_run(*info, 0), -1);
  EXPECT_EQ(unquantised_run(*info, 1), -1);
  EXPECT_EQ(unquantised_run(*info, 2), 0);
  EXPECT_EQ(unquantised_run(*info, 3), 1);
  recording::RecordingInfo other = *info;
  other.runs[1].plan.budget = 35;
  EXPECT_EQ(unquantised_run(other, 3), -1);
  other = *info;
  other.runs[0].n_tokens = 49;  // cut short
  EXPECT_EQ(unquantised_run(other, 2), -1);
}

TEST(QuantisationEffect, IsWhatItsDefinitionsSay) {
  const auto recording = captured();
  for (const int run : {2, 3})
    for (const int layer : {0, 1})
      for (const int head : {0, 1}) {
        const HeadMeasures found = measure_head(*recording, run, layer, head);
        const Eigen::MatrixXd keys = recording->keys(run, layer, head).cast<double>(),
                              others = recording->keys(run - 2, layer, head).cast<double>();
        EXPECT_NEAR(*found.quantised_key_error, (keys - others).norm() / others.norm(), 1e-12);
        double cosines = 0;
        for (Eigen::Index i = 0; i < keys.rows(); ++i)
          cosines += keys.row(i).normalized().dot(others.row(i).normalized());
        EXPECT_NEAR(*found.quantised_key_cosine, cosines / static_cast<double>(keys.rows()), 1e-12);
        EXPECT_GT(*found.quantised_key_error, 0.005);
        EXPECT_LT(*found.quantised_key_error, 0.2);
        EXPECT_LE(*found.quantised_score_spearman, 1);
        EXPECT_GT(*found.quantised_score_spearman, 0.8);

        const auto a = recording->trace(run, layer, head).attention_received,
                   b = recording->trace(run - 2, layer, head).attention_received;
        double moved = 0;  // every query's weights add up to one
        for (std::size_t i = 0; i < a.size(); ++i) moved += std::abs(a[i] - b[i]) / 50 / 2;
        EXPECT_NEAR(*found.quantised_attention_difference, moved, 1e-6);

        const std::vector<std::int32_t> kept = found.retained,
                                        before = measure_head(*recording, run - 2, layer, head).retained;
        std::vector<std::int32_t> both, either;
        std::ranges::set_intersection(kept, before, std::back_inserter(both));
        std::ranges::set_union(kept, before, std::back_inserter(either));
        EXPECT_DOUBLE_EQ(*found.quantised_retained_jaccard,
                         static_cast<double>(both.size()) / static_cast<double>(either.size()));
        if (run == 2) {
          EXPECT_EQ(*found.quantised_retained_jaccard, 1);
        }
        EXPECT_EQ(*found.held_bytes, std::ssize(kept) * 2 * 8 * 4);
        EXPECT_LT(*found.packed_bytes, *found.held_bytes);
      }
}

TEST(QuantisationEffect, IsOfQuantisedRunsAlone) {
  const auto recording = captured();
  const auto info = recording->info();
  const std::atomic<bool> cancelled = false;
  const auto runs = measure_recording(*recording, {}, Parts::all(), nullptr, cancelled);
  const auto json = measures_json(*info, runs);
  EXPECT_EQ(json["runs"][0]["cache_dtype"], "model");
  EXPECT_TRUE(json["runs"][0]["cache_scales"].is_null());
  EXPECT_EQ(json["runs"][3]["cache_dtype"], "int4");
  EXPECT_EQ(json["runs"][3]["cache_scales"], "channel");
  for (const char* field :
       {"quantised_key_error", "quantised_key_cosine", "quantised_score_spearman",
        "quantised_retained_jaccard", "quantised_attention_difference", "held_bytes", "packed_bytes"}) {
    EXPECT_TRUE(json["runs"][1]["heads"][0][field].is_null()) << field;
    EXPECT_TRUE(json["runs"][3]["heads"][0][field].is_number()) << field;
  }
}

// What is measured against the full cache is measured against the one in the model's dtype.
TEST(QuantisationEffect, TheFullCacheIsTheOneThatIsNotQuantised) {
  EXPECT_EQ(full_cache_run(*captured()->info()), 0);
  EXPECT_EQ(full_cache_run(*captured({analysis::cache_format("fp8"), {}})->info()), 2);
  EXPECT_EQ(
      full_cache_run(*captured({analysis::cache_format("fp8"), analysis::cache_format("int8")})->info()), 0);
}

TEST(QuantisationEffect, RecordingsSayWhatTheirCachesDifferBy) {
  const std::atomic<bool> cancelled = false;
  const auto difference = compare_recordings(
      *captured({analysis::CacheFormat{}}), *captured({analysis::cache_format("int8")}), {},
      [](std::int64_t, std::int64_t) {}, cancelled);
  EXPECT_EQ(std::ranges::count(difference.structure,
                               "run keydiff: cache of model against cache of int8 by channel"),
            1);
  EXPECT_FALSE(difference.agrees());
}

}  // namespace
}  // namespace keyscope::measures
