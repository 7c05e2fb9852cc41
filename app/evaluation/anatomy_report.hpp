#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/evaluation/task_report.hpp"
#include "app/figures/figure.hpp"

namespace keyscope::evaluation {

// Some answers under one grid point, by what was left of their evidence once the prompt was read.
struct AnswerCounts {
  std::int64_t n = 0;
  std::int64_t gone = 0;   // a row of the answer was in no cache any more
  std::int64_t part = 0;   // none was, but some KV head had lost a row of the evidence
  std::int64_t whole = 0;  // every KV head had all of it
  std::int64_t empty = 0;  // of all n, whose text is empty
};

// The anatomies of one grid point.
struct AnatomySummary {
  std::size_t point = 0;                        // of the grid
  std::int64_t n = 0, n_known = 0;              // results, and those of which the evidence is known
  double budget_share = 1;                      // K/T: rows of the budget over tokens of the prompt, mean
  ScoreMean score;                              // the task's first, with a bootstrap interval
  ScoreMean gone_everywhere;                    // the global eviction ratio; NaN where nothing is known
  double kept = 0, torn = 0, lost = 0;          // shares of EvidenceFate, means; NaN likewise
  ScoreMean question_kept;                      // of the question's rows; NaN likewise
  std::int64_t n_empty = 0;                     // answers
  AnswerCounts worse, others;                   // than with the full cache of the same block, and not
  std::vector<std::vector<double>> layer_kept;  // by layer, one a result: the share of its rows kept
};

// Of every grid point, the full cache's too.
std::vector<AnatomySummary> anatomy_summaries(const ScoreTable& table, std::uint64_t seed);

// [{"policy", "budget", "budget_text", "block", "n", "n_known", "budget_share", SCORE, …}]
nlohmann::ordered_json anatomies_json(const ScoreTable& table, std::span<const AnatomySummary> summaries);

// A table of the grid points that evict; nothing where none does.
std::string anatomy_table(const ScoreTable& table, std::span<const AnatomySummary> summaries);

// "TASK-anatomy": by K/T the score, the global eviction ratio (where no evidence is known, the share of empty
// answers) and the rows of the question that stayed; at the least budget the evidence by layer and the
// cache's rows over the longest prompt.
//   caption: of the task
figures::Figure anatomy_figure(const ScoreTable& table, std::span<const AnatomySummary> summaries,
                               const Settings& settings, const std::string& caption);

}  // namespace keyscope::evaluation
