#pragma once

#include <memory>
#include <string>

#include "app/adoption/tasks.hpp"
#include "app/grid/experiment.hpp"
#include "app/grid/reproduction.hpp"
#include "capture/model/model.hpp"

namespace keyscope::grid {

// A task of an experiment that can be asked here, or why it cannot.
struct AskedTask {
  ExperimentTask described;
  std::string cannot_run;                 // a sentence without its end; else empty
  std::string differs;                    // why its prompts are not the published ones, likewise
  std::vector<std::string> scores = {};   // that every answer has, by name
  std::string left_out = {};              // why parts of it are not among the examples, likewise
  std::vector<std::string> parts = {};    // which of them each example is; empty: it has none
  adoption::Task task = {};               // whose scores also have "empty": 1 for an answer without words
  std::shared_ptr<const void> kept = {};  // what its scorer refers to
};

//   model: must outlive the task
//   throws FileError where files of the task cannot be read
AskedTask ask_task(const ExperimentTask& described, const ReproductionOptions& options,
                   const capture::Model& model);

}  // namespace keyscope::grid
