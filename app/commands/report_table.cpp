#include "app/commands/report_table.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace keyscope::commands {
namespace {

using adoption::Adoption;
using adoption::Candidate;
using adoption::TaskKind;
using adoption::TaskOutcome;

// Points of a score, per cent of a perplexity.
std::string loss_text(const adoption::TaskLoss& task, double tolerance) {
  if (task.after_eviction == 0) return "none evicted";
  if (!adoption::solved_by_full(task, tolerance)) return "not solved";
  const double percent = adoption::percent_lost(task.kind, task.loss.mean);
  return fmt::format("{}{:.1f}", percent < -0.05 ? "-" : "", std::abs(percent));
}

std::string full_line(const TaskOutcome& task) {
  const std::string score = task.kind == TaskKind::kScore ? fmt::format("{:.1f} %", 100 * task.full.mean)
                                                          : fmt::format("{:.3f}", std::exp(task.full.mean));
  return fmt::format("  {:<18}{} {} over {}\n", task.name, task.metric, score, examples_text(task));
}

std::string candidate_line(const Adoption& adoption, std::size_t index, std::size_t width) {
  const Candidate& candidate = adoption.candidates[index];
  std::string line = fmt::format("  {:<{}}{:>7}{:>8.1f} %", candidate.policy, width, candidate.budget,
                                 100 * candidate.memory_share);
  if (adoption.latency_repeat > 0)
    line += fmt::format("{:>9.2f}×", candidate.first_token_ms / adoption.full_first_token_ms.median);
  for (const adoption::TaskLoss& task : candidate.losses)
    line += fmt::format("{:>18}", loss_text(task, adoption.rule.tolerance));
  return line + fmt::format("   {}{}\n", adoption::fitness_name(adoption.recommendation.fitness[index]),
                            std::cmp_equal(index, adoption.recommendation.chosen) ? ", recommended" : "");
}

}  // namespace

std::string report_table(const Adoption& adoption) {
  std::string text =
      fmt::format("{}\n\nFull cache\n",
                  adoption::recommendation_text(adoption.recommendation, adoption.candidates, adoption.rule));
  for (const TaskOutcome& task : adoption.tasks) text += full_line(task);
  std::size_t width = 10;
  for (const Candidate& candidate : adoption.candidates) width = std::max(width, candidate.policy.size() + 2);
  text += fmt::format(
      "\nWhat is lost where something was evicted: points of a score, per cent of perplexity\n  "
      "{:<{}}{:>7}{:>10}",
      "policy", width, "budget", "memory");
  if (adoption.latency_repeat > 0) text += fmt::format("{:>10}", "TTFT");
  for (const TaskOutcome& task : adoption.tasks) text += fmt::format("{:>18}", task.name);
  text += "\n";
  for (std::size_t i = 0; i < adoption.candidates.size(); ++i) text += candidate_line(adoption, i, width);
  return text + fmt::format("\nRule: {}\n", adoption::rule_text(adoption.rule));
}

}  // namespace keyscope::commands
