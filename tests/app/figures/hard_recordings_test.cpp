// What figures and measures make of recordings of numbers that no model should give: docs/numbers.md.

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/figures/catalogue.hpp"
#include "app/measures/head_measures.hpp"
#include "app/measures/recording_measures.hpp"
#include "app/measures/token_story.hpp"
#include "app/measures/what_if.hpp"
#include "tests/support/fake_recording.hpp"
#include "tests/support/numbers_page.hpp"

namespace keyscope::figures {
namespace {

constexpr float kNotOne = std::numeric_limits<float>::quiet_NaN(),
                kBeyond = std::numeric_limits<float>::infinity();

// A recording of one layer with one KV head, in which the attention that tokens received can be changed, too.
class HardRecording : public FakeRecording {
 public:
  explicit HardRecording(std::int64_t n_tokens = 40) : FakeRecording(1, 2, 1, 4, n_tokens, 8) {
    add_run("none", 0);
    add_run("keydiff", 12);
    add_run("sink", 12);
    fill(3);
    edit_info().values = true;
  }

  void keys(const std::function<void(RowMatrixF&)>& change) {
    for (int run = 0; run < 3; ++run) change(keys_of(run, 0, 0));
  }
  void queries(const std::function<void(RowMatrixF&)>& change) {
    for (int run = 0; run < 3; ++run) change(queries_of(run, 0, 1));
  }
  void numbers(const std::function<void(RowMatrixF&)>& change) {
    keys(change);
    for (int run = 0; run < 3; ++run)
      for (const int head : {0, 1}) change(queries_of(run, 0, head));
  }
  std::function<void(std::vector<double>&)> received = [](std::vector<double>&) {};

  using FakeRecording::keys;
  using FakeRecording::queries;
  recording::HeadTrace trace(int run, int layer, int kv_head) const override {
    recording::HeadTrace trace = FakeRecording::trace(run, layer, kv_head);
    std::vector<double> changed(trace.attention_received.begin(), trace.attention_received.end());
    received(changed);
    trace.attention_received.assign(changed.begin(), changed.end());
    return trace;
  }
};

struct HardKind {
  std::string name;
  std::function<void(HardRecording&)> make;
  std::int64_t n_tokens = 40;
};

HardKind times(const std::string& name, float factor) {
  return {name, [factor](HardRecording& made) { made.numbers([&](RowMatrixF& rows) { rows *= factor; }); }};
}

HardKind attention_of(const std::string& name, double number) {
  return {name, [number](HardRecording& made) {
            made.received = [=](std::vector<double>& all) { all[2] = number; };
          }};
}

const std::vector<HardKind>& hard_kinds() {
  static const std::vector<HardKind> kKinds{
      {"NaN in a key",
       [](HardRecording& made) { made.keys([](RowMatrixF& rows) { rows(0, 1) = kNotOne; }); }},
      {"+Inf in a key",
       [](HardRecording& made) { made.keys([](RowMatrixF& rows) { rows(0, 1) = kBeyond; }); }},
      {"-Inf in a key",
       [](HardRecording& made) { made.keys([](RowMatrixF& rows) { rows(0, 1) = -kBeyond; }); }},
      {"NaN in the last query",
       [](HardRecording& made) {
         made.queries([](RowMatrixF& rows) { rows(rows.rows() - 1, 1) = kNotOne; });
       }},
      {"+Inf in the last query",
       [](HardRecording& made) {
         made.queries([](RowMatrixF& rows) { rows(rows.rows() - 1, 1) = kBeyond; });
       }},
      {"zeros throughout",
       [](HardRecording& made) { made.numbers([](RowMatrixF& rows) { rows.setZero(); }); }},
      {"a key of zeros",
       [](HardRecording& made) { made.keys([](RowMatrixF& rows) { rows.row(3).setZero(); }); }},
      {"equal keys",
       [](HardRecording& made) {
         made.keys([](RowMatrixF& rows) { rows.rowwise() = RowMatrixF(rows.row(0)).row(0); });
       }},
      times("numbers of 1e30", 1e30F),
      times("numbers of 1e37", 1e37F),
      times("numbers of 1e-30", 1e-30F),
      times("denormals (1e-42)", 1e-42F),
      {"one token", [](HardRecording&) {}, 1},
      {"two tokens", [](HardRecording&) {}, 2},
      attention_of("NaN as attention received", std::numeric_limits<double>::quiet_NaN()),
      attention_of("+Inf as attention received", std::numeric_limits<double>::infinity()),
      {"equal attention received",
       [](HardRecording& made) {
         made.received = [](std::vector<double>& all) { all.assign(all.size(), 1); };
       }},
      {"no attention received", [](HardRecording& made) {
         made.received = [](std::vector<double>& all) { all.assign(all.size(), 0); };
       }}};
  return kKinds;
}

void make(const HardKind& kind, const std::function<void(const HardRecording&)>& look) {
  HardRecording recording(kind.n_tokens);
  kind.make(recording);
  look(recording);
}

void expect_no_infinity(const Figure& figure, const std::string& what) {
  const auto check = [&](const auto& numbers, const std::string& id) {
    for (const float number : numbers) EXPECT_FALSE(std::isinf(number)) << what << ", " << id;
  };
  for (const Panel& panel : figure.panels) {
    for (const PointSeries& points : panel.points)
      for (const auto* numbers : {&points.x, &points.y, &points.z, &points.value}) check(*numbers, points.id);
    for (const LineSeries& line : panel.lines)
      for (const auto* numbers : {&line.x, &line.y}) check(*numbers, line.id);
    if (panel.heatmap)
      check(std::span(panel.heatmap->values.data(), panel.heatmap->values.size()), panel.heatmap->id);
    for (const double ratio : panel.explained_variance) EXPECT_FALSE(std::isinf(ratio)) << what;
  }
}

TEST(HardRecordings, EveryFigureIsDrawnOrRefusedAsThePageSays) {
  auto page = numbers_page("Figures");
  std::vector<std::string> names;
  for (const std::string_view name : figure_names()) {
    FigureRequest request;
    request.name = name;
    const HardRecording sound;
    if (is_recorded(*sound.info(), name) && refusal([&] { build_figure(sound, request); }).empty())
      names.emplace_back(name);
  }
  EXPECT_GT(names.size(), 15U);
  for (const HardKind& kind : hard_kinds())
    make(kind, [&](const HardRecording& recording) {
      std::vector<std::string> refusing;
      for (const std::string& name : names) {
        FigureRequest request;
        request.name = name;
        const std::string sentence =
            refusal([&] { expect_no_infinity(build_figure(recording, request), kind.name + ", " + name); });
        if (!sentence.empty()) refusing.push_back(name);
      }
      EXPECT_EQ(page[kind.name], who_refuses(names, refusing, "draw")) << kind.name;
    });
}

// What `analyze --json` says of a head: its fields, and the parts that refused.
struct Measured {
  std::map<std::string, std::string> part_of;  // a field that is known: the part that it comes from
  std::string refused;
};

Measured measured(const HardRecording& recording, const std::string& what) {
  using measures::Part;
  static const std::vector<std::pair<Part, std::string>> kParts{
      {Part::kAgreement, "agreement"}, {Part::kQueries, "queries"}, {Part::kVolume, "volume"},
      {Part::kPairs, "pairs"},         {Part::kMass, "mass"},       {Part::kOutput, "output"},
      {Part::kAttention, "attention"}, {Part::kPca, "PCA"},         {Part::kBounds, "bounds"}};
  Measured all;
  for (const auto& [part, name] : kParts) {
    measures::RunMeasures run{.run = "keydiff", .kl_nats = {}, .top1_agreement = {}, .heads = {}};
    const std::string sentence = refusal(
        [&, part = part] { run.heads.push_back(measures::measure_head(recording, 1, 0, 0, {part})); });
    if (!sentence.empty()) {
      all.refused += (all.refused.empty() ? "" : ", ") + name;
      continue;
    }
    const auto json = measures::measures_json(*recording.info(), {run});
    for (const auto& [field, value] : json["runs"][0]["heads"][0].items()) {
      EXPECT_TRUE(!value.is_number_float() || std::isfinite(value.get<double>())) << what << ", " << field;
      if (!value.is_null()) all.part_of[field] = name;
    }
  }
  return all;
}

TEST(HardRecordings, EveryMeasureIsWhatThePageSays) {
  auto page = numbers_page("Measures of recordings");
  const Measured sound = measured(HardRecording(), "sound");
  EXPECT_EQ(sound.refused, "");
  for (const HardKind& kind : hard_kinds())
    make(kind, [&](const HardRecording& recording) {
      const Measured found = measured(recording, kind.name);
      std::string unknown;
      for (const auto& [field, part] : sound.part_of)
        if (!found.part_of.contains(field) && found.refused.find(part) == std::string::npos)
          unknown += (unknown.empty() ? "" : ", ") + field;
      std::string text = unknown.empty() ? "" : "null: " + unknown;
      if (!found.refused.empty()) text = "refused: " + found.refused + (text.empty() ? "" : "; ") + text;
      EXPECT_EQ(page[kind.name], text.empty() ? "values" : text) << kind.name;
    });
}

// What is asked of one token or one budget ends with an answer or a sentence.
TEST(HardRecordings, TokensAndBudgetsAreAnsweredOrRefused) {
  const std::atomic<bool> cancelled = false;
  for (const HardKind& kind : hard_kinds()) {
    const auto recording = std::make_shared<HardRecording>(kind.n_tokens);
    kind.make(*recording);
    for (const std::int64_t token : {std::int64_t{0}, kind.n_tokens - 1})
      refusal([&] {
        const auto story = measures::token_story(*recording, {1, 0, 0}, token, cancelled);
        for (const auto& at : story.scores.blocks) EXPECT_TRUE(std::isfinite(at.score)) << kind.name;
        measures::token_story_json(*recording->info(), story);
      });
    for (const std::string policy : {"keydiff", "sink", "l2norm", "leverage"}) {
      measures::BudgetCurve curve;
      const std::string sentence = refusal([&] { curve = measures::budget_curve(recording, policy, 0, 0); });
      EXPECT_NE(curve.points.empty(), sentence.empty()) << kind.name << ", " << policy;
      for (const auto& point : curve.points) {
        EXPECT_FALSE(std::isinf(point.attention_kept)) << kind.name << ", " << policy;
        EXPECT_FALSE(std::isinf(point.log_volume)) << kind.name << ", " << policy;
      }
    }
  }
}

}  // namespace
}  // namespace keyscope::figures
