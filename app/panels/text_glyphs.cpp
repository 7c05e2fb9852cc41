#include "app/panels/text_glyphs.hpp"

#include <algorithm>
#include <string>

#include "app/figures/token_label.hpp"
#include "app/session/tokens.hpp"
#include "base/text.hpp"

namespace keyscope::window {

bool TextGlyphs::take(const session::SessionState& state, const Has& has) {
  if (!state.loaded()) return false;
  if (state.recording.get() != recording_) {
    recording_ = state.recording.get();
    run_ = state.selection.run;
    n_read_ = 0;
  }
  if (state.selection.run != run_) {  // the prompt is the same
    run_ = state.selection.run;
    n_read_ = std::min(n_read_, state.info->n_prompt());
  }
  const std::size_t n_before = found_.size();
  const std::int64_t n = std::max(state.info->n_prompt(), state.run().n_tokens);
  for (; n_read_ < n; ++n_read_) {
    const std::string label = figures::text_label(session::token_bytes(*state.info, run_, n_read_));
    for (std::size_t at = 0; at < label.size();) {
      const char32_t character = tokenizer::next_code_point(label, at);
      if (found_.size() < kMostGlyphs && !has(character)) found_.insert(character);
    }
  }
  return found_.size() > n_before;
}

}  // namespace keyscope::window
