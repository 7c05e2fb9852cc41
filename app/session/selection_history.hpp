#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/session/run_choice.hpp"
#include "app/session/selection.hpp"
#include "app/session/token_selection.hpp"

namespace keyscope::session {

// What was looked at, to go back to: selection, view, held token, selected tokens and runs beside. Stepping
// through blocks is one step back, however many blocks it went through.
class SelectionHistory {
 public:
  struct Moment {
    Selection selection;
    std::string view;
    std::optional<std::int64_t> locked;
    std::shared_ptr<const TokenSet> tokens = nullptr;
    std::vector<RunId> beside = {};
    bool operator==(const Moment&) const = default;
  };

  // What is looked at from now on; what was undone before is forgotten. Without a change nothing happens.
  void note(const Moment& now);

  std::optional<Moment> undo();  // empty: there is nothing before
  std::optional<Moment> redo();  // empty: nothing was undone
  bool can_undo() const { return at_ > 0; }
  bool can_redo() const { return at_ + 1 < moments_.size(); }
  void clear();

  static constexpr std::size_t kMost = 200;  // steps that are kept

 private:
  std::vector<Moment> moments_;
  std::size_t at_ = 0;     // the one that is looked at
  bool stepping_ = false;  // the last step was another block of the same head
};

}  // namespace keyscope::session
