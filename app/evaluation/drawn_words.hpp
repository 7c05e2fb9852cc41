#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace keyscope::evaluation {

// What examples are made of unless files say otherwise: keys of needles and of phone books. Those are the
// words that the demo model was trained to look up.
std::span<const std::string_view> city_names();
std::span<const std::string_view> first_names();

struct Words {
  std::vector<std::string> words;
  std::vector<std::string> bad_rows;  // that were left out, each naming file and line
};

// The words of a file, one a line, without white space at their ends; the embedded ones where its path is
// empty.
//   skip_bad: go on without a line that is there twice, is no UTF-8, has control characters or is blank
//   throws FileError where it cannot be read or has no line, and naming bad ones unless they are skipped
Words words_of(const std::string& path, std::span<const std::string_view> embedded, bool skip_bad);

}  // namespace keyscope::evaluation
