#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "capture/inference/capture.hpp"
#include "capture/model/model.hpp"

namespace keyscope::commands {

// Where a prompt comes from: `--prompt`, `--prompt-file`, `--prompt-ids`, `--max-tokens`.
class PromptOptions {
 public:
  void add_to(CLI::App& command);

  bool given() const { return text_ || file_ || ids_file_; }

  // The prompt's ids, tokenised as the model's tokenizer does with its special tokens.
  //   tokenizer: may be null, then only `--prompt-ids` works
  //   throws UsageError unless exactly one source was given, FileError on a file that cannot be read
  std::vector<std::int32_t> read(const tokenizer::Tokenizer* tokenizer) const;

  // The prompt as text, its file read; empty where token ids were given. For a model that is loaded later.
  //   throws FileError on a file that cannot be read
  std::optional<std::string> text() const;
  std::optional<std::int64_t> max_tokens() const { return max_tokens_; }

 private:
  std::optional<std::string> text_, file_, ids_file_;
  std::optional<std::int64_t> max_tokens_;
};

// The options that `capture` and a live `view` share: model, prompt, policies, what to record.
class CaptureCommandOptions {
 public:
  void add_to(CLI::App& command, bool model_required);

  bool model_given() const { return !model_.empty(); }
  const std::string& model_folder() const { return model_; }
  capture::ModelOptions model_options() const;

  // Everything but the prompt ids, which need the model's tokenizer.
  //   throws UsageError on a value that cannot be understood
  capture::CaptureOptions capture_options() const;

  PromptOptions prompt;

 private:
  std::string model_;
  std::vector<std::string> policies_;
  std::string layers_;
  std::vector<std::string> record_;
  std::string store_ = "float32";
  std::string dtype_ = "auto";
  std::string device_ = "auto";
  int threads_ = 0;
  std::int64_t budget_ = 0;
  std::int64_t block_ = 128;
  std::int64_t generate_ = 0;
  std::int64_t score_last_ = 32;
  std::uint64_t seed_ = 0;
  bool ignore_eos_ = false;
  bool compress_ = false;
};

// "0,3,5-9" as ascending indices without repeats.
//   throws UsageError on anything else
std::vector<int> parse_index_list(const std::string& text, const std::string& option);

// The command line as a shell would read it back.
std::string quote_command(int argc, char** argv);

}  // namespace keyscope::commands
