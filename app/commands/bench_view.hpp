#pragma once

#include <CLI/App.hpp>

namespace keyscope::commands {

// `bench view`: what the window's frames cost.
void add_bench_view(CLI::App& bench);

}  // namespace keyscope::commands
