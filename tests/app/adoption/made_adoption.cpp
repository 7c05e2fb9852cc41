#include "tests/app/adoption/made_adoption.hpp"

#include <iterator>

namespace keyscope::adoption::test {
namespace {

using analysis::BootstrapMean;

BootstrapMean mean(double value, double half = 0.01, std::int64_t n = 200) {
  return {value, value - half, value + half, n};
}

std::vector<TaskLoss> losses(double recall, const BootstrapMean& nats) {
  std::vector<TaskLoss> all{{"niah", mean(recall)}, {"perplexity", nats, TaskKind::kLikelihood}};
  all[0].n_affected = all[0].n_scored = 200;
  all[1].n_affected = all[1].n_scored = 80'000;
  all[0].full = mean(0.98);
  for (TaskLoss& task : all) task.overall = task.loss;
  return all;
}

// A machine that slows down in the course of seven rounds, which all candidates feel alike.
benchmarks::RoundTimes rounds(double ms, const benchmarks::MachineLoad& load) {
  benchmarks::RoundTimes made{{}, load};
  for (int i = 0; i < 7; ++i) made.times.push_back(ms * (1 + 0.02 * i) + (i % 3));
  return made;
}

}  // namespace

Adoption made_adoption() {
  Adoption made;
  made.model.name = "made-model";
  made.model.sha256 = "fedcba9876543210";
  made.model.weights_sha256 = "0123456789abcdef";
  made.model.dtype = "float32";
  made.model.device = "cpu";
  made.block_size = 128;
  made.seed = 7;
  made.latency_load = {1.25, 2};
  const benchmarks::RoundTimes full = rounds(100, made.latency_load);
  made.candidates = {{"keydiff", "25%", 0.25, rounds(105, full.load), losses(0.3, mean(0.05))},
                     {"keydiff", "50%", 0.5, rounds(103, full.load), losses(0.005, mean(0.002, 0.001))},
                     {"sink", "25%", 0.25, rounds(101, full.load), losses(0.6, mean(0.01, 0.001))},
                     {"sink", "50%", 0.5, rounds(100, full.load), losses(0.015, mean(0.001, 0.001))}};
  made.tasks = {{"niah", "recall", TaskKind::kScore, 200, 100'000, mean(0.98), {}},
                {"perplexity", "perplexity", TaskKind::kLikelihood, 200, 80'000, mean(2.5), {}}};
  for (Candidate& candidate : made.candidates) {
    candidate.first_token_ratio = benchmarks::paired_ratio(candidate.first_token_ms, full);
    made.tasks[0].scores.push_back(mean(0.98 - candidate.losses[0].loss.mean));
    made.tasks[1].scores.push_back(mean(2.5 + candidate.losses[1].loss.mean));
    made.memory.push_back({candidate.memory_share, 1e6 * candidate.memory_share, 1900, 500'000, 600'000});
    made.first_token_ms.push_back(benchmarks::spread_of(candidate.first_token_ms.times).value());
    made.retained.push_back({mean(candidate.policy == "sink" ? 0.6 : 0.2), mean(150, 2), mean(0.7), mean(0.1),
                             mean(candidate.policy == "sink" ? 0.2 : -0.2)});
  }
  for (Candidate& candidate : made.candidates) candidate.p95_memory_share = candidate.memory_share;
  made.recommendation = recommend(made.candidates, made.rule);
  made.prompt_lengths = {500, 1000, 2000};
  made.full_memory = {1, 1e6, 1900, 2'000'000, 2'000'000};
  made.latency_repeat = std::ssize(full.times);
  made.full_first_token_ms = benchmarks::spread_of(full.times).value();
  made.n_diagnosed = 12;
  made.n_diagnosed_tokens = 9000;
  made.concentration = {mean(0.6), mean(0.9), mean(3), mean(0.4)};
  made.geometry = {mean(0.3), mean(-0.5)};
  made.full_retained = {mean(0.4), mean(160, 2), {}, {}, {}};
  return made;
}

}  // namespace keyscope::adoption::test
