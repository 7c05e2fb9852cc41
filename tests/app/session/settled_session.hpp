#pragma once

// A session on an invented recording, and waiting for its workers.

#include <chrono>
#include <memory>
#include <thread>

#include "app/session/session.hpp"
#include "tests/support/synthetic_recording.hpp"

namespace keyscope::session {

inline constexpr SyntheticSize kSmall{.n_tokens = 320, .block_size = 64, .budget = 128};
inline constexpr SyntheticSize kFiveBlocks{
    .n_layers = 2, .n_kv_heads = 2, .head_dim = 8, .n_tokens = 300, .block_size = 64, .budget = 128};

// Takes in what workers send until `done`, or for twenty seconds.
template <typename Condition>
bool drain_until(Session& session, const Condition& done) {
  for (int i = 0; i < 4000; ++i) {
    session.drain();
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

// Until no worker owes anything.
inline bool settle(Session& session) {
  return drain_until(session, [&] { return !session.busy(); }) && (session.drain(), true);
}

inline std::shared_ptr<SyntheticRecording> small_recording() {
  return std::make_shared<SyntheticRecording>(kSmall);
}

// The figure that is looked at, of the selected run.
inline const MadeFigure& shown_in(const Session& session) {
  return session.state().selected().figure(session.state().view).made;
}

// All of a head in one reading.
inline std::shared_ptr<const HeadPoints> read_at_once(const recording::Recording& recording,
                                                      const HeadKey& head) {
  auto basis = std::make_shared<const figures::KeyspaceBasis>(
      figures::fit_keyspace_basis(recording, head.layer, head.kv_head));
  return read_head_points(recording, *recording.info(), head, std::move(basis), nullptr);
}

}  // namespace keyscope::session
