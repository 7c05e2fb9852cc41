// `keyscope calibrate`: what it makes of recordings, and policies that take it.

#include <cmath>
#include <complex>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <Eigen/SVD>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "capture/recording/recording.hpp"
#include "tests/support/cli.hpp"

namespace keyscope::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

const std::string kSinkModel = KEYSCOPE_SOURCE_DIR "/assets/demo_model_sinks";

class Calibrate : public ::testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_.file(name).string(); }

  // The demo model's run `none` over the beginning of a prompt.
  void record(const std::string& name, std::vector<std::string> more = {},
              const std::string& prompt = "needle.txt", const std::string& model = kDemoModel) const {
    std::vector<std::string> arguments{
        "capture",      "--model", model,     "--prompt-file", kDemoModel + "/prompts/" + prompt,
        "--max-tokens", "70",      "--quiet", "--out",         file(name)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CliResult result = run_cli(arguments);
    ASSERT_EQ(result.status, 0) << result.err;
  }

  CliResult calibrate(const std::vector<std::string>& recordings, const std::string& policy = "qfilters",
                      const std::string& out = "filters.json") const {
    std::vector<std::string> arguments{"calibrate", policy};
    for (const auto& recording : recordings) arguments.push_back(file(recording));
    arguments.insert(arguments.end(), {"--out", file(out)});
    return run_cli(arguments);
  }

  void expect_refused(const std::vector<std::string>& recordings, const std::string& why) const {
    const CliResult result = calibrate(recordings);
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, AllOf(HasSubstr(recordings.back()), HasSubstr(why)));
    EXPECT_FALSE(fs::exists(file("filters.json")));
  }

  ScratchFolder folder_;
};

// By a decomposition of all queries of all recordings, one below the other.
Eigen::VectorXd slow_filter(const std::vector<std::string>& files, int layer, int kv_head) {
  Eigen::VectorXd sum;
  constexpr int kGroup = 2;
  for (int head = kGroup * kv_head; head < kGroup * (kv_head + 1); ++head) {
    RowMatrixF all;
    for (const auto& file : files) {
      const RowMatrixF queries = recording::open_recording(file)->queries(0, layer, head);
      RowMatrixF joined(all.rows() + queries.rows(), queries.cols());
      if (all.rows() > 0) joined.topRows(all.rows()) = all;
      joined.bottomRows(queries.rows()) = queries;
      all = joined;
    }
    const Eigen::JacobiSVD<Eigen::MatrixXd> svd(all.cast<double>(), Eigen::ComputeThinV);
    Eigen::VectorXd main = svd.matrixV().col(0);
    if ((all.cast<double>() * main).mean() < 0) main = -main;
    sum = sum.size() == 0 ? Eigen::VectorXd(-main / kGroup) : Eigen::VectorXd(sum - main / kGroup);
  }
  return sum;
}

TEST_F(Calibrate, MakesTheFiltersThatAPolicyTakes) {
  record("a.h5");
  record("b.h5", {}, "phonebook.txt");
  const CliResult made = calibrate({"a.h5", "b.h5"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.out,
              HasSubstr("filters of 16 KV heads, from 140 queries of each query head in 2 recordings"));
  const Json layers = parse_json(read_file(file("filters.json")));
  ASSERT_EQ(layers.size(), 4u);
  for (int layer = 0; layer < 4; ++layer)
    for (int head = 0; head < 4; ++head) {
      const Eigen::VectorXd expected = slow_filter({file("a.h5"), file("b.h5")}, layer, head);
      const std::vector<double> found = layers.at(layer).at(head);
      ASSERT_EQ(static_cast<Eigen::Index>(found.size()), expected.size());
      for (Eigen::Index i = 0; i < expected.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-5);
    }
  const std::string policy = "qfilters:file=" + file("filters.json");
  record("filtered.h5", {"--policy", "none", "--policy", policy, "--budget", "16", "--block", "8"});
  const auto recording = recording::open_recording(file("filtered.h5"));
  const recording::RunPlan& run = recording->info()->runs.at(1).plan;
  EXPECT_EQ(run.name, "qfilters");
  EXPECT_EQ(parse_json(run.parameters).at("file"), file("filters.json"));
  // Layer 0, whose keys are those of the whole cache: what replay evicts there is what the run did.
  const CliResult replayed = run_cli({"replay", file("filtered.h5"), "--policy", policy, "--budget", "16",
                                      "--block", "8", "--quiet", "--out", file("replayed.h5")});
  ASSERT_EQ(replayed.status, 0) << replayed.err;
  for (int head = 0; head < 4; ++head)
    EXPECT_EQ(recording::open_recording(file("replayed.h5"))->trace(1, 0, head).evicted_at,
              recording->trace(1, 0, head).evicted_at);
}

// Of a query head of the demo models, whose 32 channels turn in halves by 5e5^(-f/16): E q, and E|q_f|.
std::pair<Eigen::VectorXd, Eigen::VectorXd> slow_means(const std::vector<std::string>& files, int layer,
                                                       int head) {
  Eigen::VectorXcd sum;
  Eigen::VectorXd lengths;
  double n = 0;
  for (const auto& file : files) {
    const RowMatrixF queries = recording::open_recording(file)->queries(0, layer, head);
    const Eigen::Index n_pairs = queries.cols() / 2;
    if (sum.size() == 0) sum = Eigen::VectorXcd::Zero(n_pairs), lengths = Eigen::VectorXd::Zero(n_pairs);
    for (Eigen::Index at = 0; at < queries.rows(); ++at, ++n)
      for (Eigen::Index f = 0; f < n_pairs; ++f) {
        const std::complex<double> q(queries(at, f), queries(at, n_pairs + f));
        const double frequency = std::pow(5e5, -static_cast<double>(f) / static_cast<double>(n_pairs));
        sum[f] += q * std::polar(1.0, -static_cast<double>(at) * frequency);
        lengths[f] += std::abs(q);
      }
  }
  Eigen::VectorXd mean(2 * sum.size());
  mean << sum.real() / n, sum.imag() / n;
  return {mean, lengths / n};
}

void expect_near(const Json& found, const Eigen::VectorXd& expected) {
  ASSERT_EQ(static_cast<Eigen::Index>(found.size()), expected.size());
  for (Eigen::Index i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(found[i].get<double>(), expected[i], 1e-4) << i;
}

TEST_F(Calibrate, MakesTheMeansThatAPolicyTakes) {
  record("a.h5");
  record("b.h5", {}, "phonebook.txt");
  const CliResult made = calibrate({"a.h5", "b.h5"}, "triattention", "means.json");
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(
      made.out,
      HasSubstr("means of queries for 16 KV heads, from 140 queries of each query head in 2 recordings"));
  const Json layers = parse_json(read_file(file("means.json")));
  ASSERT_EQ(layers.size(), 4u);
  for (int layer = 0; layer < 4; ++layer)
    for (int head = 0; head < 8; ++head) {
      const auto [mean, moduli] = slow_means({file("a.h5"), file("b.h5")}, layer, head);
      const Json& found = layers.at(layer).at(head / 2).at(head % 2);
      expect_near(found.at("mean"), mean);
      expect_near(found.at("moduli"), moduli);
    }
  const std::string policy = "triattention:file=" + file("means.json");
  record("evicted.h5", {"--policy", "none", "--policy", policy, "--budget", "16", "--block", "8"});
  const auto recording = recording::open_recording(file("evicted.h5"));
  EXPECT_EQ(parse_json(recording->info()->runs.at(1).plan.parameters).at("file"), file("means.json"));
  const CliResult replayed =
      run_cli({"replay", file("evicted.h5"), "--policy", policy, "--policy", "triattention", "--budget", "16",
               "--block", "8", "--quiet", "--out", file("replayed.h5")});
  ASSERT_EQ(replayed.status, 0) << replayed.err;
  const auto again = recording::open_recording(file("replayed.h5"));
  int n_other = 0;
  for (int head = 0; head < 4; ++head) {
    EXPECT_EQ(again->trace(1, 0, head).evicted_at, recording->trace(1, 0, head).evicted_at);
    n_other += again->trace(2, 0, head).evicted_at == again->trace(1, 0, head).evicted_at ? 0 : 1;
  }
  EXPECT_GT(n_other, 0);  // of the means of the run so far
}

TEST_F(Calibrate, PoliciesRefuseMeansThatDoNotFit) {
  const auto refused = [&](const std::string& text) {
    write_file(file("means.json"), text, true);
    const CliResult result =
        run_cli({"capture", "--model", kDemoModel, "--prompt", "Hello", "--policy",
                 "triattention:file=" + file("means.json"), "--budget", "1", "--out", file("x.h5")});
    EXPECT_EQ(result.status, 1);
    return result.err;
  };
  EXPECT_THAT(refused("{"), AllOf(HasSubstr("means.json"), HasSubstr("\"moduli\"")));
  EXPECT_THAT(refused("[[], [], []]"), HasSubstr("3 entries"));
  EXPECT_THAT(refused("[[[], [], [], []], [], [], []]"), HasSubstr("per query head of the KV head's group"));
  EXPECT_THAT(refused(R"([[[{"mean": [1], "moduli": []}, {}], [], [], []], [], [], []])"),
              HasSubstr("per channel of a query"));
}

TEST_F(Calibrate, RefusesRecordingsThatDoNotHoldAllQueries) {
  record("layers.h5", {"--layers", "0,2"});
  expect_refused({"layers.h5"}, "layers 1, 3 of the model's 4 were not recorded");
  record("keys.h5", {"--record", "keys"});
  expect_refused({"keys.h5"}, "queries were not recorded");
  record("heads.h5", {"--heads", "0,1"});
  expect_refused({"heads.h5"}, "only the queries of KV heads 0, 1 were recorded");
  record("evicted.h5", {"--policy", "keydiff", "--budget", "16"});
  expect_refused({"evicted.h5"}, "no finished run that kept everything");
  record("whole.h5", {"--hash-weights"});
  record("other.h5", {"--hash-weights"}, "needle.txt", kSinkModel);  // its configuration is the same
  expect_refused({"whole.h5", "other.h5"}, "filters are of one model");
}

TEST_F(Calibrate, RefusesWhatItMustNotReplace) {
  record("a.h5");
  ASSERT_EQ(calibrate({"a.h5"}).status, 0);
  EXPECT_EQ(calibrate({"a.h5"}).status, 1);
  EXPECT_EQ(run_cli({"calibrate", "qfilters", file("a.h5"), "--out", file("a.h5"), "--force"}).status, 2);
  EXPECT_EQ(run_cli({"calibrate", "qfilters", file("a.h5")}).status, 2);
}

// Filters of another model are refused before anything runs.
TEST_F(Calibrate, PoliciesRefuseFiltersThatDoNotFit) {
  const CliResult unread =
      run_cli({"capture", "--model", kDemoModel, "--prompt", "Hello", "--policy",
               "qfilters:file=" + file("none.json"), "--budget", "1", "--out", file("x.h5")});
  EXPECT_EQ(unread.status, 1);
  EXPECT_THAT(unread.err, HasSubstr("none.json"));
  const CliResult without = run_cli({"capture", "--model", kDemoModel, "--prompt", "Hello", "--policy",
                                     "qfilters", "--budget", "1", "--out", file("x.h5")});
  EXPECT_EQ(without.status, 2);
  EXPECT_THAT(without.err, HasSubstr("policy qfilters needs file=PATH"));
}

}  // namespace
}  // namespace keyscope::test
