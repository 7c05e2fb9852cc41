#include "app/sweep/status.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <unordered_set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"

namespace keyscope::sweep {

namespace {

namespace fs = std::filesystem;

std::unordered_set<std::string> claimed_batches(const fs::path& claims) {
  std::unordered_set<std::string> batches;
  for_each_entry(claims, [&](const fs::path& claim) {
    std::string name = claim.filename().string();
    if (!name.starts_with('.')) batches.insert(std::move(name));
  });
  return batches;
}

// Seconds a token of finished cells, over all that workers have noted; empty: nothing yet.
std::optional<double> seconds_per_token(const fs::path& workers) {
  double tokens = 0, seconds = 0;
  for_each_entry(workers, [&](const fs::path& worker) {
    std::ifstream lines(worker);
    if (!lines) throw FileError(fmt::format("{}: cannot be read", worker.string()));
    for (std::string line; std::getline(lines, line);) {
      const nlohmann::json json = parse_json(line);  // a killed worker's last line may be torn
      if (!json.is_object() || !json.contains("tokens") || !json.contains("seconds")) continue;
      const auto& n_tokens = json.at("tokens");
      const auto& took = json.at("seconds");
      if (!n_tokens.is_number() || !took.is_number()) continue;
      tokens += n_tokens.get<double>();
      seconds += took.get<double>();
    }
    require_read(lines, worker.string());
  });
  if (tokens <= 0) return std::nullopt;
  return seconds / tokens;
}

// Empty: it was there when the folder was listed, and a worker has finished its cell since.
std::optional<Failure> find_failure(const SweepFolder& folder, const std::string& cell) {
  try {
    return read_failure(folder, cell);
  } catch (const FileError&) {
    std::error_code error;
    if (!fs::exists(folder.failure(cell), error)) return std::nullopt;
    throw;
  }
}

}  // namespace

std::optional<double> Status::seconds_left() const {
  if (n_workers == 0) return std::nullopt;
  return seconds_left_one / static_cast<double>(n_workers);
}

Status status_of(const SweepFolder& folder, const Plan& plan, std::size_t most_failures) {
  const auto claimed = claimed_batches(folder.claims());
  const auto rate = seconds_per_token(folder.workers());
  const DigestSet finished = folder.finished(), failed = folder.failed();
  Status status;
  status.measured = rate.has_value();
  status.n_workers = std::ssize(claimed);
  DigestSet seen;
  for (CellReader cells(folder, plan); const auto cell = cells.next();) {
    const Digest id = *Digest::parse(cell->id);
    if (!seen.insert(id).second) continue;
    if (finished.contains(id)) {
      ++status.n_done;
    } else if (failed.contains(id)) {
      ++status.n_failed;
      if (status.failures.size() < most_failures)
        if (auto failure = find_failure(folder, cell->id)) status.failures.push_back(*std::move(failure));
    } else {
      status.n_running += claimed.contains(cell->batch) ? 1 : 0;
      status.seconds_left_one += rate ? *rate * static_cast<double>(cell->tokens) : cell->seconds;
    }
  }
  status.n_planned = std::ssize(seen);
  status.n_unplanned = std::ssize(finished) - status.n_done;
  return status;
}

CellCount::CellCount(const SweepFolder& folder, const Plan& plan) : folder_(folder) {
  for (CellReader cells(folder, plan); const auto cell = cells.next();)
    planned_.insert(*Digest::parse(cell->id));
}

void CellCount::update() {
  const DigestSet finished = folder_.finished();
  const auto is_planned = [&](const Digest& cell) { return planned_.contains(cell); };
  n_done_ = std::ranges::count_if(finished, is_planned);
  n_failed_ = std::ranges::count_if(
      folder_.failed(), [&](const Digest& cell) { return is_planned(cell) && !finished.contains(cell); });
}

nlohmann::ordered_json status_json(const Status& status) {
  nlohmann::ordered_json failures = nlohmann::ordered_json::array();
  for (const Failure& failure : status.failures)
    failures.push_back({{"cell", failure.cell}, {"worker", failure.worker}, {"error", failure.error}});
  return {{"planned", status.n_planned},
          {"done", status.n_done},
          {"running", status.n_running},
          {"failed", status.n_failed},
          {"workers", status.n_workers},
          {"unplanned_results", status.n_unplanned},
          {"worker_seconds_left", json_number(status.seconds_left_one)},
          {"seconds_left", json_number(status.seconds_left())},
          {"measured", status.measured},
          {"failures", std::move(failures)}};
}

}  // namespace keyscope::sweep
