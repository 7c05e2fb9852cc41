#pragma once

#include <string_view>

namespace keyscope::evaluation {

// A file's name or a text of the command line that results name or hold: they are JSON, which is UTF-8.
//   throws UsageError naming the option where it is not
void check_utf8(std::string_view value, std::string_view option);

}  // namespace keyscope::evaluation
