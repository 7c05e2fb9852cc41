#include "tests/capture/recording/read_everything.hpp"

#include "base/errors.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::recording {
namespace {

void read_layer(const Recording& recording, const RecordingInfo& info, int run, int layer) {
  recording.statistics(run, layer);
  recording.sink_logits(run, layer);
  for (int h = 0; h < info.model.n_kv_heads; ++h) {
    const HeadTrace trace = recording.trace(run, layer, h);
    const RunInfo& about = info.runs[run];
    for (std::int64_t b = 0; b < about.blocks_done; ++b)
      retained_positions(trace.evicted_at, tokens_seen(about, b), b);
    if (!info.heads.has(h)) continue;
    if (info.keys) recording.keys(run, layer, h);
    if (info.values) recording.values(run, layer, h);
  }
  for (int h = 0; h < info.model.n_heads; ++h) {
    if (!info.heads.has(h / info.model.group_size(0))) continue;
    if (info.queries) recording.queries(run, layer, h);
    if (info.attention) recording.attention(run, layer, h);
  }
}

}  // namespace

std::string read_everything(const std::string& path) {
  try {
    const auto recording = open_recording(path);
    const auto info = recording->info();
    for (std::int64_t i = 0; i < info->n_prompt(); ++i) info->prompt.token(i);
    for (int run = 0; run < static_cast<int>(info->runs.size()); ++run) {
      const TokenText& generated = info->runs[run].generated;
      for (std::int64_t i = 0; i < generated.size(); ++i) generated.token(i);
      recording->logits(run);
      for (const int layer : info->all_layers()) recording->routing(run, layer);
      for (const int layer : info->layers) read_layer(*recording, *info, run, layer);
    }
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

}  // namespace keyscope::recording
