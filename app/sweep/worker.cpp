#include "app/sweep/worker.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/sweep/study_plan.hpp"
#include "app/sweep/sweep_folder.hpp"
#include "app/sweep/work_claims.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"

namespace keyscope::sweep {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kInterrupted = "interrupted; the same command goes on";

// So many batches of failures and nothing else are taken for the machine's fault.
constexpr int kMostFailures = 3;

// Calls that it takes to list all folders of results: four for each of 256.
constexpr std::int64_t kListingCost = 1024;

// The cells of a batch, and whether they are seen to be finished.
struct Batch {
  CellReader::Place first;
  std::int64_t end = 0;
  bool over = false;
};

class Worker {
 public:
  Worker(const SweepFolder& folder, const Plan& plan, JobMaker& maker, const WorkerOptions& options,
         const WorkerWatch& watch)
      : folder_(folder),
        plan_(plan),
        maker_(maker),
        options_(options),
        watch_(watch),
        identity_(WorkerIdentity::of_this_process()),
        claims_(folder.claims(), identity_, options.lease),
        cells_(folder, plan) {
    read_batches();
    // The own share first, then the others' from there on, so that those who help begin at different places.
    const auto begin_of = [&](int index) {
      return static_cast<std::size_t>(index) * batches_.size() /
             static_cast<std::size_t>(options.share.count);
    };
    const std::size_t own = begin_of(options.share.index);
    n_own_ = begin_of(options.share.index + 1) - own;
    std::ranges::rotate(batches_, batches_.begin() + static_cast<std::ptrdiff_t>(own));
  }

  WorkerOutcome run() {
    // Who holds what is left at the end has a lease's time to show that it lives.
    const auto patience = options_.lease + options_.lease / 4;
    take_own();
    for (auto last_work = Clock::now();; wait()) {
      const std::int64_t n_before = outcome_.n_done + outcome_.n_failed;
      for (Batch& batch : batches_) {
        if (Clock::now() >= look_at_) look();
        if (!batch.over) take(batch);
      }
      if (outcome_.n_done + outcome_.n_failed != n_before) last_work = Clock::now();
      if (std::ranges::all_of(batches_, &Batch::over)) return outcome_;
      if (Clock::now() - last_work > patience) break;
    }
    look();
    DigestSet left;
    for (const Digest& id : ids_)
      if (!is_over(id)) left.insert(id);
    outcome_.n_left = std::ssize(left);
    return outcome_;
  }

 private:
  // Of each cell its name is kept, and of each batch where it stands: it is read when it is run.
  void read_batches() {
    std::string last;
    for (auto place = cells_.place(); const auto cell = cells_.next(); place = cells_.place()) {
      if (cell->batch != last) batches_.push_back({place, place.number});
      batches_.back().end = cells_.place().number;
      ids_.push_back(digest_of(*cell));
      last = cell->batch;
    }
  }

  std::vector<Cell> cells_of(const Batch& batch) {
    std::vector<Cell> cells;
    cells_.go_to(batch.first);
    while (cells_.place().number < batch.end) cells.push_back(*cells_.next());
    return cells;
  }

  static Digest digest_of(const Cell& cell) { return *Digest::parse(cell.id); }
  bool is_over(const Digest& id) const { return finished_.contains(id) || failed_.contains(id); }

  // The own share. All folders of results are listed only where it has more cells than they have folders to
  // list: when a thousand workers begin, listing is what the file system has most to do with.
  void take_own() {
    const std::span own = std::span(batches_).first(n_own_);
    std::int64_t n_cells = 0;
    for (const Batch& batch : own) n_cells += batch.end - batch.first.number;
    look_at_failures();
    if (n_cells > kListingCost) look();
    for (Batch& batch : own)
      if (!batch.over && !has_all_results(batch)) take(batch);
  }

  // As the files themselves say.
  bool has_all_results(Batch& batch) {
    update(batch);
    if (batch.over) return true;
    for (const Cell& cell : cells_of(batch)) {
      const Digest id = digest_of(cell);
      std::error_code error;
      if (is_over(id)) continue;
      if (!fs::exists(folder_.result(cell.id), error)) return false;
      finished_.insert(id);
    }
    return batch.over = true;
  }

  // What there is by now, as the folder lists it: which may be late, and is never wrong.
  void look() {
    look_at_ = Clock::now() + options_.lease / 4;
    finished_.merge(folder_.finished());
    look_at_failures();
    for (Batch& batch : batches_) update(batch);
  }

  void look_at_failures() { failed_.merge(folder_.failed()); }

  void update(Batch& batch) const {
    const auto ids =
        std::span(ids_).subspan(batch.first.number, static_cast<std::size_t>(batch.end - batch.first.number));
    batch.over = std::ranges::all_of(ids, [&](const Digest& id) { return is_over(id); });
  }

  void check_cancelled() const {
    if (watch_.cancelled) throw Cancelled(kInterrupted);
  }

  void wait() const {
    const auto until =
        Clock::now() + std::clamp<std::chrono::milliseconds>(
                           options_.lease / 8, std::chrono::milliseconds(100), std::chrono::seconds(5));
    while (Clock::now() < until) {
      check_cancelled();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  void take(Batch& batch) {
    check_cancelled();
    std::vector<Cell> cells = cells_of(batch);
    if (!claims_.claim(cells.front().batch)) return;
    const struct GiveUp {
      Claims& claims;
      ~GiveUp() { claims.give_up(); }
    } give_up{claims_};
    // Once more where they lie: the listing may be older than the last holder's last result.
    for (const Cell& cell : cells)
      if (std::error_code error; fs::exists(folder_.result(cell.id), error))
        finished_.insert(digest_of(cell));
    std::erase_if(cells, [&](const Cell& cell) { return is_over(digest_of(cell)); });
    if (!cells.empty()) run_missing(cells);
    update(batch);
  }

  void run_missing(const std::vector<Cell>& missing) {
    if (claims_.was_taken_over())
      for (const Cell& cell : missing) remove_parts(cell);
    try {
      run_cells(missing);
      n_failures_ = 0;
    } catch (const Cancelled&) {
      throw Cancelled(kInterrupted);
    } catch (const KeepError&) {
      throw;
    } catch (const std::exception& error) {
      // Another that has taken them over says what becomes of them.
      if (claims_.is_held()) note_failure(missing, error.what());
    }
  }

  // What workers left that died, or this one that failed, while they wrote a cell's result: files whose names
  // begin with a dot.
  //   token: of this worker, where it is about its own alone
  void remove_parts(const Cell& cell, const std::string& token = {}) const {
    const fs::path folder = folder_.result(cell.id).parent_path();
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), last; !error && entry != last; entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      std::error_code ignored;
      if (name.starts_with('.') && name.find(cell.id) != name.npos && name.find(token) != name.npos)
        fs::remove(entry->path(), ignored);
    }
  }

  void run_cells(const std::vector<Cell>& missing) {
    Job& job = job_of(missing.front());
    auto begun = Clock::now();
    const auto label = fmt::format("cell {} here, {} in the study", outcome_.n_done + 1, plan_.n_cells);
    const JobWatch watch{
        [&](const Cell& cell) {
          const fs::path file = folder_.recording(cell.id);
          return file.parent_path() / fmt::format(".{}.{}", identity_.token, file.filename().string());
        },
        [&](const Cell& cell, const CellResult& result) {
          const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
          keep(cell, result, seconds);
          begun = Clock::now();
        },
        [&](std::int64_t done, std::int64_t total) { watch_.on_progress(done, total, label); }};
    watch_.on_job(&job);
    try {
      job.run(missing, watch);
    } catch (...) {
      watch_.on_job(nullptr);
      for (const Cell& cell : missing) remove_parts(cell, identity_.token);
      throw;
    }
    watch_.on_job(nullptr);
  }

  void keep(const Cell& cell, const CellResult& result, double seconds) {
    // Before the result, so that who finds that one finds this one as well.
    if (!result.recording.empty()) keep_as(folder_.recording(cell.id), result.recording);
    write_result(folder_, {cell.id, plan_.program_version, identity_.name(), seconds}, result.lines,
                 identity_.token);
    finished_.insert(digest_of(cell));
    if (failed_.erase(digest_of(cell)) > 0) {
      std::error_code ignored;
      fs::remove(folder_.failure(cell.id), ignored);
    }
    ++outcome_.n_done;
    log(cell, seconds);
  }

  // What `status` knows rates from. It is nobody's result: that it cannot be written is no failure.
  void log(const Cell& cell, double seconds) {
    if (!log_.is_open()) {
      log_.open(folder_.workers() /
                    fmt::format("{}-{}-{}.jsonl", identity_.host, identity_.process, identity_.token),
                std::ios::app);
    }
    const nlohmann::ordered_json json = {{"cell", cell.id}, {"tokens", cell.tokens}, {"seconds", seconds}};
    log_ << json_text(json) << std::endl;
  }

  void note_failure(const std::vector<Cell>& missing, const std::string& why) {
    for (const Cell& cell : missing) {
      if (finished_.contains(digest_of(cell))) continue;
      write_failure(folder_, {cell.id, identity_.name(), why}, identity_.token);
      failed_.insert(digest_of(cell));
      ++outcome_.n_failed;
    }
    if (outcome_.n_done == 0 && ++n_failures_ == kMostFailures)
      throw Error(
          fmt::format("{} batches failed and none was finished here; the last one: {}", kMostFailures, why));
  }

  // One job is there at a time, and its model with it.
  Job& job_of(const Cell& cell) {
    const auto which = std::tuple(cell.job, cell.model, cell.seed);
    if (!job_ || which != job_is_) {
      job_.reset();
      job_ = maker_.make(plan_.study, cell.job, plan_.models[cell.model], cell.seed);
      job_is_ = which;
    }
    return *job_;
  }

  const SweepFolder& folder_;
  const Plan& plan_;
  JobMaker& maker_;
  const WorkerOptions& options_;
  const WorkerWatch& watch_;
  WorkerIdentity identity_;
  Claims claims_;
  CellReader cells_;
  std::vector<Digest> ids_;     // of all cells, in the plan's order
  std::vector<Batch> batches_;  // the own share first
  std::size_t n_own_ = 0;
  DigestSet finished_, failed_;
  Clock::time_point look_at_{};  // when the folder is listed next
  std::unique_ptr<Job> job_;
  std::tuple<int, int, int> job_is_;
  std::ofstream log_;
  WorkerOutcome outcome_;
  int n_failures_ = 0;
};

std::optional<int> number_of(const std::function<const char*(const char*)>& variable, const char* name) {
  const char* text = variable(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  const std::string_view all(text);
  int value = 0;
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), value);
  if (error != std::errc() || end != all.data() + all.size() || value < 0)
    throw UsageError(fmt::format("{}: found {}; expected a number from 0", name, shown(all)));
  return value;
}

// Rank and size of a launcher, as its variables say.
struct Launcher {
  const char *rank, *size, *first;  // first: of the ranks, where they do not begin at 0; null: they do
};

constexpr Launcher kArray{"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN"};
// The more particular first: `mpirun` under Slurm has variables of both.
constexpr std::array<Launcher, 4> kRanks{{{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", nullptr},
                                          {"PMI_RANK", "PMI_SIZE", nullptr},
                                          {"PMIX_RANK", "PMIX_SIZE", nullptr},
                                          {"SLURM_PROCID", "SLURM_NTASKS", nullptr}}};

std::optional<Share> share_of(const std::function<const char*(const char*)>& variable,
                              const Launcher& launcher) {
  const auto rank = number_of(variable, launcher.rank), size = number_of(variable, launcher.size);
  if (!rank || !size || *size == 0) return std::nullopt;
  const int first = launcher.first == nullptr ? 0 : number_of(variable, launcher.first).value_or(0);
  // Tasks of an array that is submitted again have any numbers: all that counts is that they begin apart.
  return Share{std::max(0, *rank - first) % *size, *size};
}

}  // namespace

Share parse_share(const std::string& text) {
  Share share;
  const char* const end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, share.index);
  if (index.ec == std::errc() && index.ptr != end && *index.ptr == '/') {
    const auto count = std::from_chars(index.ptr + 1, end, share.count);
    if (count.ec == std::errc() && count.ptr == end && share.index >= 1 && share.index <= share.count)
      return {share.index - 1, share.count};
  }
  throw UsageError(fmt::format("--shard: found {}; expected I/N, such as 2/8, from 1 to N", shown(text)));
}

std::optional<Share> share_of_launcher(const std::function<const char*(const char*)>& variable) {
  const auto array = share_of(variable, kArray);
  for (const Launcher& launcher : kRanks)
    if (const auto rank = share_of(variable, launcher)) {
      if (!array) return rank;
      return Share{array->index * rank->count + rank->index, array->count * rank->count};
    }
  return array;
}

WorkerOutcome run_worker(const SweepFolder& folder, const Plan& plan, JobMaker& maker,
                         const WorkerOptions& options, const WorkerWatch& watch) {
  return Worker(folder, plan, maker, options, watch).run();
}

}  // namespace keyscope::sweep
