#include "capture/python/python_policy.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/slots.hpp"
#include "base/errors.hpp"
#include "tests/support/blocked_signals.hpp"
#include "tests/support/cli.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::capture {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PythonPolicies : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::use_python_with_numpy()) GTEST_SKIP() << "there is no Python with NumPy";
  }

  // `python:` of this function, in a file that imports what the package offers.
  std::string named(const std::string& body, const std::string& function = "score") {
    const auto path = folder_.file("policy.py");
    std::ofstream(path) << "import numpy as np\nimport keyscope\n\n" << body;
    return fmt::format("python:{}:{}", path.string(), function);
  }

  std::vector<double> scores(const analysis::Policy& policy) const {
    std::vector<double> found(3);
    policy.score(input(), found);
    return found;
  }

  //   keys: where they lie; null: in this test
  analysis::PolicyInput input(const float* keys = nullptr) const {
    return {.keys = view_rows(keys == nullptr ? keys_.data() : keys, 3, 2),
            .values = view_rows(values_.data(), 3, 2),
            .positions = positions_,
            .n_new_rows = 1,
            .budget = 2,
            .layer = 4,
            .kv_head = 1,
            .last_row_group = last_row_,
            .attention_received = received_,
            .attention_queries = queries_,
            .window_sums = window_};
  }

  std::string refusal(const std::string& text) const {
    try {
      python_policy(text);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  }

  std::string failure(const analysis::Policy& policy) const {
    try {
      scores(policy);
    } catch (const Error& error) {
      return error.what();
    }
    return "scored";
  }

  test::ScratchFolder folder_;
  const std::vector<float> keys_{3, 4, 0, 1, 6, 8}, values_{1, 0, 2, 0, 3, 0};
  const std::vector<std::int32_t> positions_{0, 5, 9}, queries_{9, 4, 1};
  const std::vector<float> last_row_{0.5F, 0.25F, 0.25F}, window_{1, 2, 3};
  const std::vector<double> received_{4.5, 3, 0.5};
};

TEST_F(PythonPolicies, ScoreRowsByKeysAndPositions) {
  const auto spec =
      python_policy(named("def score(head):\n    return np.linalg.norm(head.keys, axis=1) + 100 * "
                          "head.positions + head.budget\n"));
  EXPECT_EQ(spec.name, "python");
  EXPECT_EQ(spec.run_name(), "score");
  EXPECT_EQ(spec.options.at("function"), "score");
  EXPECT_EQ(spec.options.at("sha256").size(), 64U);
  EXPECT_THAT(scores(*spec.own), ElementsAre(7, 503, 912));
  EXPECT_FALSE(spec.own->needs().values || spec.own->needs().attention());
}

// So that what they start in turn can be ended.
TEST_F(PythonPolicies, HaveNoSignalBlocked) {
  const test::BlockedSignals as_in_main;
  const auto spec = python_policy(
      named("import signal\n\ndef score(head):\n    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])\n"
            "    return np.full(len(head.positions), float(len(blocked)))\n"));
  EXPECT_THAT(scores(*spec.own), ElementsAre(0, 0, 0));
}

TEST_F(PythonPolicies, GetWhatTheyNeed) {
  const auto spec = python_policy(
      named("@keyscope.policy(needs=('values', 'last_row', 'attention_received', 'window_sums'), window=7)\n"
            "def score(head):\n"
            "    assert (head.layer, head.kv_head, head.n_new_rows) == (4, 1, 1)\n"
            "    assert not head.keys.flags.writeable\n"
            "    return (head.values[:, 0] + 10 * head.last_row + 100 * head.attention_received\n"
            "            + 1000 * head.attention_queries + 10000 * head.window_sums)\n"));
  const analysis::PolicyNeeds needs = spec.own->needs();
  EXPECT_TRUE(needs.values && needs.last_row_group && needs.attention_received);
  EXPECT_EQ(needs.window, 7);
  EXPECT_THAT(scores(*spec.own), ElementsAre(1 + 5 + 450 + 9000 + 10000, 2 + 2.5 + 300 + 4000 + 20000,
                                             3 + 2.5 + 50 + 1000 + 30000));
}

TEST_F(PythonPolicies, ForceRowsByInfinity) {
  const auto spec = python_policy(named("def score(head):\n    return np.array([np.inf, -2.0, -3.0])\n"));
  std::vector<double> found(3);
  std::vector<std::uint8_t> forced(3);
  spec.own->score(input(), found);
  spec.own->force(input(), 2, forced);
  EXPECT_THAT(forced, ElementsAre(1, 0, 0));
  EXPECT_THAT(found, ElementsAre(-2, -2, -3)) << "a margin is that of rows that compete";
}

TEST_F(PythonPolicies, TakeTheSlotsOfEveryScorer) {
  const std::string name = named("def score(head):\n    return head.positions\n");
  EXPECT_TRUE(python_slots(name + ",split=cake").all_layers());
  EXPECT_FALSE(python_slots(name).all_layers());
  const auto spec = python_policy(name + ",protect=sinks:4+recent:0.1,granularity=page:16");
  const auto policy = analysis::make_policy(spec, 0);
  EXPECT_EQ(policy->slots().protect.sinks, 4);
  EXPECT_EQ(policy->slots().page_rows, 16);
  EXPECT_EQ(spec.options.at("function"), "score");
  EXPECT_EQ(analysis::with_defaults(spec, 0).options.at("split"), "uniform");
  for (const char* wrong : {",protect=first:4", ",recent=0.1", ",protect", ",split=adakv,split=adakv"})
    EXPECT_THROW(python_policy(name + wrong), UsageError) << wrong;
}

// Rows that lie in its memory are read where they are: what the function saw follows them.
TEST_F(PythonPolicies, ReadRowsWhereTheyLie) {
  const auto spec = python_policy(
      named("kept = []\n\ndef score(head):\n    kept.append(head.keys)\n    return kept[0].sum(axis=1)\n"));
  const auto memory = spec.own->row_memory();
  const auto bytes = memory->take(6 * sizeof(float));
  auto* rows = reinterpret_cast<float*>(bytes.get());
  std::ranges::copy(keys_, rows);
  const analysis::PolicyInput shared = input(rows);
  std::vector<double> found(3);
  spec.own->score(shared, found);
  EXPECT_THAT(found, ElementsAre(7, 1, 14));
  rows[0] = 100;
  spec.own->score(shared, found);
  EXPECT_THAT(found, ElementsAre(104, 1, 14));
}

TEST_F(PythonPolicies, ServeSeveralThreads) {
  const auto spec = python_policy(named("def score(head):\n    return head.keys.sum(axis=1)\n"));
  std::vector<std::thread> threads;
  std::atomic<int> n_right = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int call = 0; call < 50; ++call) n_right += scores(*spec.own) == std::vector<double>{7, 1, 14};
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_right, 200);
}

TEST_F(PythonPolicies, SayWithTheFunctionsNameWhatIsWrong) {
  const auto of = [&](const std::string& body) {
    return failure(*python_policy(named("def score(head):\n    " + body + "\n")).own);
  };
  EXPECT_THAT(of("return head.keys"),
              AllOf(HasSubstr("policy score, layer 4, KV head 1"), HasSubstr("shape (3, 2); expected (3,)")));
  EXPECT_THAT(of("return np.full(3, np.nan)"), AllOf(HasSubstr("policy score"), HasSubstr("is nan")));
  EXPECT_THAT(of("return np.full(3, np.inf)"),
              AllOf(HasSubstr("policy score"), HasSubstr("the budget is 2")));
  EXPECT_THAT(of("return None"), HasSubstr("policy score"));
  EXPECT_THAT(of("return head.nothing"),
              AllOf(HasSubstr("policy score"), HasSubstr("AttributeError"), HasSubstr("nothing")));
  EXPECT_THAT(of("import os; os._exit(3)"), AllOf(HasSubstr(":score: its process ended, with status 3")));
  EXPECT_THAT(of("import os, time\n    os.fork() or time.sleep(600)\n    os._exit(5)"),
              HasSubstr(":score: its process ended, with status 5"))
      << "though one that it has started goes on";
  EXPECT_THAT(of("import sys; sys.exit(0)"),
              HasSubstr("policy score, layer 4, KV head 1: raised SystemExit: 0"));
  EXPECT_THAT(of("head.keys[0] = 1"), AllOf(HasSubstr("policy score"), HasSubstr("read-only")));
  EXPECT_EQ(of("print('aside'); return np.zeros(3)"), "scored");
}

TEST_F(PythonPolicies, AreRefusedBeforeAnythingRuns) {
  EXPECT_THAT(refusal("python:"), HasSubstr("expected python:FILE.py:FUNCTION"));
  EXPECT_THAT(refusal("python:policy.py"), HasSubstr("expected python:FILE.py:FUNCTION"));
  EXPECT_THAT(refusal("python:/nowhere/policy.py:score"), HasSubstr("there is no file /nowhere/policy.py"));
  EXPECT_THAT(refusal(named("def score(head):\n    return 0\n", "other")),
              AllOf(HasSubstr("no function 'other'"), HasSubstr("score")));
  EXPECT_THAT(refusal(named("def score(head:\n")), HasSubstr("SyntaxError"));
  EXPECT_THAT(refusal(named("import nothing_of_that_name\n")), HasSubstr("nothing_of_that_name"));
  const std::string before = std::getenv("KEYSCOPE_PYTHON");
  setenv("KEYSCOPE_PYTHON", "/nowhere/python3", 1);
  EXPECT_THAT(refusal(named("def score(head):\n    return 0\n")),
              AllOf(HasSubstr("/nowhere/python3 cannot be started"), HasSubstr("KEYSCOPE_PYTHON")));
  setenv("KEYSCOPE_PYTHON", before.c_str(), 1);
}

TEST_F(PythonPolicies, AHungOneIsCancelled) {
  const auto spec = python_policy(named("def score(head):\n    while True:\n        pass\n"));
  std::thread cancels([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    spec.own->cancel();
  });
  EXPECT_THROW(scores(*spec.own), Cancelled);
  cancels.join();
  EXPECT_THROW(scores(*spec.own), Cancelled) << "and stays so";
}

}  // namespace
}  // namespace keyscope::capture
