#pragma once

#include <memory>

#include "app/commands/cli_fwd.hpp"
#include "app/sweep/study_plan.hpp"

namespace keyscope::commands {

// Jobs of studies as the commands `eval TASK`, `report`, `validate` and `capture` do them. The model of the
// last one stays loaded.
//   threads: of each job that says none; 0: as its command has it
//   quiet: whether nothing says how far the hash over a model's weights is
std::unique_ptr<sweep::JobMaker> make_job_maker(int threads, bool quiet);

// Each adds its part to `sweep`.
void add_sweep_merge(CLI::App& sweep);
void add_sweep_submit(CLI::App& sweep);

}  // namespace keyscope::commands
