#include "analysis/policies/slots.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/layer_budgets.hpp"
#include "analysis/policies/registry.hpp"
#include "analysis/splitmix.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

Slots slots_of(const std::string& options) { return read_slots(parse_policy("keydiff:" + options)); }

TEST(Slots, AreReadOfEveryScorer) {
  for (const auto& entry : registered_policies()) {
    if (entry.name == "none") continue;
    const std::string alone = entry.required.empty() ? entry.name + ":" : entry.name + ":file=f.json,";
    const auto policy =
        make_policy(parse_policy(alone + "protect=sinks:4+recent:0.1+boundaries:20%,granularity=page:16"), 0);
    const Slots& slots = policy->slots();
    EXPECT_EQ(slots.protect.sinks, 4);
    EXPECT_EQ(slots.protect.recent.share, 0.1);
    EXPECT_EQ(slots.protect.boundaries, 0.2);
    EXPECT_EQ(slots.granularity, Slots::Granularity::kPage);
    EXPECT_EQ(slots.page_rows, 16);
    EXPECT_FALSE(slots.neutral());
    EXPECT_TRUE(make_policy(parse_policy(alone + "granularity=head"), 0)->slots().neutral());
  }
}

TEST(Slots, MayBeWrittenWithEqualsSigns) {
  const Slots slots = slots_of("protect=sinks=4+recent=64,granularity=page=8");
  EXPECT_EQ(slots.protect.sinks, 4);
  EXPECT_EQ(slots.protect.recent.rows, 64);
  EXPECT_EQ(slots.page_rows, 8);
}

TEST(Slots, RefusalsNameWhatIsAccepted) {
  const auto expect = [](const char* options, const char* found, const char* accepted) {
    EXPECT_THAT([&] { slots_of(options); },
                ThrowsMessage<UsageError>(AllOf(HasSubstr(found), HasSubstr(accepted))))
        << options;
  };
  for (const char* text :
       {"protect=", "protect=sinks", "protect=sinks:", "protect=sinks:-1", "protect=sinks:4+",
        "protect=recent:1.5", "protect=recent:10rows", "protect=boundaries:64", "protect=boundaries:1.1",
        "protect=none+sinks:4", "protect=first:4", "protect=sinks:4+sinks:8"})
    expect(text, text, "sinks:K, recent:R and boundaries:p, each once");
  for (const char* text : {"granularity=", "granularity=page", "granularity=page:0", "granularity=page:x",
                           "granularity=heads", "granularity=layer:2"})
    expect(text, text, "head, layer, page:ROWS, model");
  for (const char* text : {"split=", "split=even", "split=file", "split=file:", "split=adakv:2",
                           "split=cake:1", "split=cake:0/1", "split=cake:1/-1", "split=cake:1/x"})
    expect(text, text, "uniform, adakv, pyramid, cake, cake:TAU1/TAU2, file:PATH");
  for (const char* text : {"critical=", "critical=yes", "critical=on:2"})
    expect(text, text, "off, on, shift");
  expect("granularity=layer,split=adakv", "granularity=layer", "granularity=head");
  expect("granularity=model,split=pyramid", "split=pyramid", "split=uniform");
  expect("granularity=model,split=cake", "split=cake", "split=uniform");
  EXPECT_THROW(parse_policy("none:protect=sinks:4"), UsageError);
}

TEST(Slots, CakesTemperaturesMayBeGiven) {
  EXPECT_EQ(slots_of("split=cake").cake.spatial, 1.6);
  EXPECT_EQ(slots_of("split=cake").cake.temporal, 0.4);
  EXPECT_EQ(slots_of("split=cake:1.2/0.6").cake.spatial, 1.2);
  EXPECT_EQ(slots_of("split=cake:1.2/0.6").cake.temporal, 0.6);
  const LayerPreference preference{.dispersion = 4, .shift = 0.25};
  EXPECT_DOUBLE_EQ(preference.log_share({2, 0.5}), std::log(2 * 0.0625));
  EXPECT_EQ(LayerPreference().log_share({}), -std::numeric_limits<double>::infinity());
}

// What layers hold less than they are given goes to the others, and no row of the budget is left over.
TEST(Slots, CakeDealsOutWhatLayersHold) {
  using Numbers = std::vector<std::int64_t>;
  const auto deal = [](std::vector<double> shares, std::int64_t budget, std::int64_t w, const Numbers& held,
                       std::int64_t unit = 1) {
    for (double& share : shares) share = std::log(share);
    return cake_budgets(shares, budget, w, held, unit);
  };
  EXPECT_EQ(deal({0, 0, 0}, 10, 0, {20, 20, 20}), (Numbers{10, 10, 10}));
  EXPECT_EQ(deal({3, 1, 0}, 10, 0, {90, 90, 90}), (Numbers{21, 8, 1}));
  EXPECT_EQ(deal({3, 1, 0}, 10, 4, {90, 90, 90}), (Numbers{18, 8, 4}));  // 13.5 and 4.5: the first has more
  EXPECT_EQ(deal({3, 1, 0}, 10, 0, {12, 90, 90}), (Numbers{12, 17, 1}));
  EXPECT_EQ(deal({3, 1, 0}, 10, 0, {12, 5, 90}), (Numbers{12, 5, 13}));  // what nobody asked for
  EXPECT_EQ(deal({3, 1, 0}, 10, 8, {4, 90, 90}), (Numbers{4, 18, 8}));   // fewer than are protected
  EXPECT_EQ(deal({1, 1}, 5, 9, {9, 9}), (Numbers{5, 5}));
  EXPECT_EQ(deal({3, 1, 0}, 40, 5, {90, 90, 90}, 16), (Numbers{48, 32, 16}));  // of two pages each
  EXPECT_EQ(deal({3, 1, 0}, 16, 0, {90, 90, 90}, 16), (Numbers{16, 16, 16}));  // of one, none is left over
  const std::vector<double> large{2000, 2000 + std::log(3.0), -2000};  // e to their powers is no number
  EXPECT_EQ(cake_budgets(large, 20, 0, Numbers{90, 90, 90}), (Numbers{15, 44, 1}));
  std::uint64_t state = 5;
  for (int i = 0; i < 2000; ++i) {
    const auto next = [&](std::int64_t n) { return static_cast<std::int64_t>(splitmix(++state) % n); };
    std::vector<double> shares;
    Numbers held;
    const std::int64_t n_layers = 1 + next(6), budget = 1 + next(30);
    for (std::int64_t layer = 0; layer < n_layers; ++layer) {
      shares.push_back(next(3) == 0 ? 0 : static_cast<double>(next(1000)) / 7);
      held.push_back(1 + next(60));
    }
    const Numbers dealt = deal(shares, budget, next(8), held);
    EXPECT_EQ(std::reduce(dealt.begin(), dealt.end()),
              std::min(n_layers * budget, std::reduce(held.begin(), held.end())));
    for (std::int64_t layer = 0; layer < n_layers; ++layer) {
      EXPECT_GE(dealt[layer], 1);
      EXPECT_LE(dealt[layer], held[layer]);
    }
  }
}

TEST(Slots, WeightsAreDealtOutWhole) {
  const std::vector<double> even{1, 1, 1}, steep{1, 1000, 1}, thirds{1, 2, 3};
  EXPECT_THAT(dealt_out(even, 5), ElementsAre(5, 5, 5));
  EXPECT_THAT(dealt_out(steep, 5), ElementsAre(1, 13, 1));
  EXPECT_THAT(dealt_out(thirds, 4), ElementsAre(2, 4, 6));
  // Of an infinite sum nobody would have a share.
  const std::vector<double> huge{1e308, 1.5e308, 0.5e308}, apart{5e-324, 1.7e308};
  EXPECT_THAT(dealt_out(huge, 100), ElementsAre(100, 150, 50));
  EXPECT_THAT(dealt_out(apart, 8), ElementsAre(1, 15));
}

}  // namespace
}  // namespace keyscope::analysis
