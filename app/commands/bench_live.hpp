#pragma once

#include <CLI/App.hpp>

namespace keyscope::commands {

// `bench live`: how much the window slows the run that it shows.
void add_bench_live(CLI::App& bench);

}  // namespace keyscope::commands
