// The story of the token that is held.

#include "base/errors.hpp"
#include "app/session/guarded.hpp"
#include "app/session/session.hpp"

namespace keyscope::session {

// Makes `story` the held token's, by asking the teller for it. One that is on its way for the same token is
// waited for, though a live run may have gone on meanwhile: it is then told again.
void Session::want_story() {
  const bool held = state_.loaded() && state_.locked && *state_.locked < state_.run().n_tokens;
  const StoryKey key = held ? StoryKey{state_.head(), *state_.locked, state_.run().blocks_done} : StoryKey{};
  if (!held || !key.same_token(state_.story.key)) state_.story = {};
  state_.telling = held && state_.story.key != key;
  if (story_asked_ && key.same_token(*story_asked_)) return;
  if (stop_telling_) *stop_telling_ = true;
  story_asked_.reset();
  if (!state_.telling) return;
  story_asked_ = key;
  stop_telling_ = std::make_shared<std::atomic<bool>>(false);
  teller_.post("story", [inbox = inbox_, recording = state_.recording, stop = stop_telling_, key,
                         document = document_] {
    ToldStory told{key, nullptr, {}};
    guarded(
        [&] {
          told.story = std::make_shared<const measures::TokenStory>(measures::tell_token(
              *recording, {key.head.run, key.head.layer, key.head.kv_head}, key.position, *stop));
        },
        [&](std::string what) { told.error = std::move(what); });
    if (!*stop) inbox->put(StoryTold{document, std::move(told)});
  });
}

void Session::take(StoryTold&& result) {
  if (result.document != document_ || story_asked_ != result.told.key) return;
  story_asked_.reset();
  state_.story = std::move(result.told);
  want_story();
}

}  // namespace keyscope::session
