#pragma once

#include <span>
#include <string>
#include <vector>

#include "app/adoption/adoption.hpp"
#include "app/adoption/task.hpp"
#include "app/validation/prompt_record.hpp"
#include "app/validation/prompts_file.hpp"

namespace keyscope::adoption {

// At most `most` of the tasks' prompts, evenly spread over each task's examples; no prompt twice.
std::vector<validation::Prompt> choose_prompts(std::span<const Task> tasks, std::size_t most);

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
