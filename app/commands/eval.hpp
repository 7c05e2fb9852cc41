#pragma once

#include <CLI/App.hpp>

namespace keyscope::commands {

// Each adds a task to `eval`.
void add_eval_niah(CLI::App& eval);
void add_eval_phonebook(CLI::App& eval);
void add_eval_longbench(CLI::App& eval);
void add_eval_math500(CLI::App& eval);
void add_eval_perplexity(CLI::App& eval);

}  // namespace keyscope::commands
