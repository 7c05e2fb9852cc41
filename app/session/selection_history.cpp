#include "app/session/selection_history.hpp"

namespace keyscope::session {
namespace {

bool differ_in_block_alone(SelectionHistory::Moment a, const SelectionHistory::Moment& b) {
  a.selection.block = b.selection.block;
  return a == b;
}

}  // namespace

void SelectionHistory::note(const Moment& now) {
  if (moments_.empty()) {
    moments_.push_back(now);
    return;
  }
  if (now == moments_[at_]) return;
  moments_.resize(at_ + 1);
  const bool step = differ_in_block_alone(now, moments_[at_]);
  if (step && stepping_) {
    moments_[at_] = now;
    return;
  }
  stepping_ = step;
  moments_.push_back(now);
  if (moments_.size() > kMost) moments_.erase(moments_.begin());
  at_ = moments_.size() - 1;
}

std::optional<SelectionHistory::Moment> SelectionHistory::undo() {
  if (!can_undo()) return std::nullopt;
  stepping_ = false;
  return moments_[--at_];
}

std::optional<SelectionHistory::Moment> SelectionHistory::redo() {
  if (!can_redo()) return std::nullopt;
  stepping_ = false;
  return moments_[++at_];
}

void SelectionHistory::clear() {
  moments_.clear();
  at_ = 0;
  stepping_ = false;
}

}  // namespace keyscope::session
