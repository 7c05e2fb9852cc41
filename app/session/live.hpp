#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

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

// A capture that hands its blocks to `sinks` and obeys `control`, on the thread that calls it.
using LiveCapture =
    std::function<void(std::span<recording::RecordSink* const> sinks, capture::CaptureControl& control)>;

// Loads the model, reads the prompt, runs every policy. What is wrong with the request is thrown when it
// runs, in the words of the model, the tokenizer and the capture.
LiveCapture make_live_capture(LiveRequest request);

// How fast a capture is now: of the prompt, which goes by in blocks, and of what it generates, token by
// token, which is much slower. The time between two reports counts, except where the capture was held.
class LivePace {
 public:
  using Clock = std::chrono::steady_clock;

  //   held: the capture was paused at some moment since the last report
  void note(const capture::CaptureProgress& progress, Clock::time_point now, bool held);

  // Tokens a second, of the last seconds more than of those before; 0: not known yet.
  double prompt_rate() const { return prompt_; }
  double generation_rate() const { return generation_; }
  double last_rate() const { return last_generated_ ? generation_ : prompt_; }

 private:
  std::optional<Clock::time_point> last_;
  std::int64_t last_tokens_ = 0;
  bool last_generated_ = false;
  double prompt_ = 0, generation_ = 0;
};

// What the runs still have to do. Runs may end earlier: with a token that ends the text.
struct LiveWork {
  std::int64_t prompt_tokens = 0, generated_tokens = 0;
};
LiveWork work_left(const recording::RecordingInfo& info);

// Seconds until `work` is done at this pace; empty where the pace of a part of it is not known.
std::optional<double> seconds_left(const LiveWork& work, const LivePace& pace);

enum class LiveStage { kStarting, kRunning, kPaused, kStopping, kDone, kCancelled, kFailed };

struct LiveStatus {
  LiveStage stage = LiveStage::kStarting;
  capture::CaptureProgress progress;
  LivePace pace;
  std::string message;                     // why it failed
  std::optional<std::int64_t> stop_after;  // the token after which it pauses
  double rate = 0;                         // blocks a second, at most; 0: as fast as it goes
  // Of its first progress, when the model was loaded, and of its end.
  std::chrono::steady_clock::time_point began, ended;

  bool going_on() const { return stage < LiveStage::kDone; }
};

// One live capture on a thread of its own, into a recording in memory that can be read meanwhile.
class LiveRunner {
 public:
  // `wake` is called on the runner's thread: after blocks, at most every kWakeInterval, and at the end.
  LiveRunner(LiveCapture capture, std::function<void()> wake, bool paused = false);

  // Cancels and waits: at most for the block in flight. What was recorded by then is kept.
  ~LiveRunner();
  LiveRunner(const LiveRunner&) = delete;
  LiveRunner& operator=(const LiveRunner&) = delete;

  void pause();
  void resume();
  void step();  // lets one block pass, of all runs that go together, then pauses
  void cancel();
  void stop_after(std::optional<std::int64_t> position);  // pauses once this token was read
  void set_rate(double blocks_per_second);                // 0: as fast as it goes

  LiveStatus status() const;
  std::shared_ptr<const recording::Recording> recording() const { return recording_; }

  static constexpr std::chrono::milliseconds kWakeInterval{250};

 private:
  void run(const LiveCapture& capture);
  void note_progress(const capture::CaptureProgress& progress);
  void note_pause();  // by itself
  void finish(LiveStage stage, std::string message);

  std::shared_ptr<recording::MemoryRecording> recording_;
  capture::CaptureControl control_;
  std::function<void()> wake_;
  mutable std::mutex mutex_;
  LiveStatus status_;
  bool held_ = false;  // paused since the last report
  std::chrono::steady_clock::time_point last_wake_{};
  std::thread thread_;
};

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

// Where a live run stands: "keydiff, block 5 of 16, 812 tokens/s, 12 s left", and while it generates
// "keydiff, token 3 of 64: …ing door·".
//   info: of what it recorded so far
std::string describe_live(const LiveStatus& status, const recording::RecordingInfo& info);

// The share of the work that is done, from 0 to 1.
double share_done(const LiveStatus& status);

}  // namespace keyscope::session
