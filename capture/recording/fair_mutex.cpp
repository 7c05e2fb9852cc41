#include "capture/recording/fair_mutex.hpp"

namespace keyscope::recording {

void FairMutex::lock() {
  const std::thread::id me = std::this_thread::get_id();
  if (owner_ != me) {
    std::unique_lock gate(gate_);
    const std::uint64_t turn = n_came_++;
    next_turn_.wait(gate, [&] { return n_left_ == turn; });
    owner_ = me;
  }
  ++depth_;
}

void FairMutex::unlock() {
  if (--depth_ > 0) return;
  {
    const std::lock_guard gate(gate_);
    owner_ = std::thread::id();
    ++n_left_;
  }
  next_turn_.notify_all();
}

}  // namespace keyscope::recording
