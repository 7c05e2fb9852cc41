#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/validation/prompt_record.hpp"
#include "app/validation/validation_report.hpp"

namespace keyscope::test {

// Prompts as they might have been measured: two layers of one KV head, runs `none`, `keydiff`, `sink` and
// `random`, every value 0 (those of learned sinks not there) and every bound met by ten pairs and violated by
// none.
//   change: called with each prompt's record and its index
std::vector<validation::PromptRecord> made_records(
    int n_prompts, const std::function<void(validation::PromptRecord&, int)>& change = nullptr);

// Sets a quantity in one run of a record, in all heads.
void set(validation::PromptRecord& record, const std::string& run,
         std::optional<double> measures::HeadMeasures::*quantity, std::optional<double> value);

// The run of a record, to be changed.
measures::RunMeasures& run_of(validation::PromptRecord& record, const std::string& run);

// Prompts that go with records.
std::vector<results::Prompt> made_prompts(int n_prompts);

}  // namespace keyscope::test
