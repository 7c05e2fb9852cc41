#pragma once

#include <string>
#include <string_view>

namespace keyscope::figures {

// A token's bytes as one readable line: a leading space as "·", line breaks as "↵", tabs as "⇥", other
// control characters and bytes that are no UTF-8 as "<0A>".
std::string token_label(std::string_view bytes);

// The same for running text: spaces stay spaces.
std::string text_label(std::string_view bytes);

}  // namespace keyscope::figures
