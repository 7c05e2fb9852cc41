#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>

#include "app/session/session.hpp"

namespace keyscope::window {

// The characters of the texts that were shown that the font for tokens did not have when they came.
class TextGlyphs {
 public:
  static constexpr std::size_t kMostGlyphs = 8000;  // each takes room on the graphics card

  using Has = std::function<bool(char32_t character)>;

  // Reads what is new of the selected run's text; whether a character came that is not there yet.
  //   has: whether the font has it
  bool take(const session::SessionState& state, const Has& has);

  const std::set<char32_t>& found() const { return found_; }

 private:
  std::set<char32_t> found_;
  const void* recording_ = nullptr;
  int run_ = -1;  // whose generated tokens were read
  std::int64_t n_read_ = 0;
};

}  // namespace keyscope::window
