#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "app/measures/token_story.hpp"
#include "app/session/head_points.hpp"

namespace keyscope::session {

// A token in one head of one run, as far as the run had gone.
struct StoryKey {
  HeadKey head;
  std::int64_t position = -1;
  std::int64_t blocks_done = 0;

  bool operator==(const StoryKey&) const = default;
  bool same_token(const StoryKey& other) const { return head == other.head && position == other.position; }
};

// A story that was told, or why it could not be.
struct ToldStory {
  StoryKey key;
  std::shared_ptr<const measures::TokenStory> story;  // null: see `error`
  std::string error;
};

}  // namespace keyscope::session
