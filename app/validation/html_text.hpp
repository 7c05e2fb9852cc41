#pragma once

#include <string>
#include <string_view>

namespace keyscope::validation {

// Any bytes as the text of an HTML page, also inside a quoted attribute: markup characters become entities,
// control characters spaces, and what is no UTF-8 becomes U+FFFD.
std::string html_text(std::string_view text);

// Bytes as a URL that holds them, for a page that refers to nothing outside it.
//   media_type: "image/svg+xml"
std::string data_url(std::string_view media_type, std::string_view bytes);

}  // namespace keyscope::validation
