#include "tests/app/validation/made_records.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "app/validation/prompt_record.hpp"

namespace keyscope::test {
namespace {

using measures::HeadMeasures;
using measures::RunMeasures;
using validation::PromptRecord;

RunMeasures made_run(const std::string& name) {
  RunMeasures run;
  run.run = name;
  for (const int layer : {0, 1}) {
    HeadMeasures& head = run.heads.emplace_back();
    head.layer = layer;
  }
  for (const validation::Quantity& one : validation::quantities()) {
    if (one.of_run != nullptr) run.*one.of_run = 0.0;
    if (one.of_head == nullptr || one.of_sinks) continue;
    for (HeadMeasures& head : run.heads) head.*one.of_head = 0.0;
  }
  return run;
}

validation::BoundTallies made_bounds(int layer) {
  validation::BoundTallies bounds;
  bounds.layer = layer;
  bounds.theorem = bounds.lemma_stated = bounds.lemma_proof = bounds.lemma_always = {10, 0, 0.5};
  bounds.theorem_share = bounds.theorem_share_causal = bounds.lemma_share = 0.25;
  return bounds;
}

}  // namespace

std::vector<PromptRecord> made_records(int n_prompts, const std::function<void(PromptRecord&, int)>& change) {
  std::vector<PromptRecord> records;
  for (int i = 0; i < n_prompts; ++i) {
    PromptRecord& record = records.emplace_back();
    record.key = fmt::format("{:064}", i);
    record.n_tokens = 100 + i;
    record.budget = 25;
    for (const char* run : {"none", "keydiff", "sink", "random"}) record.runs.push_back(made_run(run));
    for (const int layer : {0, 1}) record.bounds.push_back(made_bounds(layer));
    if (change) change(record, i);
  }
  return records;
}

RunMeasures& run_of(PromptRecord& record, const std::string& run) {
  return *std::ranges::find(record.runs, run, &RunMeasures::run);
}

void set(PromptRecord& record, const std::string& run, std::optional<double> HeadMeasures::*quantity,
         std::optional<double> value) {
  for (HeadMeasures& head : run_of(record, run).heads) head.*quantity = value;
}

std::vector<results::Prompt> made_prompts(int n_prompts) {
  std::vector<results::Prompt> prompts;
  for (int i = 0; i < n_prompts; ++i)
    prompts.push_back({fmt::format("prompt {}", i), {1, 2, 3}, "Once upon a time", i + 1});
  return prompts;
}

}  // namespace keyscope::test
