// Scorers that look at queries, replayed: against captures of them where these must agree, and everywhere
// against plain loops over what was recorded.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/slots.hpp"
#include "base/errors.hpp"
#include "capture/model/model.hpp"
#include "capture/model/recorded_attention.hpp"
#include "capture/replay/head_replay.hpp"
#include "tests/support/captured.hpp"

namespace keyscope::replay {
namespace {

using recording::Recording;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Every scorer that looks at queries, with all of its options, and in every slot that a replay has.
const std::vector<std::string> kLooking = {"expected",
                                           "expected:epsilon=0",
                                           "capkv",
                                           "capkv:tau=2",
                                           "triattention",
                                           "triattention:group=mean",
                                           "compactor",
                                           "compactor:window=5,blend=0.5",
                                           "compactor:sketch=48",
                                           "rkv",
                                           "rkv:window=20,kernel=3,weight=0.8,threshold=0.2",
                                           "dropkv",
                                           "dropkv:window=3",
                                           "defensive",
                                           "defensive:window=5,kernel=3",
                                           "rkv:granularity=layer",
                                           "expected:split=adakv",
                                           "compactor:protect=sinks:2+recent:3",
                                           "dropkv:granularity=page:4",
                                           "triattention:protect=boundaries:0.5,granularity=layer"};

TEST(QueryReplay, TheListNamesEveryPolicyThatLooksAtQueries) {
  std::set<std::string> listed, registered;
  for (const auto& text : kLooking) listed.insert(analysis::parse_policy(text).name);
  for (const auto& entry : analysis::registered_policies()) {
    if (entry.name == "qfilters" || entry.name == "duo")
      continue;  // which are made of files, and look at none
    const auto policy = analysis::make_policy({entry.name, {}}, 0);
    if (policy != nullptr && policy->needs().queries()) registered.insert(entry.name);
  }
  EXPECT_EQ(listed, registered);
}

std::filesystem::path demo_model(const char* name) {
  return std::filesystem::path(KEYSCOPE_SOURCE_DIR) / "assets" / name;
}

struct Setting {
  std::string model;  // a golden, or one of assets/
  std::int64_t n_prompt = 50, budget = 12, block_size = 16;
  capture::DType dtype = capture::DType::kFloat32;
};

std::shared_ptr<const capture::Model> load(const Setting& setting) {
  const bool demo = setting.model.starts_with("demo_model");
  return capture::Model::load(
      demo ? demo_model(setting.model.c_str()) : test::inference_golden(setting.model),
      {.dtype = setting.dtype});
}

// The run `none`, and one of each of these policies.
std::string capture_policies(const std::filesystem::path& out, const Setting& setting,
                             const std::vector<std::string>& policies) {
  const auto model = load(setting);
  capture::CaptureOptions options = test::full_cache_options();
  options.prompt_ids = test::random_ids(setting.n_prompt, model->config().vocab_size);
  for (const auto& spec : test::policies(policies)) options.policies.push_back(spec);
  options.budget = setting.budget;
  options.block_size = setting.block_size;
  return test::capture_to(out, options, *model);
}

std::shared_ptr<Recording> replay_again(const std::filesystem::path& out, const std::string& source,
                                        const Setting& setting, const std::vector<std::string>& policies) {
  ReplayOptions options = test::replay_options(policies);
  options.budget = setting.budget;
  options.block_size = setting.block_size;
  return test::replay_to(out, source, options);
}

// Rows lost at the same blocks, by margins that differ in roundings.
void expect_near_evictions(const recording::HeadTrace& expected, const recording::HeadTrace& found,
                           const std::string& where) {
  ASSERT_EQ(expected.evicted_at, found.evicted_at) << where;
  double largest = 0;
  for (const float margin : expected.evicted_margin)
    if (!std::isnan(margin)) largest = std::max(largest, std::abs(double{margin}));
  for (std::size_t i = 0; i < expected.evicted_margin.size(); ++i) {
    const float x = expected.evicted_margin[i], y = found.evicted_margin[i];
    ASSERT_EQ(std::isnan(x), std::isnan(y)) << where << " token " << i;
    if (!std::isnan(x)) {
      ASSERT_NEAR(x, y, 1e-4 * largest) << where << " token " << i;
    }
  }
}

void expect_exact_layer(const Setting& setting, const std::vector<std::string>& policies) {
  const test::ScratchFolder folder;
  const std::string source = capture_policies(folder.file("captured.h5"), setting, policies);
  const auto captured = recording::open_recording(source);
  const auto replayed = replay_again(folder.file("replayed.h5"), source, setting, policies);
  const auto expected = captured->info(), found = replayed->info();
  const int layer = exact_layer(*found);
  ASSERT_EQ(found->runs.size(), policies.size() + 1);
  for (int run = 1; run < std::ssize(found->runs); ++run) {
    EXPECT_EQ(found->runs[run].plan.parameters, expected->runs[run].plan.parameters);
    EXPECT_TRUE(found->runs[run].plan.replayed);
    EXPECT_FALSE(found->runs[run].plan.oracle) << "it knows of no query to come";
    for (int head = 0; head < found->model.heads(layer).n_kv_heads; ++head) {
      const auto evicted_at = captured->trace(run, layer, head).evicted_at;
      EXPECT_TRUE(std::ranges::any_of(evicted_at, [](auto at) { return at >= 0; }));
      expect_near_evictions(captured->trace(run, layer, head), replayed->trace(run, layer, head),
                            fmt::format("{}, {}, KV head {}", setting.model, policies[run - 1], head));
    }
  }
}

class InTheExactLayer : public ::testing::TestWithParam<Setting> {};

TEST_P(InTheExactLayer, RowsAreThoseThatACaptureRetains) { expect_exact_layer(GetParam(), kLooking); }

// Plain and stretched RoPE in all its kinds, of whole heads and parts of them, of halves and of neighbours,
// of layers with windows by frequencies of their own, and none at all; queries that grow; soft caps; learned
// sinks; latents; layers without keys.
INSTANTIATE_TEST_SUITE_P(
    Models, InTheExactLayer,
    ::testing::Values(Setting{"tiny_llama"}, Setting{"tiny_llama", 50, 5, 1},
                      Setting{"tiny_llama", 50, 20, 50}, Setting{"tiny_llama3", 90, 12, 7},
                      Setting{"tiny_llama_dynamic", 40}, Setting{"tiny_llama_dynamic", 40, 9, 1},
                      Setting{"tiny_phi3_longrope"}, Setting{"tiny_phi3_longrope", 50, 9, 7},
                      Setting{"tiny_glm"}, Setting{"tiny_gemma2"}, Setting{"tiny_gemma2", 50, 6, 4},
                      Setting{"tiny_gemma3"}, Setting{"tiny_gemma4"}, Setting{"tiny_gpt_oss"},
                      Setting{"tiny_gpt_oss", 50, 6, 4}, Setting{"tiny_learned_sinks"},
                      Setting{"tiny_ministral3"}, Setting{"tiny_deepseek2"}, Setting{"tiny_smollm3"},
                      Setting{"tiny_qwen3_next"}, Setting{"tiny_mistral_window", 50, 4, 7},
                      Setting{"demo_model", 300, 64, 64}, Setting{"demo_model_sinks", 300, 64, 64}),
    [](const auto& test) {
      return fmt::format("{}_N{}_B{}", test.param.model, test.param.budget, test.param.block_size);
    });

// What is rounded with the turned queries is rounded before a replay turns them back; weights are of turned
// ones.
TEST(QueryReplay, InBFloat16WeightsAreThoseOfACapture) {
  expect_exact_layer({"demo_model", 300, 64, 64, capture::DType::kBFloat16},
                     {"rkv", "dropkv", "defensive", "compactor", "rkv:granularity=layer"});
}

double frequency(const capture::ModelConfig& config, int layer, std::int64_t pair) {
  const bool local = config.rotates_locally(layer);
  const int rotary_dim = local ? config.local_rotary_dim : config.rotary_dim;
  const double theta = local ? config.local_rope_theta : config.rope_theta;
  const bool stretched = !local && config.rope_scaling.kind == capture::RopeScaling::Kind::kLinear;
  const double unscaled = std::pow(theta, -2.0 * static_cast<double>(pair) / rotary_dim);
  return stretched ? unscaled / config.rope_scaling.factor : unscaled;
}

// One head by plain loops. For models whose RoPE is at most stretched evenly, of coordinates half a head
// apart.
class SlowReplay {
 public:
  SlowReplay(const Recording& recording, const analysis::Policy& policy, int layer, int kv_head)
      : recording_(recording),
        info_(*recording.info()),
        config_(capture::parse_config(info_.model.config, "the recording")),
        policy_(policy),
        layer_(layer),
        kv_head_(kv_head),
        group_(info_.model.group_size(layer)) {
    const auto local = config_.rotates_locally(layer);
    for (int pair = 0; pair < (local ? config_.local_rotary_dim : config_.rotary_dim) / 2; ++pair)
      rotation_.frequencies.push_back(frequency(config_, layer, pair));
  }

  std::vector<std::int32_t> evicted_at(std::int64_t budget, std::int64_t block_size) {
    const std::int64_t n = info_.n_prompt(), window = config_.window(layer_);
    std::vector<std::int32_t> evicted(n, -1), present;
    for (std::int64_t start = 0, block = 0; start < n; start += block_size, ++block) {
      const std::int64_t end = std::min(n, start + block_size);
      for (auto i = static_cast<std::int32_t>(start); i < end; ++i) present.push_back(i);
      const auto goes = [&](std::int32_t row) {
        evicted[row] = static_cast<std::int32_t>(block);
        std::erase(present, row);
      };
      for (const std::int32_t row : std::vector(present))
        if (window > 0 && row <= end - window) goes(row);
      if (std::ssize(present) <= budget) continue;
      for (const std::int32_t row : losers(present, start, end, budget)) goes(row);
    }
    return evicted;
  }

 private:
  static RowMatrixF rows(const RowMatrixF& all, const std::vector<std::int32_t>& positions) {
    RowMatrixF some(std::ssize(positions), all.cols());
    for (std::size_t i = 0; i < positions.size(); ++i)
      some.row(static_cast<Eigen::Index>(i)) = all.row(positions[i]);
    return some;
  }

  RowMatrixF queries(int g) const { return recording_.queries(0, layer_, kv_head_ * group_ + g); }

  std::vector<std::int32_t> losers(const std::vector<std::int32_t>& present, std::int64_t start,
                                   std::int64_t end, std::int64_t budget) {
    const analysis::PolicyNeeds needs = policy_.needs();
    const RowMatrixF keys = rows(recording_.keys(0, layer_, kv_head_), present);
    const RowMatrixF values = rows(recording_.values(0, layer_, kv_head_), present);
    const RowMatrixD last = last_queries(std::min<std::int64_t>(needs.window_queries, end - start), end);
    const RowMatrixD weights =
        weights_on(keys, present, std::min<std::int64_t>(needs.window_weights, end - start), end);
    std::vector<analysis::QueryMoments> moments;
    for (int g = 0; g < group_; ++g) moments.push_back(moments_until(end, g));
    const analysis::PolicyInput input{
        .keys = keys,
        .values = values,
        .positions = present,
        .n_new_rows = std::min(end - start, static_cast<std::int64_t>(std::ssize(present))),
        .budget = budget,
        .layer = layer_,
        .kv_head = kv_head_,
        .group_size = group_,
        .window_queries = &last,
        .window_weights = &weights,
        .rotation = &rotation_,
        .query_moments = moments};
    std::vector<double> scores(present.size());
    std::vector<std::uint8_t> forced(present.size());
    policy_.score(input, scores);
    policy_.force(input, budget, forced);
    std::vector<std::size_t> order(present.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      return forced[a] != forced[b] ? forced[a] > forced[b] : scores[a] > scores[b];
    });
    std::vector<std::int32_t> gone;
    for (auto i = static_cast<std::size_t>(budget); i < order.size(); ++i) gone.push_back(present[order[i]]);
    return gone;
  }

  RowMatrixD last_queries(std::int64_t n, std::int64_t end) const {
    RowMatrixD all(group_ * n, info_.model.heads(layer_).head_dim);
    for (int g = 0; g < group_; ++g)
      for (std::int64_t i = 0; i < n; ++i) all.row(g * n + i) = queries(g).row(end - n + i).cast<double>();
    return all;
  }

  RowMatrixD weights_on(const RowMatrixF& keys, const std::vector<std::int32_t>& present, std::int64_t n,
                        std::int64_t end) const {
    const std::vector<float> sinks = recording_.sink_logits(0, layer_);
    const analysis::AttentionRules rules = capture::attention_rules(config_, layer_);
    const RowMatrixD last = last_queries(n, end);
    RowMatrixD weights = RowMatrixD::Zero(last.rows(), keys.rows());
    for (Eigen::Index i = 0; i < last.rows(); ++i) {
      const std::int64_t query = end - n + i % n;
      double sum = sinks.empty() ? 0 : std::exp(double{sinks[kv_head_ * group_ + i / n]});
      for (Eigen::Index row = 0; row < keys.rows(); ++row) {
        if (present[row] > query || (rules.window > 0 && present[row] <= query - rules.window)) continue;
        const double score = rules.scale * keys.row(row).cast<double>().dot(last.row(i));
        weights(i, row) =
            std::exp(rules.softcap > 0 ? rules.softcap * std::tanh(score / rules.softcap) : score);
        sum += weights(i, row);
      }
      if (sum > 0) weights.row(i) /= sum;
    }
    return weights;
  }

  analysis::QueryMoments moments_until(std::int64_t end, int g) const {
    RowMatrixF all = queries(g).topRows(end);
    const std::int64_t half = rotation_.n_pairs();
    for (std::int64_t position = 0; position < end; ++position)
      for (std::int64_t pair = 0; pair < half; ++pair) {
        const double angle = static_cast<double>(position) * rotation_.frequencies[pair];
        const double x = all(position, pair), y = all(position, half + pair);
        all(position, pair) = static_cast<float>(std::cos(angle) * x + std::sin(angle) * y);
        all(position, half + pair) = static_cast<float>(std::cos(angle) * y - std::sin(angle) * x);
      }
    analysis::QueryMoments moments;
    moments.add(all, rotation_);
    return moments;
  }

  const Recording& recording_;
  const recording::RecordingInfo info_;
  const capture::ModelConfig config_;
  const analysis::Policy& policy_;
  int layer_, kv_head_, group_;
  analysis::Rotation rotation_;
};

class InEveryLayer : public ::testing::TestWithParam<Setting> {};

TEST_P(InEveryLayer, RowsAreThoseThatPlainLoopsRetain) {
  const test::ScratchFolder folder;
  const std::string source = capture_policies(folder.file("source.h5"), GetParam(), {});
  const auto captured = recording::open_recording(source);
  std::vector<std::string> alone;
  for (const auto& text : kLooking)
    if (analysis::make_policy(analysis::parse_policy(text), 0)->slots().neutral()) alone.push_back(text);
  const auto replayed = replay_again(folder.file("replayed.h5"), source, GetParam(), alone);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    const auto policy = analysis::make_policy(analysis::parse_policy(alone[i]), 0);
    for (const auto& [layer, kv_head] : captured->info()->all_heads()) {
      SlowReplay slow(*captured, *policy, layer, kv_head);
      EXPECT_EQ(replayed->trace(static_cast<int>(i) + 1, layer, kv_head).evicted_at,
                slow.evicted_at(GetParam().budget, GetParam().block_size))
          << alone[i] << ", layer " << layer << ", KV head " << kv_head;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, InEveryLayer,
                         ::testing::Values(Setting{"tiny_llama", 50, 12, 7}, Setting{"tiny_gemma2", 50, 6, 4},
                                           Setting{"tiny_gemma3", 50, 5, 16},
                                           Setting{"tiny_learned_sinks", 40, 9, 8}),
                         [](const auto& test) { return test.param.model; });

// Turned back by LibTorch's own sines and cosines, of one block with all of the prompt.
TEST(QueryReplay, QueriesTurnBackByTheModelsAngles) {
  for (const char* name : {"tiny_llama", "tiny_llama3", "tiny_llama_dynamic", "tiny_phi3_longrope",
                           "tiny_glm", "tiny_gpt_oss", "tiny_ministral3", "tiny_deepseek2", "demo_model"}) {
    const test::ScratchFolder folder;
    const Setting setting{name, 45, 45, 45};
    const auto captured = recording::open_recording(capture_policies(folder.file("none.h5"), setting, {}));
    const auto info = captured->info();
    const capture::ModelConfig config = capture::parse_config(info->model.config, name);
    const auto angles = capture::rotary_angles(config, 45);
    const capture::RecordedRope rope(*info, 0, 1);
    const RowMatrixF queries = captured->queries(0, 1, 1), found = rope.unrotated(queries, 0);
    const auto n_pairs = rope.rotation().n_pairs();
    ASSERT_EQ(n_pairs, config.rotary_dim / 2) << name;
    RowMatrixD turned = found.cast<double>();  // forth again
    for (Eigen::Index p = 0; p < 45; ++p) {
      const double length = std::floor(static_cast<double>(p) / config.query_growth_length);
      const double growth = 1 + config.query_growth * std::log(1 + length);
      for (std::int64_t pair = 0; pair < n_pairs; ++pair) {
        const double c = growth * angles.cos[p * n_pairs + pair], s = growth * angles.sin[p * n_pairs + pair];
        const std::int64_t a = config.interleaved_rotation ? 2 * pair : pair;
        const std::int64_t b = config.interleaved_rotation ? 2 * pair + 1 : n_pairs + pair;
        const double x = found(p, a), y = found(p, b);
        turned(p, a) = c * x - s * y;
        turned(p, b) = s * x + c * y;
      }
    }
    EXPECT_LT((turned - queries.cast<double>()).cwiseAbs().maxCoeff(), 4e-6 * queries.cwiseAbs().maxCoeff())
        << name;
    EXPECT_GT((found - queries).cwiseAbs().maxCoeff(), 0.01 * queries.cwiseAbs().maxCoeff()) << name;
  }
}

class WithoutQueries : public ::testing::TestWithParam<std::string> {};

TEST_P(WithoutQueries, ARecordingIsRefused) {
  const test::ScratchFolder folder;
  capture::CaptureOptions options = test::full_cache_options();
  options.record_queries = false;
  const Source source = open_source(test::capture_to(folder.file("keys.h5"), options));
  try {
    plan_replay(source, test::replay_options({GetParam()}));
    FAIL() << "it was not refused";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("keys.h5"), HasSubstr(GetParam()),
                                    HasSubstr("looks at queries"), HasSubstr("--record keys,queries")));
  }
}

TEST_P(WithoutQueries, OrWithoutWhatTheModelDoesWithThem) {
  const test::ScratchFolder folder;
  const auto captured =
      recording::open_recording(test::capture_to(folder.file("none.h5"), test::full_cache_options()));
  const auto policy = analysis::make_policy({GetParam(), {}}, 0);
  recording::RecordingInfo info = *captured->info();
  const auto refusal = [&] { return query_refusal(info, policy->needs(), info.layers); };
  EXPECT_THAT(refusal(), IsEmpty());
  info.model.n_heads = 6;  // of other heads than the configuration has
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("4 query heads"), HasSubstr("6 for 2"), HasSubstr("capture with it")));
  info = *captured->info();
  info.model.config = R"({"model_type": "unheard_of"})";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("recorded config"), HasSubstr("capture with it")));
  info.model.config.clear();
  EXPECT_THAT(refusal(), HasSubstr("recorded config"));
}

INSTANTIATE_TEST_SUITE_P(Scorers, WithoutQueries,
                         ::testing::Values("expected", "capkv", "triattention", "compactor", "rkv", "dropkv",
                                           "defensive"),
                         [](const auto& test) { return test.param; });

TEST(QueryReplay, OtherPoliciesNeedNoQueries) {
  const test::ScratchFolder folder;
  capture::CaptureOptions options = test::full_cache_options();
  options.record_queries = false;
  const std::string source = test::capture_to(folder.file("keys.h5"), options);
  EXPECT_NO_THROW(
      test::replay_to(folder.file("replayed.h5"), source, test::replay_options({"keydiff", "h2o"})));
}

}  // namespace
}  // namespace keyscope::replay
