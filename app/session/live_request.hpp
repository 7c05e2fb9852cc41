#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "app/session/live.hpp"
#include "capture/inference/capture.hpp"
#include "capture/model/model.hpp"
#include "capture/recording/recording.hpp"
#include "capture/tokenizer/chat_template.hpp"

namespace keyscope::session {

// A model to run live. The prompt is `options.prompt_ids` if there are any, else `prompt` as the model's
// tokenizer reads it, or the text of `prompt_file`.
struct LiveRequest {
  std::filesystem::path model_folder;  // or ORG/NAME[@REVISION]
  capture::ModelOptions model;
  std::string prompt;
  std::filesystem::path prompt_file;       // read instead of `prompt` when it runs; empty: none
  tokenizer::PromptForm form;              // how `prompt` is read
  std::optional<std::int64_t> max_tokens;  // keep only the first of the prompt's tokens
  capture::CaptureOptions options;
  bool paused = false;        // begins paused, before the first block
  std::filesystem::path out;  // also recorded into this file; empty: in memory only
  bool replace = false;       // whether `out` may exist
};

// Loads the model, reads the prompt, runs every policy. What is wrong with the request is thrown when it
// runs, in the words of the model, the tokenizer and the capture.
LiveCapture make_live_capture(LiveRequest request);

// What keeps a request from being run, field by field, in words that stand beside the field; empty where
// there is nothing. What only the model knows is said when it runs.
struct LiveProblems {
  std::string model, prompt, policies, budget, block, generate, out;

  // The first of them; empty: the request can be run.
  std::string first() const;
};

LiveProblems check_live(const LiveRequest& request);

// How many tokens the prompt of a request has, counted on a thread of its own while it is written.
class PromptCounter {
 public:
  //   wake: called on that thread when a count is there
  explicit PromptCounter(std::function<void()> wake);
  PromptCounter(const PromptCounter&) = delete;
  PromptCounter& operator=(const PromptCounter&) = delete;
  ~PromptCounter();

  // Of this request; nullopt where it is not counted yet, and where it cannot be: running it says why.
  std::optional<std::int64_t> count(const LiveRequest& request);

 private:
  // What the number of tokens depends on.
  struct Prompt {
    std::filesystem::path model, file;
    std::string text;
    tokenizer::PromptForm form;
    std::optional<std::int64_t> most;
    bool operator==(const Prompt&) const = default;
  };
  void run();
  static std::int64_t count_tokens(const Prompt& prompt, const tokenizer::FolderTokenizer& tokenizer);

  std::function<void()> wake_;
  std::mutex mutex_;
  std::condition_variable asked_;
  std::optional<Prompt> wanted_, counted_;
  std::optional<std::int64_t> n_tokens_;  // of counted_; none where it cannot be counted
  bool ends_ = false;
  std::thread thread_;
};

// The right answer to a prompt, where a list of prompts beside its file says it ("file", "expected" in
// prompts.json); else empty.
std::string known_answer(const std::filesystem::path& prompt_file);

// The embedded model on the prompt that it answers, under four policies at a quarter of its tokens.
//   throws FileError where the assets are not there
LiveRequest demo_request();

// The model that a recording was captured with, as its command names it; empty where it names none.
std::string model_of(const recording::RecordingInfo& info);

// Models of the Hugging Face cache whose names hold what was typed, in any case: four at most, none once it
// names a model.
std::vector<std::string> suggested_models(std::string_view typed);

// What a path that was dropped on the window is.
enum class DroppedKind {
  kModel,      // a folder with a config.json
  kPrompt,     // a text
  kRecording,  // anything else: opening it says what is wrong with it
};
DroppedKind kind_of_dropped(const std::filesystem::path& path);

}  // namespace keyscope::session
