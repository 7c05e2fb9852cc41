// What a capture hands out comes back from memory and from a file alike.

#include <cmath>

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "capture/recording/hand_over.hpp"
#include "capture/recording/recording.hpp"
#include "tests/support/recording_comparison.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/synthetic_capture.hpp"

namespace keyscope::recording {
namespace {

enum class Kind { kMemory, kFile, kHalfFile, kCompressedFile, kSavedFile };

class RoundTrip : public ::testing::TestWithParam<Kind> {
 protected:
  // The same capture through the parameter's sink.
  std::shared_ptr<const Recording> record(SyntheticOptions options = {}) {
    if (GetParam() == Kind::kHalfFile) options.store = StoreType::kFloat16;
    if (GetParam() == Kind::kCompressedFile) options.compress = true;
    capture_ = std::make_unique<SyntheticCapture>(options);
    if (GetParam() == Kind::kMemory) {
      auto memory = MemoryRecording::create();
      capture_->send(*memory);
      memory->end(true);
      return memory;
    }
    const auto path = folder_.path() / "recording.h5";
    auto writer = make_recording_writer(path, false);
    if (GetParam() == Kind::kSavedFile) {
      auto memory = MemoryRecording::create();
      capture_->send(*memory);
      memory->end(true);
      hand_over(*memory, *writer);
      return open_recording(path.string());
    }
    capture_->send(*writer);
    writer->end(true);
    return open_recording(path.string());
  }

  test::ScratchFolder folder_;
  std::unique_ptr<SyntheticCapture> capture_;
};

// Before the first prompt's end, after it, while tokens are generated, and in the second run.
TEST(HandOver, OfWhatWasCutShortGivesTheBlocksThatThereAre) {
  for (const SyntheticOptions& options : {SyntheticOptions(), sinks_and_experts()}) {
    const SyntheticCapture capture(options);
    for (const int n_blocks : {0, 1, 3, 6, 7, 8, 10, 12, 13, 19, 21}) {
      const test::ScratchFolder folder;
      const auto memory = MemoryRecording::create();
      capture.send(*memory, n_blocks);
      memory->end(false);
      hand_over(*memory, *make_recording_writer(folder.file("cut.h5"), false));
      const auto saved = open_recording(folder.file("cut.h5").string());
      EXPECT_FALSE(saved->info()->complete);
      expect_same(*memory, *saved);
      EXPECT_FALSE(::testing::Test::HasFailure()) << "after " << n_blocks << " blocks";
    }
  }
}

TEST_P(RoundTrip, GivesTheSameAsMemory) {
  const auto recording = record();
  auto memory = MemoryRecording::create();
  capture_->send(*memory);
  memory->end(true);
  expect_same(*memory, *recording);
  EXPECT_TRUE(recording->info()->complete);
}

TEST_P(RoundTrip, GivesEveryRowThatWasSent) {
  const auto recording = record();
  const auto plan = capture_->plan();
  for (int run = 0; run < 2; ++run) {
    for (int b = 0; b < capture_->n_blocks(run); ++b) {
      const auto block = capture_->block(run, b);
      for (const LayerBlock& layer : block->layers) {
        for (int h = 0; h < plan->model.n_kv_heads; ++h) {
          const RowMatrixF keys = recording->keys(run, layer.layer, h, block->start, block->n_new);
          const auto sent = view_rows(layer.keys.data() + h * keys.size(), keys.rows(), keys.cols());
          EXPECT_EQ(keys, sent) << run << " " << b;
        }
        const std::int64_t n_seen = block->start + block->n_new;
        for (int h = 0; h < plan->model.n_heads; ++h) {
          const RowMatrixF rows = recording->attention(run, layer.layer, h, block->start, block->n_new);
          const auto sent =
              view_rows(layer.attention_rows.data() + h * (block->n_new * n_seen), block->n_new, n_seen);
          EXPECT_EQ(rows.leftCols(n_seen), sent);
          EXPECT_TRUE((rows.rightCols(rows.cols() - n_seen).array() == 0).all());
        }
      }
    }
  }
}

TEST_P(RoundTrip, SumsAttentionOverPromptBlocks) {
  const auto recording = record();
  const auto plan = capture_->plan();
  for (int run = 0; run < 2; ++run) {
    const HeadTrace trace = recording->trace(run, 2, 1);
    std::vector<double> received(trace.attention_received.size(), 0);
    std::vector<std::int32_t> queries(received.size(), 0), evicted_at(received.size(), -1);
    for (int b = 0; b < capture_->n_blocks(run); ++b) {
      const auto block = capture_->block(run, b);
      const LayerBlock& layer = block->layers[1];
      for (const auto position : layer.evictions[1].position) evicted_at[position] = b;
      if (layer.attention.empty()) continue;
      const HeadAttention& head = layer.attention[1];
      for (std::size_t i = 0; i < head.position.size(); ++i) {
        received[head.position[i]] += head.received[i];
        queries[head.position[i]] += head.queries[i];
      }
    }
    EXPECT_EQ(trace.attention_received, received);
    EXPECT_EQ(trace.attention_queries, queries);
    EXPECT_EQ(trace.evicted_at, evicted_at);
  }
}

TEST_P(RoundTrip, KeepsSinksExpertsAndLayersWithoutKeys) {
  const auto recording = record(sinks_and_experts());
  const auto info = recording->info();
  EXPECT_EQ(info->layers, (std::vector<int>{0, 2}));
  EXPECT_EQ(info->keyless_layers, std::vector<int>{1});
  EXPECT_EQ(info->expert_layers, (std::vector<int>{1, 2}));
  EXPECT_EQ(info->n_experts, 8);
  EXPECT_EQ(info->experts_per_token, 2);
  for (int run = 0; run < 2; ++run) {
    const RowMatrixD sinks = recording->statistics(run, 2).sink;
    const LayerRouting routing = recording->routing(run, 1);
    ASSERT_EQ(sinks.cols(), 7);
    ASSERT_EQ(routing.experts.rows(), info->runs[run].n_tokens);
    for (int b = 0; b < capture_->n_blocks(run); ++b) {
      const auto sent = capture_->routing(run, b, 1);
      EXPECT_EQ(routing.experts(sent->first, 1), sent->experts[1]);
      EXPECT_EQ(routing.entropy[sent->first], sent->entropy[0]);
      if (b < 7) {
        EXPECT_EQ(sinks(3, b), capture_->block(run, b)->layers[2].attention_sink[3]);
      }
    }
    EXPECT_EQ(recording->sink_logits(run, 2), capture_->block(run, 0)->layers[2].sink_logits);
    EXPECT_EQ(recording->routing(run, 0).experts.rows(), 0);
  }
  auto memory = MemoryRecording::create();
  capture_->send(*memory);
  memory->end(true);
  expect_same(*memory, *recording);
}

TEST_P(RoundTrip, RefusesHeadsOfALayerWithoutKeysByName) {
  const auto recording = record(sinks_and_experts());
  try {
    recording->keys(0, 1, 0);
    FAIL() << "layer 1 has no keys";
  } catch (const FileError& error) {
    EXPECT_NE(
        std::string(error.what()).find("layer 1 has no keys: its mixer is recurrent; layers with keys: 0, 2"),
        std::string::npos)
        << error.what();
  }
  EXPECT_THROW(recording->trace(0, 1, 0), FileError);
  EXPECT_THROW(recording->statistics(0, 1), FileError);
}

TEST_P(RoundTrip, HasNothingOfSinksWhereThereAreNone) {
  const auto recording = record();
  EXPECT_FALSE(recording->info()->sinks);
  EXPECT_EQ(recording->statistics(0, 2).sink.size(), 0);
  EXPECT_TRUE(recording->sink_logits(0, 2).empty());
  EXPECT_EQ(recording->routing(0, 2).experts.size(), 0);
}

TEST_P(RoundTrip, EndsWhereGenerationEnded) {
  const auto recording = record();
  const auto info = recording->info();
  EXPECT_EQ(info->runs[0].generated.size(), 6);
  EXPECT_EQ(info->runs[0].n_tokens, 50 + 5);
  EXPECT_EQ(info->runs[1].generated.size(), 4);
  EXPECT_EQ(info->runs[1].n_tokens, 50 + 3);
  EXPECT_EQ(info->runs[1].blocks_done, 7 + 3);
  EXPECT_EQ(recording->keys(1, 0, 0).rows(), 53);
}

TEST_P(RoundTrip, KeepsNoMoreThanAsked) {
  SyntheticOptions options;
  options.values = options.attention = options.logits = false;
  options.max_generated = options.n_generated = 0;
  const auto recording = record(options);
  EXPECT_EQ(recording->info()->runs[0].n_tokens, 50);
  EXPECT_EQ(recording->logits(0).rows(), 0);
  EXPECT_THROW(recording->values(0, 0, 0), FileError);
  EXPECT_THROW(recording->attention(0, 0, 0), FileError);
}

TEST_P(RoundTrip, ReadsTheQueriesOfAGroupTogether) {
  const auto recording = record();
  const int group = capture_->plan()->model.group_size(2);
  for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, -1}, {3, 20}, {7, 0}}) {
    const RowMatrixF all = recording->group_queries(1, 2, 1, first, count);
    for (int g = 0; g < group; ++g) {
      const RowMatrixF own = recording->queries(1, 2, group + g, first, count);
      ASSERT_EQ(all.rows(), group * own.rows());
      EXPECT_EQ(all.middleRows(g * own.rows(), own.rows()), own);
    }
  }
}

TEST_P(RoundTrip, RefusesPlacesThatAreNotThere) {
  const auto recording = record();
  EXPECT_THROW(recording->group_queries(0, 0, 2, 0, 1), FileError);
  EXPECT_THROW(recording->group_queries(0, 0, -1, 0, 1), FileError);
  EXPECT_THROW(recording->keys(2, 0, 0), FileError);
  EXPECT_THROW(recording->keys(-1, 0, 0), FileError);
  EXPECT_THROW(recording->keys(0, 1, 0), FileError);  // not recorded
  EXPECT_THROW(recording->keys(0, 0, 2), FileError);
  EXPECT_THROW(recording->queries(0, 0, 4), FileError);
  EXPECT_THROW(recording->keys(0, 0, 0, 54, 2), FileError);
  EXPECT_THROW(recording->keys(0, 0, 0, -1, 2), FileError);
  EXPECT_THROW(recording->trace(0, 0, -1), FileError);
  EXPECT_THROW(recording->attention(0, 0, 0, 56, 1), FileError);
  EXPECT_THROW(recording->logits(5), FileError);
  EXPECT_EQ(recording->keys(0, 0, 0, 55, 0).rows(), 0);
}

std::string name_of(const ::testing::TestParamInfo<Kind>& kind) {
  switch (kind.param) {
    case Kind::kMemory:
      return "Memory";
    case Kind::kFile:
      return "File";
    case Kind::kHalfFile:
      return "HalfFile";
    case Kind::kCompressedFile:
      return "CompressedFile";
    case Kind::kSavedFile:
      return "SavedFile";
  }
  return "Unknown";
}
INSTANTIATE_TEST_SUITE_P(Sinks, RoundTrip,
                         ::testing::Values(Kind::kMemory, Kind::kFile, Kind::kHalfFile, Kind::kCompressedFile,
                                           Kind::kSavedFile),
                         name_of);

TEST(MemoryRecording, GrowsFromBlockToBlock) {
  const SyntheticCapture capture;
  auto memory = MemoryRecording::create();
  memory->begin(capture.plan());
  EXPECT_EQ(memory->info()->runs[0].blocks_done, 0);
  const auto before = memory->info();
  memory->block(capture.block(0, 0));
  EXPECT_EQ(before->runs[0].blocks_done, 0) << "a snapshot does not change";
  EXPECT_EQ(memory->info()->runs[0].n_tokens, 8);
  EXPECT_EQ(memory->keys(0, 0, 0).rows(), 8);
  EXPECT_EQ(memory->info(), memory->info()) << "no copy while nothing changes";
}

TEST(MemoryRecording, RefusesRecordsThatDoNotFit) {
  const SyntheticCapture capture;
  auto memory = MemoryRecording::create();
  memory->begin(capture.plan());
  EXPECT_THROW(memory->block(capture.block(0, 1)), InvalidInput) << "block 0 comes first";
  auto broken = std::make_shared<BlockRecord>(*capture.block(0, 0));
  broken->layers[0].keys.pop_back();
  EXPECT_THROW(memory->block(broken), InvalidInput);
  auto unsorted = std::make_shared<BlockRecord>(*capture.block(0, 0));
  std::swap(unsorted->layers[0].attention[0].position[0], unsorted->layers[0].attention[0].position[1]);
  EXPECT_THROW(memory->block(unsorted), InvalidInput);
  EXPECT_EQ(memory->info()->runs[0].blocks_done, 0);
}

}  // namespace
}  // namespace keyscope::recording
