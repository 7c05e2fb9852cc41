#pragma once

#include <span>
#include <string>
#include <vector>

#include "app/adoption/adoption.hpp"
#include "app/adoption/task.hpp"
#include "app/validation/prompt_record.hpp"
#include "app/validation/prompts_file.hpp"

namespace keyscope::adoption {

// Which of the tasks' prompts are looked at.
struct PromptChoice {
  std::size_t most = 12;        // of them; 0: none
  std::int64_t max_tokens = 0;  // of each; 0: any number
};

// Evenly spread over each task's examples that are not too long; no prompt twice.
//   throws UsageError where all are too long
std::vector<validation::Prompt> choose_prompts(std::span<const Task> tasks, const PromptChoice& choice);

// The prompts' records of one budget: `none` first, then the policies in order.
struct BudgetRecords {
  std::string budget;  // as it was asked for
  std::vector<std::string> policies;
  std::vector<validation::PromptRecord> records;
};

// Fills what an adoption report says of keys and attention.
//   all: at least one budget, all of the same prompts; a candidate whose budget is not among them gets
//   nothing
void add_diagnosis(Adoption& adoption, std::span<const BudgetRecords> all);

}  // namespace keyscope::adoption
