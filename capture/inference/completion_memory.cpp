#include "capture/inference/completion_memory.hpp"

#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "capture/inference/eviction.hpp"
#include "capture/inference/memory_need.hpp"

namespace keyscope::capture {
namespace {

// Counts bytes where CompletionRun has caches.
class MemorySteps : public CompletionSteps {
 public:
  MemorySteps(const ModelConfig& config, std::int64_t block_size, std::int64_t element_bytes,
              Arithmetic arithmetic)
      : config_(config), block_size_(block_size), element_bytes_(element_bytes), arithmetic_(arithmetic) {}

  void begin(const StateRule& rule) override { add(rule); }
  void fork(const StateRule& rule) override { add(rule); }
  void follow(const StateRule&) override { runs_.back().open = 0; }  // caches stay as large as they were made
  void end() override { runs_.pop_back(); }
  void read(const SharedBlock& block) override {
    runs_.back().open = open_bytes(block);
    look();
  }
  void generate(const RequestIndices&) override {}

  CompletionMemory peak() const { return {whole_bytes(peak_), n_runs_}; }

 private:
  // In float64: without overflow, whatever a damaged configuration asks for.
  struct Run {
    double cache = 0, open = 0;
  };

  void add(const StateRule& rule) {
    Run run;
    for (int layer = 0; layer < config_.n_layers; ++layer)
      run.cache += layer_cache_bytes(config_, cache_rows(config_, block_size_, rule, layer), element_bytes_,
                                     arithmetic_);
    runs_.push_back(run);
    look();
  }

  // Statistics of a block's attention that wait for the evictions after it, over all rows that there may be.
  double open_bytes(const SharedBlock& block) const {
    AttentionWants wants;
    for (const StateRule& rule : block.open) add_wants(wants, rule.policy->needs());
    const std::size_t per_row = (wants.last_row ? sizeof(float) : 0) + wants.windows.size() * sizeof(double);
    const auto n_rows = static_cast<double>(block.first_position + std::ssize(block.ids));
    return static_cast<double>(per_row) * n_rows * config_.n_heads * config_.n_layers;
  }

  void look() {
    double bytes = 0;
    for (const Run& run : runs_) bytes += run.cache + run.open;
    if (bytes <= peak_) return;
    peak_ = bytes;
    n_runs_ = std::ssize(runs_);
  }

  const ModelConfig& config_;
  std::int64_t block_size_, element_bytes_;
  Arithmetic arithmetic_;
  std::vector<Run> runs_;
  double peak_ = 0;
  std::int64_t n_runs_ = 0;
};

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

}  // namespace

CompletionMemory completion_memory(const ModelConfig& config, std::int64_t block_size,
                                   const CompletionTree& tree, std::int64_t element_bytes,
                                   Arithmetic arithmetic) {
  MemorySteps steps(config, block_size, element_bytes, arithmetic);
  tree.walk(steps);
  return steps.peak();
}

void check_completion_memory(const CompletionMemory& memory, std::int64_t block_bytes,
                             std::int64_t available) {
  if (memory.cache_bytes + block_bytes <= available) return;
  throw Error(fmt::format(
      "{} runs are in memory at once; their KV caches need {:.2f} GiB and a block {:.2f} GiB, and "
      "{:.2f} GiB are available; fewer policies and budgets at a time, smaller budgets, or shorter "
      "prompts would need less",
      memory.n_runs, gib(memory.cache_bytes), gib(block_bytes), gib(available)));
}

}  // namespace keyscope::capture
