#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "capture/recording/recording.hpp"

namespace keyscope::figures {

// Checks of what is asked for against what a recording holds; each throws UsageError saying what there is.
void require_run(const recording::RecordingInfo& info, int run);
int find_run(const recording::RecordingInfo& info, std::string_view name);
// Names given twice mean one run: each once, where it was first given.
std::vector<std::string> without_repeats(const std::vector<std::string>& runs);
void require_layer(const recording::RecordingInfo& info, int layer);
// Heads whose rows were recorded, for every figure is made of them; a query head by the KV head that it
// reads.
void require_kv_head(const recording::RecordingInfo& info, int kv_head);
void require_query_head(const recording::RecordingInfo& info, int query_head);

// A figure of keys needs recorded keys: FileError otherwise.
void require_keys(const recording::RecordingInfo& info);

// The block asked for, or the run's last prompt block for -1. A run without any block yet gives -1.
std::int64_t resolve_block(const recording::RunInfo& run, std::int64_t block);

// Tokens seen by the end of a block from resolve_block; 0 for -1.
std::int64_t tokens_seen_by(const recording::RunInfo& run, std::int64_t block);

// The `none` run, else the first one; -1 in a recording without runs.
int reference_run(const recording::RecordingInfo& info);

// "TinyStories-656K, prompt of 512 tokens".
std::string describe_prompt(const recording::RecordingInfo& info);

// "TinyStories-656K, prompt of 512 tokens, keydiff N = 64, B = 128": what a figure's caption says of a run.
std::string describe_run(const recording::RecordingInfo& info, const recording::RunInfo& run);

}  // namespace keyscope::figures
