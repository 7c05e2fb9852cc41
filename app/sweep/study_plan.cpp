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

std::optional<Digest> Digest::parse(std::string_view digits) {
  if (digits.size() != kDigestDigits) return std::nullopt;
  Digest digest;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const char c = digits[i];
    const bool is_letter = c >= 'a' && c <= 'f';
    if (!is_letter && (c < '0' || c > '9')) return std::nullopt;
    std::uint64_t& half = i < digits.size() / 2 ? digest.high : digest.low;
    half = half << 4U | static_cast<std::uint64_t>(is_letter ? c - 'a' + 10 : c - '0');
  }
  return digest;
}

Plan plan_study(Study study, JobMaker& maker, const std::function<void(std::int64_t, std::int64_t)>& progress,
                const EachCell& each) {
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
        maker.make(plan.study, job, plan.models.back(), seed)->for_each_cell([&](Cell cell) {
          cell.job = job;
          cell.model = model;
          cell.seed = seed;
          each(cell);
          ++plan.n_cells;
        });
      }
  }
  return plan;
}

}  // namespace keyscope::sweep
