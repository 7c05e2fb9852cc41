#pragma once

#include <memory>
#include <string>

#include "app/commands/cli_fwd.hpp"
#include "app/evaluation/evaluation.hpp"
#include "app/results/prompts.hpp"
#include "app/validation/validation.hpp"

namespace keyscope::sweep {
class StudyFile;
}

namespace keyscope::commands {

// Which cell of a study a result is: a digest of all that it depends on, whatever else was asked for beside
// it. An example under a grid point, whatever evaluation it is of:
std::string eval_cell(const evaluation::Settings& settings, const evaluation::AskedResult& asked);
// A prompt under all policies of a validation:
std::string validate_cell(const validation::Settings& settings, const results::Prompt& prompt);

// `--from STUDY.h5`: results that a merged study has are taken from there.
class StudyChoice {
 public:
  void add_to(CLI::App& command);

  // Opens the study, if one was given.
  //   out: where results go, "" where they are not kept
  //   throws FileError where it is none, UsageError where there is no folder for its results
  void open(const std::string& out);

  // Both are empty where no study was given; they are used as long as this lives.
  evaluation::FindLine find_line();
  validation::FindRecord find_record();

  // "From needles.h5: 360 results"; a warning where there were none; empty where no study was given.
  std::string summary() const;

 private:
  std::string path_;
  std::shared_ptr<const sweep::StudyFile> study_;
  std::int64_t n_taken_ = 0;
};

}  // namespace keyscope::commands
