#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "app/commands/cli_fwd.hpp"
#include "app/commands/options.hpp"
#include "capture/inference/capture.hpp"
#include "capture/model/config.hpp"
#include "capture/model/model.hpp"
#include "capture/tokenizer/chat_template.hpp"

namespace keyscope::commands {

// What is put into a chat template: `--chat`, `--system`, `--messages`.
class ChatOptions {
 public:
  //   texts: options that give a text, which --messages does instead; excluded: other ways of reading
  void add_to(CLI::App& command, std::initializer_list<CLI::Option*> texts,
              std::initializer_list<CLI::Option*> excluded);

  //   throws FileError on a system text that is no UTF-8
  tokenizer::PromptForm form() const;
  const std::optional<std::string>& messages_file() const { return messages_file_; }

 private:
  tokenizer::PromptForm form_;
  std::optional<std::string> messages_file_;
};

// Where a prompt comes from: `--prompt`, `--prompt-file`, `--prompt-ids`, `--chat`, `--system`, `--messages`,
// `--max-tokens`.
class PromptOptions {
 public:
  void add_to(CLI::App& command);

  bool given() const { return text_ || file_ || ids_ || chat_.messages_file(); }

  // The prompt's ids, tokenised as the model's tokenizer does with its special tokens, or in its chat
  // template.
  //   tokenizer: where there is none, only `--prompt-ids` works; model_folder: where a chat template is
  //   looked for throws UsageError unless exactly one source was given, FileError on a file that cannot be
  //   read
  std::vector<std::int32_t> read(const tokenizer::FolderTokenizer& tokenizer,
                                 const std::filesystem::path& model_folder) const;

  // The prompt as text, its file read; empty where token ids were given. For a model that is loaded later.
  //   throws FileError on a file that cannot be read
  std::optional<std::string> text() const;
  std::string file() const { return file_.value_or(""); }  // empty: it comes from elsewhere
  tokenizer::PromptForm form() const { return chat_.form(); }
  std::optional<std::int64_t> max_tokens() const { return max_tokens_; }

 private:
  std::optional<std::string> text_, file_, ids_;
  ChatOptions chat_;
  std::optional<std::int64_t> max_tokens_;
};

// The options that `capture` and a live `view` share: model, prompt, policies, what to record.
class CaptureCommandOptions {
 public:
  // offline: whether nobody watches: what is shown live goes block by block
  void add_to(CLI::App& command, bool model_required, bool offline);

  bool model_given() const { return model_.given(); }
  const ModelChoice& model() const { return model_; }
  capture::ModelOptions model_options() const;

  // Everything but the prompt ids, which need the model's tokenizer.
  //   throws UsageError on a value that cannot be understood
  capture::CaptureOptions capture_options() const;
  // The file that gives layers or heads budgets of their own, to be read when the model's shape is known.
  const std::string& budget_file() const { return budget_file_; }

  PromptOptions prompt;

 private:
  capture::Schedule schedule() const;
  void add_cache_formats(CLI::App& command);

  ModelChoice model_;
  std::vector<std::string> policies_;
  std::string layers_, heads_;
  std::vector<std::string> record_;
  std::vector<std::string> cache_dtypes_;
  std::string cache_scales_;
  std::string store_ = "float32";
  std::string schedule_ = "block";
  const CLI::Option* schedule_option_ = nullptr;
  std::string positions_ = "true";
  std::string answer_;
  std::string budget_file_;
  analysis::Budget budget_;
  std::int64_t block_ = 128;
  std::int64_t generate_ = 0;
  std::int64_t score_last_ = 32;
  std::uint64_t seed_ = 0;
  bool ignore_eos_ = false;
  bool oracle_ = false;
  bool compress_ = false;
  bool expand_keys_ = false;
};

// "0,3,5-9" as ascending indices without repeats.
//   throws UsageError on anything else
std::vector<int> parse_index_list(const std::string& text, const std::string& option);

// What `--policy` takes, for its help.
std::string policy_help();

// Budgets of their own for layers or heads: a JSON array with one entry per layer, each a number of rows for
// all of the layer's KV heads or an array of one number per KV head.
//   result: (n_layers, n_kv_heads), row after row
//   throws FileError naming the file, the entry, what was found and what was expected
std::vector<std::int64_t> read_budget_file(const std::string& path, const capture::ModelConfig& config);

}  // namespace keyscope::commands
