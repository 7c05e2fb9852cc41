#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capture/inference/capture.hpp"
#include "capture/model/model.hpp"
#include "capture/tokenizer/chat_template.hpp"

namespace keyscope::session {

// A model to run live. The prompt is `options.prompt_ids` if there are any, else `prompt` as the model's
// tokenizer reads it, or the text of `prompt_file`.
struct LiveRequest {
  std::filesystem::path model_folder;
  capture::ModelOptions model;
  std::string prompt;
  std::filesystem::path prompt_file;       // read instead of `prompt` when it runs; empty: none
  tokenizer::PromptForm form;              // how `prompt` is read
  std::optional<std::int64_t> max_tokens;  // keep only the first of the prompt's tokens
  capture::CaptureOptions options;
  std::filesystem::path out;  // also recorded into this file; empty: in memory only
  bool replace = false;       // whether `out` may exist
};

// A capture that hands its blocks to `sinks` and obeys `control`, on the thread that calls it.
using LiveCapture =
    std::function<void(std::span<recording::RecordSink* const> sinks, capture::CaptureControl& control)>;

// Loads the model, reads the prompt, runs every policy. What is wrong with the request is thrown when it
// runs, in the words of the model, the tokenizer and the capture.
LiveCapture make_live_capture(LiveRequest request);

}  // namespace keyscope::session
