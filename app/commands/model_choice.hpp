#pragma once

#include <string>

#include <CLI/App.hpp>

#include "capture/model/model.hpp"

namespace keyscope::commands {

// Which model computes, and in what: `--model`, `--dtype`, `--device`, `--threads`. In two parts, between
// which a command's own options stand.
class ModelChoice {
 public:
  CLI::Option* add_folder(CLI::App& command);  // `--model`; not required unless the command says so
  void add_arithmetic(CLI::App& command);      // the others

  bool given() const { return !folder_.empty(); }
  const std::string& folder() const { return folder_; }
  //   throws UsageError on a word that `--dtype` or `--device` does not take
  capture::ModelOptions options() const;

 private:
  std::string folder_, dtype_ = "auto", device_ = "auto";
  int threads_ = 0;
};

}  // namespace keyscope::commands
