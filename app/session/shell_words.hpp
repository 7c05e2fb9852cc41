#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace keyscope::session {

// A word as a POSIX shell reads it back: as it is where it is plain, else in single quotes.
std::string quote_word(std::string_view word);

// Words with spaces between them, each quoted where it needs it.
std::string quote_words(const std::vector<std::string>& words);

}  // namespace keyscope::session
