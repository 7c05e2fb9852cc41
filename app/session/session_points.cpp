// The points of the selected head: read, or sketched first and settled after.

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "app/session/guarded.hpp"
#include "app/session/session.hpp"

namespace keyscope::session {

// Makes `points` the selected head's: from the cache, or by asking the reader for it.
void Session::want_points() {
  want_story();
  if (!state_.loaded()) return;
  list_choices();
  const HeadKey head = state_.head();
  auto cached = points_.find(head);
  if (!cached && state_.points && state_.points->head == head)
    cached = state_.points;  // others took its room
  if (cached) state_.points = cached;
  state_.reading = !cached || cached->n_tokens < state_.run().n_tokens;
  state_.settling = cached && cached->sketched;
  if (state_.reading)
    post_points(head);
  else if (state_.settling)
    settle_points();
  want_picture();
}

// Side by side runs lie along the same axes, so that none is sketched along others.
void Session::post_points(const HeadKey& head) {
  const bool may_sketch = !state_.comparing() && worth_sketching(*state_.info);
  reader_.post("points", [inbox = inbox_, bases = bases_, recording = state_.recording, info = state_.info,
                          earlier = points_.find(head), may_sketch, head, document = document_] {
    guarded(
        [&] {
          auto basis = bases->find(*info, head.layer, head.kv_head);
          if (!basis && !earlier && may_sketch)
            return inbox->put(PointsRead{document, sketch_head_points(*recording, *info, head)});
          if (!basis) basis = bases->get(*recording, *info, head.layer, head.kv_head);
          inbox->put(PointsRead{document,
                                read_head_points(*recording, *info, head, std::move(basis), earlier.get())});
        },
        [&](std::string what) {
          inbox->put(PointsFailed{document, head, std::move(what)});
        });
  });
}

// Beside the reader, so that whoever goes on to the next head does not wait for this one's basis, and not at
// once, so that whoever goes on quickly does not share the processor with it. Where it fails, the sketch is
// what there is.
void Session::settle_points() {
  constexpr std::chrono::milliseconds kStay{100};
  if (settling_asked_ == state_.points) return;
  settling_asked_ = state_.points;
  settler_.post(
      "points",
      [inbox = inbox_, bases = bases_, recording = state_.recording, info = state_.info,
       sketch = state_.points, document = document_] {
        guarded(
            [&] {
              const HeadKey& head = sketch->head;
              auto basis = bases->get(*recording, *info, head.layer, head.kv_head);
              inbox->put(PointsRead{
                  document, read_head_points(*recording, *info, head, std::move(basis), sketch.get())});
            },
            [&](std::string what) {
              auto kept = std::make_shared<HeadPoints>(*sketch);
              kept->sketched = false;
              inbox->put(PointsRead{document, std::move(kept)});
              inbox->put(Notice{std::move(what), true});
            });
      },
      kStay);
}

void Session::take(PointsRead&& result) {
  if (result.document != document_) return;
  const auto known = points_.find(result.points->head);
  const bool is_late = known && result.points->sketched && known->n_tokens >= result.points->n_tokens;
  if (!is_late) points_.put(result.points);
  want_points();
}

}  // namespace keyscope::session
