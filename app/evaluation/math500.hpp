#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/evaluation/example.hpp"
#include "app/evaluation/task_data.hpp"
#include "app/evaluation/task_report.hpp"
#include "capture/model/model.hpp"

namespace keyscope::evaluation {

// One problem of MATH-500 (or another set in its layout), as a row of JSON lines.
struct MathRow {
  std::string id;  // "unique_id"; empty where it has none
  std::string problem;
  std::string answer;                 // "answer", or else what "solution" boxes
  std::string subject;                // empty where it has none
  std::optional<std::int64_t> level;  // 1 to 5 in MATH
};

//   where: file and line, for messages
//   throws FileError naming field, what was found and what was expected
MathRow read_math_row(const nlohmann::json& row, const std::string& where);

// The problem in the words that ask for it: `format` with every {problem} replaced.
std::string math_prompt(std::string_view format, std::string_view problem);

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

// Shares of problems that are solved, the mean over a problem's samples counting for it, and how many more
// than under the full cache with the same block. Intervals are over problems.
struct MathShares {
  ScoreMean exact, flexible;
  ScoreMean exact_difference, flexible_difference;
  std::int64_t n = 0;  // problems
};

// Everything under one grid point.
struct MathCell {
  std::size_t point = 0;
  std::int64_t budget_rows = 0;  // N, mean over the problems
  MathShares all;
  double generated = 0;  // tokens, mean over all samples
  // Problems of which, under the full cache with the same block, prompt and answer together (mean over the
  // samples) are longer than N: those where something had to be evicted, as in the paper's tables 5 and 7.
  // Without problems for the full cache.
  MathShares over_budget;
  std::vector<std::pair<std::string, MathShares>> by_level;    // "1" to "5"
  std::vector<std::pair<std::string, MathShares>> by_subject;  // in order of name
};

//   rows: n_samples examples each, one after another
std::vector<MathCell> math_report(const ScoreTable& table, std::span<const MathRow> rows,
                                  std::size_t n_samples, std::uint64_t seed);

// "cells", over the grid.
nlohmann::ordered_json math_json(std::span<const MathCell> cells, std::span<const GridPoint> grid);

// A line per grid point.
std::string math_table(std::span<const MathCell> cells, std::span<const GridPoint> grid);

}  // namespace keyscope::evaluation
