#include "app/sweep/study_plan.hpp"

#include <utility>

#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/sha256.hpp"

namespace keyscope::sweep {

std::string cell_digest(const nlohmann::ordered_json& depends_on) {
  Sha256 hash;
  hash.add(json_text(depends_on));
  return hash.hex().substr(0, kDigestDigits);
}

std::vector<std::size_t> Plan::batch_starts() const {
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (i == 0 || cells[i].batch != cells[i - 1].batch) starts.push_back(i);
  starts.push_back(cells.size());
  return starts;
}

Plan plan_study(Study study, JobMaker& maker,
                const std::function<void(std::int64_t, std::int64_t)>& progress) {
  Plan plan;
  plan.study = std::move(study);
  const auto n_jobs =
      std::ssize(plan.study.models) * std::ssize(plan.study.seeds) * std::ssize(plan.study.jobs);
  std::int64_t n_done = 0;
  for (int model = 0; model < std::ssize(plan.study.models); ++model) {
    plan.models.push_back(maker.planned_model(plan.study.models[model]));
    for (int job = 0; job < std::ssize(plan.study.jobs); ++job)
      for (int seed = 0; seed < std::ssize(plan.study.seeds); ++seed) {
        progress(n_done++, n_jobs);
        for (Cell& cell : maker.make(plan.study, job, plan.models.back(), seed)->cells()) {
          cell.job = job;
          cell.model = model;
          cell.seed = seed;
          plan.cells.push_back(std::move(cell));
        }
      }
  }
  return plan;
}

}  // namespace keyscope::sweep
