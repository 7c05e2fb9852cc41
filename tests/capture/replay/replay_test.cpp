#include <algorithm>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "capture/recording/hdf5.hpp"
#include "capture/recording/recording.hpp"
#include "tests/support/captured.hpp"

namespace keyscope::replay {

// What a replay accepts, and what it says of what it does not.

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Kind>
std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Kind& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another kind of error: ") + error.what();
  }
  return "no error";
}

class ReplayPlanTest : public ::testing::Test {
 protected:
  std::string captured(const capture::CaptureOptions& options = test::full_cache_options()) {
    return test::capture_to(folder_.file("captured.h5"), options);
  }
  static ReplayPlan plan(const std::string& source, const ReplayOptions& options) {
    return plan_replay(open_source(source), options);
  }

  test::ScratchFolder folder_;
};

TEST_F(ReplayPlanTest, KeepsSinksExpertsAndLayersWithoutKeys) {
  for (const char* name : {"tiny_gpt_oss", "tiny_qwen3_next"}) {
    const auto model =
        capture::Model::load(test::inference_golden(name), {.dtype = capture::DType::kFloat32});
    capture::CaptureOptions capture_options = test::full_cache_options();
    capture_options.prompt_ids = test::random_ids(50, model->config().vocab_size);
    const auto source = test::capture_to(folder_.file(std::string(name) + ".h5"), capture_options, *model);
    const auto captured = recording::open_recording(source);
    const auto replayed = test::replay_to(folder_.file(std::string(name) + "_replayed.h5"), source,
                                          test::replay_options({"keydiff", "h2o"}));
    const auto before = captured->info(), after = replayed->info();
    EXPECT_EQ(after->layers, before->layers);
    EXPECT_EQ(after->keyless_layers, before->keyless_layers);
    EXPECT_EQ(after->expert_layers, before->expert_layers);
    EXPECT_EQ(after->sinks, before->sinks);
    EXPECT_EQ(before->sinks, std::string(name) == "tiny_gpt_oss");
    EXPECT_EQ(before->keyless_layers.empty(), before->sinks);
    for (const int layer : before->layers)
      for (std::size_t run = 0; run < after->runs.size(); ++run)
        EXPECT_EQ(replayed->sink_logits(static_cast<int>(run), layer), captured->sink_logits(0, layer));
    for (const int layer : before->expert_layers) {
      EXPECT_EQ(replayed->routing(0, layer).experts, captured->routing(0, layer).experts);
      EXPECT_EQ(replayed->routing(1, layer).experts.rows(), 0) << "nothing went through the model";
    }
    if (before->sinks) continue;
    ReplayOptions options = test::replay_options({"keydiff"});
    options.layers = before->keyless_layers;
    EXPECT_THAT(message_of<UsageError>([&] { plan(source, options); }), HasSubstr("has no keys"));
  }
}

TEST_F(ReplayPlanTest, ALayerThatBorrowsKeysLosesWhatItsLenderLoses) {
  const auto model =
      capture::Model::load(test::inference_golden("tiny_gemma4"), {.dtype = capture::DType::kFloat32});
  capture::CaptureOptions options = test::full_cache_options();
  options.prompt_ids = test::random_ids(50, model->config().vocab_size);
  options.record_values = options.record_value_norms = true;
  const auto source = test::capture_to(folder_.file("source.h5"), options, *model);
  const auto replayed = test::replay_to(
      folder_.file("replayed.h5"), source,
      test::replay_options({"random", "h2o", "keydiff", "rkv", "expected", "keydiff:critical=on"}));
  options.layers = {1, 4};
  const auto borrower = test::capture_to(folder_.file("borrower.h5"), options, *model);
  EXPECT_THAT(
      message_of<FileError>([&] { plan(borrower, test::replay_options({"keydiff:critical=on"})); }),
      HasSubstr("layer 4 borrows the keys of layer 2, whose values decide about them and were not recorded"));
  const auto info = replayed->info();
  EXPECT_EQ(info->model.layer_lenders, (std::vector{0, 1, 2, 3, 2, 3}));
  for (int run = 0; run < std::ssize(info->runs); ++run)
    for (const auto& [layer, kv_head] : info->all_heads()) {
      const int lender = info->model.lender(layer);
      EXPECT_EQ(replayed->trace(run, layer, kv_head).evicted_at,
                replayed->trace(run, lender, kv_head).evicted_at)
          << info->runs[run].plan.name << ", layer " << layer;
      EXPECT_EQ(replayed->keys(run, layer, kv_head), replayed->keys(run, lender, kv_head));
      EXPECT_EQ(replayed->values(run, layer, kv_head), replayed->values(run, lender, kv_head));
    }
}

TEST_F(ReplayPlanTest, KeepsWhoModelAndPromptAreAndSaysWhatWasDone) {
  capture::CaptureOptions capture_options = test::full_cache_options();
  capture_options.command = "keyscope capture";
  capture_options.score_last = 7;
  const std::string source = captured(capture_options);
  ReplayOptions options = test::replay_options({"none", "keydiff", "keydiff:recent=0.2"});
  options.seed = 5;
  const ReplayPlan made = plan(source, options);
  const auto before = recording::open_recording(source)->info()->provenance;
  EXPECT_EQ(made.provenance.model_sha256, before.model_sha256);
  EXPECT_EQ(made.provenance.prompt_sha256, before.prompt_sha256);
  EXPECT_EQ(made.provenance.command, "keyscope replay");
  EXPECT_EQ(made.provenance.seed, 5);
  const auto configuration = parse_json(made.provenance.configuration);
  EXPECT_EQ(configuration["budget"], 12);
  EXPECT_EQ(configuration["score_last"], 7);  // `analyze` reads it where no logits were recorded
  EXPECT_EQ(configuration["source"]["command"], "keyscope capture");
  EXPECT_EQ(configuration["source"]["configuration"]["block"], 16);
  ASSERT_EQ(made.runs.size(), 2u);
  EXPECT_EQ(made.runs[0].name, "keydiff");
  EXPECT_EQ(made.runs[1].name, "keydiff-2");
  EXPECT_EQ(made.runs[1].n_prompt_blocks, 4);
  EXPECT_EQ(made.store, recording::StoreType::kFloat32);
}

class RoundedSource : public ReplayPlanTest, public ::testing::WithParamInterface<recording::StoreType> {};

TEST_P(RoundedSource, IsKnown) {
  capture::CaptureOptions options = test::full_cache_options();
  options.store = GetParam();
  const ReplayPlan made = plan(captured(options), test::replay_options({"keydiff"}));
  EXPECT_EQ(made.store, GetParam());
  EXPECT_THAT(made.provenance.configuration,
              HasSubstr("rounded to " + std::string(recording::store_name(GetParam()))));
}

INSTANTIATE_TEST_SUITE_P(ReplayPlanTest, RoundedSource,
                         ::testing::Values(recording::StoreType::kFloat16, recording::StoreType::kBFloat16));

TEST_F(ReplayPlanTest, RefusesARecordingOfSomeHeads) {
  capture::CaptureOptions options = test::full_cache_options();
  options.heads = {1};
  const std::string source = captured(options);
  EXPECT_THAT(message_of<FileError>([&] { plan(source, test::replay_options({"keydiff"})); }),
              AllOf(HasSubstr("KV heads 1 "), HasSubstr("without --heads")));
}

TEST_F(ReplayPlanTest, RefusesOptionsThatCannotBe) {
  const std::string source = captured();
  const auto refused = [&](const std::function<void(ReplayOptions&)>& change) {
    ReplayOptions options = test::replay_options({"keydiff"});
    change(options);
    return message_of<UsageError>([&] { plan(source, options); });
  };
  EXPECT_THAT(refused([](auto& options) { options.budget = 0; }), HasSubstr("--budget"));
  EXPECT_THAT(refused([](auto& options) { options.block_size = 0; }), HasSubstr("--block"));
  EXPECT_THAT(refused([](auto& options) { options.policies = test::policies({"none"}); }),
              HasSubstr("--policy"));
  EXPECT_THAT(refused([](auto& options) { options.layers = {2}; }),
              AllOf(HasSubstr("--layers: layer 2 was not recorded"), HasSubstr("0, 1")));
  for (const char* text : {"keydiff:granularity=model", "keydiff:split=pyramid", "keydiff:split=cake"})
    EXPECT_THAT(refused([&](auto& options) { options.policies = test::policies({text}); }),
                HasSubstr("capture with it"))
        << text;
  EXPECT_THAT(
      refused([](auto& options) { options.policies = test::policies({"keydiff:granularity=page:64"}); }),
      HasSubstr("at least one page"));
  EXPECT_THAT(refused([](auto& options) { options.run = "sink"; }),
              AllOf(HasSubstr("'sink'"), HasSubstr("none")));
}

TEST_F(ReplayPlanTest, RefusesARunThatEvicted) {
  capture::CaptureOptions options = test::full_cache_options();
  options.policies = test::policies({"none", "keydiff"});
  options.budget = 12;
  const std::string source = captured(options);
  ReplayOptions again = test::replay_options({"sink"});
  again.run = "keydiff";
  EXPECT_THAT(message_of<UsageError>([&] { plan(source, again); }),
              AllOf(HasSubstr("keydiff"), HasSubstr("budget of 12"), HasSubstr("hidden states")));
}

TEST_F(ReplayPlanTest, RefusesWhatWasNotRecorded) {
  capture::CaptureOptions options = test::full_cache_options();
  options.record_values = false;
  const std::string source = captured(options);
  const auto refused = [&](const std::string& policy) {
    return message_of<FileError>([&] { plan(source, test::replay_options({policy})); });
  };
  EXPECT_THAT(refused("cur"), AllOf(HasSubstr("captured.h5"), HasSubstr("values"), HasSubstr("--record")));
  EXPECT_THAT(refused("snapkv:window=20"), AllOf(HasSubstr("attention"), HasSubstr("--record")));
  for (const char* text : {"keydiff:critical=on", "sink:critical=shift,split=adakv"})
    EXPECT_THAT(refused(text), AllOf(HasSubstr("output projection"), HasSubstr("--record keys,value-norms")));
  // The sums of the last queries' weights, which other programs' recordings may lack.
  EXPECT_NO_THROW(plan(source, test::replay_options({"snapkv"})));
  const hid_t file = H5Fopen(source.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  EXPECT_GE(H5Ldelete(file, "/entry/runs/none/layer_01/attention_window", H5P_DEFAULT), 0);
  H5Fclose(file);
  EXPECT_THAT(refused("snapkv"), AllOf(HasSubstr("nor their sums"), HasSubstr("--record")));
  EXPECT_NO_THROW(plan(source, test::replay_options({"keydiff"})));
  options.record_keys = false;
  const std::string keyless = test::capture_to(folder_.file("keyless.h5"), options);
  EXPECT_THAT(message_of<FileError>([&] { plan(keyless, test::replay_options({"sink"})); }),
              AllOf(HasSubstr("keyless.h5"), HasSubstr("keys were not recorded")));
}

// A capture of two runs that is cut short in one of them.
std::string capture_until(const std::filesystem::path& out, int run) {
  capture::CaptureOptions options = test::full_cache_options();
  options.policies = test::policies({"none", "keydiff"});
  options.budget = 12;
  options.generate = 4;
  const auto writer = recording::make_recording_writer(out, false);
  std::array<recording::RecordSink*, 1> sinks{writer.get()};
  capture::CaptureControl control;
  control.on_progress = [&](const capture::CaptureProgress& now) {
    if (now.run_index == run && now.block == 2) control.cancel();
  };
  EXPECT_THROW(capture::run_capture(test::tiny_model(), options, sinks, control), Cancelled);
  return out.string();
}

TEST_F(ReplayPlanTest, RefusesAPromptThatWasNotReadToItsEnd) {
  const std::string source = capture_until(folder_.file("cut.h5"), 0);
  EXPECT_THAT(message_of<FileError>([&] { plan(source, test::replay_options({"keydiff"})); }),
              AllOf(HasSubstr("cut.h5"), HasSubstr("32 of 50")));
}

TEST_F(ReplayPlanTest, TakesAWholeRunOfACaptureThatWasCutShort) {
  const std::string source = capture_until(folder_.file("cut.h5"), 1);
  const auto replayed =
      test::replay_to(folder_.file("replayed.h5"), source, test::replay_options({"keydiff"}));
  const auto info = replayed->info();
  EXPECT_TRUE(info->complete);
  ASSERT_EQ(info->runs.size(), 2u);
  EXPECT_EQ(info->runs[0].n_tokens, 53);
  EXPECT_EQ(info->runs[0].generated.size(), 4);
  EXPECT_EQ(replayed->trace(1, 0, 0).evicted_at.size(), 50u);
}

}  // namespace

// The recording that a replay writes: readers find in it what the source had, and no more than was simulated.

namespace {

namespace fs = std::filesystem;
namespace hdf5 = recording::hdf5;
using recording::Recording;
using ::testing::Each;
using ::testing::IsEmpty;

class ReplayFileTest : public ::testing::Test {
 protected:
  std::string captured(const capture::CaptureOptions& options) {
    return test::capture_to(folder_.file("captured.h5"), options);
  }
  fs::path out() const { return folder_.file("replayed.h5"); }

  // What bytes a dataset of a run's first layer lies in.
  std::string identity(const std::string& run, const std::string& dataset) const {
    const auto file = hdf5::File::open(out());
    return file.root()
        .open_group("entry")
        .open_group("runs")
        .open_group(run)
        .open_group("layer_00")
        .open_dataset(dataset)
        .identity();
  }

  test::ScratchFolder folder_;
};

void expect_same_rows(const Recording& a, int run_a, const Recording& b, int run_b, std::int64_t n) {
  for (const int layer : b.info()->layers) {
    for (int head = 0; head < 2; ++head) {
      EXPECT_EQ(a.keys(run_a, layer, head, 0, n), b.keys(run_b, layer, head));
      EXPECT_EQ(a.values(run_a, layer, head, 0, n), b.values(run_b, layer, head));
    }
    for (int head = 0; head < 4; ++head)
      EXPECT_EQ(a.queries(run_a, layer, head, 0, n), b.queries(run_b, layer, head));
  }
}

void expect_same_run(const Recording& a, const Recording& b) {
  const auto x = a.info()->runs[0], y = b.info()->runs[0];
  EXPECT_EQ(x.plan.name, y.plan.name);
  EXPECT_EQ(x.plan.parameters, y.plan.parameters);
  EXPECT_EQ(x.block_start, y.block_start);
  EXPECT_EQ(x.block_ms, y.block_ms);
  EXPECT_EQ(x.n_tokens, y.n_tokens);
  EXPECT_EQ(x.generated.id, y.generated.id);
  EXPECT_EQ(x.top_ids, y.top_ids);
  EXPECT_EQ(x.top_logits, y.top_logits);
  EXPECT_EQ(a.logits(0), b.logits(0));
  expect_same_rows(a, 0, b, 0, -1);
  for (const int layer : b.info()->layers) {
    for (int head = 0; head < 2; ++head) {
      const auto s = a.trace(0, layer, head), t = b.trace(0, layer, head);
      EXPECT_EQ(s.evicted_at, t.evicted_at);
      EXPECT_EQ(s.attention_received, t.attention_received);
      EXPECT_EQ(s.attention_queries, t.attention_queries);
      EXPECT_EQ(s.attention_last, t.attention_last);
    }
    if (!b.info()->attention) continue;
    EXPECT_EQ(a.attention(0, layer, 3), b.attention(0, layer, 3));
  }
}

TEST_F(ReplayFileTest, HoldsTheSourceRunAndRowsThatLieThereOnce) {
  capture::CaptureOptions options = test::full_cache_options();
  options.record_attention = options.record_logits = options.record_value_norms = true;
  const std::string source = captured(options);
  const auto replayed = test::replay_to(out(), source, test::replay_options({"keydiff", "sink"}));
  const auto info = replayed->info();
  EXPECT_TRUE(info->complete);
  EXPECT_TRUE(info->attention);
  expect_same_run(*recording::open_recording(source), *replayed);
  for (const int run : {1, 2}) expect_same_rows(*replayed, 0, *replayed, run, -1);
  for (const char* name : {"keys", "queries", "values", "value_norms"}) {
    EXPECT_EQ(identity("keydiff", name), identity("none", name));
    EXPECT_EQ(identity("sink", name), identity("none", name));
  }
  EXPECT_NE(identity("keydiff", "evicted_at"), identity("sink", "evicted_at"));
}

TEST_F(ReplayFileTest, OfARunThatGeneratedReplaysThePrompt) {
  capture::CaptureOptions options = test::full_cache_options();
  options.generate = 5;
  const std::string source = captured(options);
  const auto replayed = test::replay_to(out(), source, test::replay_options({"keydiff", "sink"}));
  expect_same_run(*recording::open_recording(source), *replayed);
  EXPECT_EQ(replayed->info()->runs[0].n_tokens, 54);
  for (const int run : {1, 2}) {
    EXPECT_EQ(replayed->info()->runs[run].n_tokens, 50);
    expect_same_rows(*replayed, 0, *replayed, run, 50);
  }
  EXPECT_EQ(identity("sink", "keys"), identity("keydiff", "keys"));
  EXPECT_NE(identity("sink", "keys"), identity("none", "keys"));
}

TEST_F(ReplayFileTest, KnowsNothingOfAttentionUnderEviction) {
  capture::CaptureOptions options = test::full_cache_options();
  options.record_attention = options.record_logits = true;
  const auto replayed = test::replay_to(out(), captured(options), test::replay_options({"keydiff"}));
  const auto& run = replayed->info()->runs[1];
  EXPECT_THAT(run.top_ids, IsEmpty());
  EXPECT_THAT(run.generated.id, IsEmpty());
  EXPECT_EQ(run.n_scored, 0);
  EXPECT_THAT(run.block_ms, Each(::testing::IsNan()));
  for (const int layer : {0, 1}) {
    const auto trace = replayed->trace(1, layer, 1);
    EXPECT_THAT(trace.attention_received, Each(0.0));
    EXPECT_THAT(trace.attention_queries, Each(0));
    EXPECT_THAT(trace.attention_last, Each(0.0F));
  }
  try {
    replayed->attention(1, 0, 0);
    FAIL() << "attention of a run in which nothing attended";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("keydiff was replayed"));
  }
}

TEST_F(ReplayFileTest, KeepsHowTheSourceIsStored) {
  capture::CaptureOptions options = test::full_cache_options();
  options.store = recording::StoreType::kFloat16;
  options.compress = true;
  options.generate = 3;
  const std::string source = captured(options);
  const auto replayed = test::replay_to(out(), source, test::replay_options({"keydiff"}));
  expect_same_run(*recording::open_recording(source), *replayed);
  const auto file = hdf5::File::open(out());
  for (const char* run : {"none", "keydiff"}) {
    const auto keys = file.root()
                          .open_group("entry")
                          .open_group("runs")
                          .open_group(run)
                          .open_group("layer_01")
                          .open_dataset("keys");
    EXPECT_EQ(keys.type(), hdf5::ElementType::kFloat16);
    EXPECT_TRUE(keys.compressed());
  }
}

TEST_F(ReplayFileTest, HoldsOnlyTheLayersAskedFor) {
  ReplayOptions options = test::replay_options({"keydiff"});
  const std::string source = captured(test::full_cache_options());
  const auto whole = test::replay_to(folder_.file("whole.h5"), source, options);
  options.layers = {1};
  const auto replayed = test::replay_to(out(), source, options);
  EXPECT_THAT(replayed->info()->layers, ElementsAre(1));
  for (int head = 0; head < 2; ++head)
    EXPECT_EQ(replayed->trace(1, 1, head).evicted_at, whole->trace(1, 1, head).evicted_at);
}

TEST_F(ReplayFileTest, CanBeReplayedItself) {
  const std::string source = captured(test::full_cache_options());
  const auto once = test::replay_to(folder_.file("once.h5"), source, test::replay_options({"keydiff"}));
  const auto twice =
      test::replay_to(out(), folder_.file("once.h5").string(), test::replay_options({"keydiff"}));
  expect_same_run(*once, *twice);
  for (int head = 0; head < 2; ++head)
    EXPECT_EQ(twice->trace(1, 0, head).evicted_at, once->trace(1, 0, head).evicted_at);
}

// Starts replaying keydiff and sink over `source`, and cancels as soon as a row of `run` is done.
std::string cancel_at(const std::string& source, const fs::path& out, const std::string& run, bool replace) {
  const Source opened = open_source(source);
  std::atomic<bool> cancelled = false;
  try {
    run_replay(
        opened, plan_replay(opened, test::replay_options({"keydiff", "sink"})), {out, replace},
        [&](std::int64_t, const std::string& at) {
          if (at.starts_with(run)) cancelled = true;
        },
        cancelled);
  } catch (const Cancelled& error) {
    return error.what();
  }
  return "it was not cancelled";
}

TEST_F(ReplayFileTest, CancelledKeepsTheRunsThatAreDone) {
  const std::string source = captured(test::full_cache_options());
  EXPECT_THAT(cancel_at(source, out(), "sink", false), HasSubstr("1 of 2"));
  const auto cut = recording::open_recording(out().string());
  const auto info = cut->info();
  EXPECT_FALSE(info->complete);
  ASSERT_EQ(info->runs.size(), 3u);
  EXPECT_EQ(info->runs[1].n_tokens, 50);
  EXPECT_EQ(info->runs[2].n_tokens, 0);
  const auto whole =
      test::replay_to(folder_.file("whole.h5"), source, test::replay_options({"keydiff", "sink"}));
  for (const int layer : {0, 1})
    EXPECT_EQ(cut->trace(1, layer, 0).evicted_at, whole->trace(1, layer, 0).evicted_at);
  expect_same_run(*whole, *cut);
}

TEST_F(ReplayFileTest, CancelledBeforeARunIsDoneLeavesNothing) {
  const std::string source = captured(test::full_cache_options());
  for (const char* run : {"none", "keydiff"}) {
    EXPECT_THAT(cancel_at(source, out(), run, false), HasSubstr("nothing was written"));
    EXPECT_FALSE(fs::exists(out()));
    EXPECT_FALSE(fs::exists(out().string() + ".part"));
  }
}

TEST_F(ReplayFileTest, CutShortReplacesNothing) {
  const std::string source = captured(test::full_cache_options());
  test::replay_to(out(), source, test::replay_options({"random"}));
  EXPECT_THROW(test::replay_to(out(), source, test::replay_options({"sink"})), FileError);
  EXPECT_THAT(cancel_at(source, out(), "sink", true), HasSubstr(".part"));
  EXPECT_EQ(recording::open_recording(out().string())->info()->runs[1].plan.name, "random");
  EXPECT_EQ(recording::open_recording(out().string() + ".part")->info()->runs[1].plan.name, "keydiff");
}

}  // namespace

}  // namespace keyscope::replay
