#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/evaluation/task_data.hpp"
#include "app/evaluation/example.hpp"
#include "app/evaluation/math_rows.hpp"
#include "capture/model/model.hpp"

namespace keyscope::evaluation {

// Which problems are asked, and how.
struct MathOptions {
  std::vector<std::filesystem::path> data;  // files of JSON lines, or folders of *.jsonl
  // Text with {problem} in it; empty: DeepSeek-R1's request to reason step by step and to box the answer
  // where the model has a chat template, Minerva's "Problem:" and "Solution:" where it has none, which also
  // ends where the model goes on with a problem of its own.
  std::string prompt;
  ChatUse chat = ChatUse::kIfThere;
  std::int64_t max_new_tokens = 4096;  // less where the model's context ends sooner
  double temperature = 0;
  double top_p = 1;
  std::int64_t samples = 1;          // of each problem
  std::uint64_t seed = 0;            // of what is drawn
  std::optional<std::int64_t> rows;  // the first
  bool skip_bad = false;
};

struct MathSet {
  std::vector<MathRow> rows;
  std::vector<Example> examples;  // `samples` of each row, one after another
  std::vector<std::string> bad;   // rows that were left out, and why
};

// Reads the data and makes every problem's prompt for the model.
//   throws FileError as read_json_rows, where two rows have one "unique_id" or the model has no tokenizer;
//   UsageError on a prompt without {problem} or that is no UTF-8, and on several samples of what is not drawn
MathSet read_math(const MathOptions& options, const capture::Model& model);

// {"exact": 0, "flexible": 1, "generated": 812}: 1 for a match in the generated ids' text without special
// tokens, up to a stop text, and the number of generated tokens.
//   tokenizer: must outlive the scorer
Scorer math_scorer(const tokenizer::Tokenizer& tokenizer);

// Every option that the scores depend on, for the settings.
nlohmann::ordered_json math_settings(const MathOptions& options);

}  // namespace keyscope::evaluation
