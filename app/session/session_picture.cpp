// How the session comes to the picture of the key space.

#include <algorithm>
#include <utility>

#include "app/session/session.hpp"

namespace keyscope::session {

void Session::want_picture() {
  want_own_picture();
  want_beside();
}

// Makes `picture` what is selected, at once where it costs less than a frame, else by asking the reader for
// it. What is shown meanwhile is the picture before it.
void Session::want_own_picture() {
  state_.drawing = false;
  const auto& points = state_.points;
  if (!state_.loaded() || !points || state_.view != kKeyspaceView) return;
  const PictureKey key{points->head, points->n_tokens,
                       std::min(state_.selection.block, points->n_blocks() - 1), state_.look};
  if (state_.picture && state_.picture->key == key && state_.picture->points == points) return;
  if (!asks_for_work(key.look)) {
    picture_asked_.reset();
    state_.picture = make_picture(*state_.recording, *state_.info, points, key, *queries_);
    return;
  }
  state_.drawing = true;
  if (picture_asked_ == key) return;
  picture_asked_ = key;
  reader_.post("picture", [inbox = inbox_, recording = state_.recording, info = state_.info,
                           queries = queries_, points, key, document = document_] {
    inbox->put(PictureMade{document, make_picture_anyway(*recording, *info, points, key, *queries)});
  });
}

// One that comes late, when another moment is asked for already, is later than what is shown: without it,
// nothing would move while blocks go by faster than pictures are made.
void Session::take(PictureMade&& result) {
  if (result.document != document_) return;
  if (picture_asked_ == result.picture->key) picture_asked_.reset();
  if (RunTile* tile = tile_beside(result.picture->key.head)) {
    give_picture(*tile, std::move(result.picture));
    return;
  }
  if (result.picture->key.look == state_.look) state_.picture = std::move(result.picture);
  want_picture();
}

}  // namespace keyscope::session
