#pragma once

#include <CLI/App.hpp>

namespace keyscope::commands {

// Checks for options that count something: "expected 1 or more, found 0".
CLI::Validator one_or_more();
CLI::Validator zero_or_more();

// An empty text, from a shell variable that is not set, say, is not taken for "all".
CLI::Validator not_empty();

}  // namespace keyscope::commands
