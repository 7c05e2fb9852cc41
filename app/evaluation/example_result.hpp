#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/evaluation/example.hpp"
#include "app/evaluation/settings.hpp"

namespace keyscope::evaluation {

// What one example came to under one grid point, so that its scores can be checked by hand.
struct ExampleResult {
  std::string id;
  std::string policy, budget_text;  // of the grid point
  std::int64_t budget = 0;          // N; 0 for `none`
  std::int64_t block = 0;
  std::int64_t n_prompt = 0;     // tokens
  double rows_kept = 0;          // as in capture::Completion
  std::int64_t n_generated = 0;  // tokens, with the one that ended the text
  std::string text;              // generated; bytes that are no UTF-8 are U+FFFD
  std::vector<std::string> answers;
  Scores scores;

  //   throws InvalidInput where there is no score of that name
  double score(std::string_view name) const;
  bool operator==(const ExampleResult&) const = default;
};

// One of its kind among an evaluation's results.
std::string result_key(const std::string& id, const std::string& policy, const std::string& budget_text,
                       std::int64_t block);

// A line of examples.jsonl, without its end; `about` stands beside the other fields. Numbers are written so
// that they read back to the last bit.
std::string result_line(const ExampleResult& result, const nlohmann::ordered_json& about);

//   where: file and line, for messages
//   throws FileError where a field is missing or of another kind
ExampleResult parse_result(std::string_view line, const std::string& where);

}  // namespace keyscope::evaluation
