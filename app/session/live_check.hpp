#pragma once

#include <filesystem>
#include <string>

#include "app/session/live_capture.hpp"

namespace keyscope::session {

// What keeps a request from being run, field by field, in words that stand beside the field; empty where
// there is nothing. What only the model can tell is said when it runs.
struct LiveProblems {
  std::string model, prompt, policies, budget, block, generate, out;

  // The first of them; empty: the request can be run.
  std::string first() const;
};

LiveProblems check_live(const LiveRequest& request);

// What a path that was dropped on the window is.
enum class DroppedKind {
  kModel,      // a folder with a config.json
  kPrompt,     // a text
  kRecording,  // anything else: opening it says what is wrong with it
};
DroppedKind kind_of_dropped(const std::filesystem::path& path);

// The path itself where no such file exists, else the first free one of run-2.h5, run-3.h5 …
std::filesystem::path free_name(const std::filesystem::path& path);

}  // namespace keyscope::session
