#pragma once

#include <optional>
#include <string_view>

namespace keyscope::session {

// How well what was typed fits a text; empty where it does not. Every word of `wanted` must stand in `text`
// letter by letter in this order, in either case, with anything between. What begins words and what stands
// together counts more, and of equally good texts the shorter one wins. An empty `wanted` fits everything.
// The quickest route through the letters is not always the best, so all are tried: O(|wanted| · |text|).
std::optional<int> fuzzy_score(std::string_view wanted, std::string_view text);

}  // namespace keyscope::session
