#pragma once

#include <string>

namespace keyscope::figures {

// A png that says how large it is on paper (chunk pHYs, PNG specification 11.3.5.3), so that LaTeX and word
// processors place it at the width it was drawn for. cairo leaves that out.
//   png: a whole file as cairo writes it; anything else comes back as it is
std::string with_resolution(std::string png, double dpi);

}  // namespace keyscope::figures
