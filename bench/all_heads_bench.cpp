// The analysis of one long prompt: every head of a model of 28 layers and 8 KV heads, 8192 tokens, two
// threads. all_heads_peer.py draws the keys, names their file in KEYSCOPE_BENCH_HEADS and times NumPy, SciPy
// and scikit-learn on them.

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <new>
#include <stdexcept>
#include <vector>

#include <benchmark/benchmark.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include "analysis/pca.hpp"
#include "analysis/per_processor.hpp"
#include "analysis/quick_cosines.hpp"
#include "analysis/rank_correlation.hpp"
#include "analysis/similarity.hpp"
#include "analysis/spectrum.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;

constexpr Index kHeads = Index{28} * 8;
constexpr Index kTokens = 8192;
constexpr Index kHeadDim = 128;
constexpr Index kRetained = 2048;
constexpr int kThreads = 2;

// From the start of a cache line, as LibTorch puts every tensor.
template <typename T>
struct FromLineStart {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};
  static T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kLine)); }
  static void deallocate(T* at, std::size_t) { ::operator delete(at, kLine); }
  bool operator==(const FromLineStart&) const = default;
};
using AlignedFloats = std::vector<float, FromLineStart<float>>;

struct Heads {
  AlignedFloats keys;                 // (kHeads, kTokens, kHeadDim)
  std::vector<double> first, second;  // (kHeads, kTokens): what is to be correlated

  Eigen::Map<const RowMatrixF> of(Index head) const {
    return view_rows(keys.data() + head * kTokens * kHeadDim, kTokens, kHeadDim);
  }
  static std::span<const double> of(const std::vector<double>& values, Index head) {
    return std::span(values).subspan(head * kTokens, kTokens);
  }
};

const Heads& heads() {
  static const Heads loaded = [] {
    const char* path = std::getenv("KEYSCOPE_BENCH_HEADS");
    if (path == nullptr) throw std::runtime_error("KEYSCOPE_BENCH_HEADS is not set: run all_heads_peer.py");
    std::ifstream file(path, std::ios::binary);
    Heads heads{AlignedFloats(kHeads * kTokens * kHeadDim), std::vector<double>(kHeads * kTokens),
                std::vector<double>(kHeads * kTokens)};
    const auto read = [&](auto& values) {
      file.read(reinterpret_cast<char*>(values.data()),
                static_cast<std::streamsize>(values.size() * sizeof values[0]));
    };
    read(heads.keys);
    read(heads.first);
    read(heads.second);
    if (!file) throw std::runtime_error(std::string(path) + ": too short for the keys of all heads");
    return heads;
  }();
  return loaded;
}

void for_each_head(const std::function<void(Index)>& work) {
  static oneapi::tbb::task_arena arena(kThreads);
  arena.execute([&] { oneapi::tbb::parallel_for(Index{0}, kHeads, work); });
}

// Sums 32-bit words, as fast as they can be had: what the others' rate of reading is to be compared with.
KEYSCOPE_PER_PROCESSOR
std::uint32_t sum_words(const float* from, Index n) {
  constexpr Index kLanes = 16;
  using Words = std::uint32_t __attribute__((vector_size(kLanes * sizeof(std::uint32_t))));
  Words sums[8] = {};
  for (Index i = 0; i < n; i += 8 * kLanes)
    for (Index k = 0; k < 8; ++k) {
      Words words;
      std::memcpy(&words, from + i + k * kLanes, sizeof words);
      sums[k] += words;
    }
  std::uint32_t sum = 0;
  for (const Words& words : sums)
    for (Index lane = 0; lane < kLanes; ++lane) sum += words[lane];
  return sum;
}

void read_keys(benchmark::State& state) {
  const Heads& all = heads();
  for ([[maybe_unused]] auto _ : state)
    for_each_head(
        [&](Index head) { benchmark::DoNotOptimize(sum_words(all.of(head).data(), kTokens * kHeadDim)); });
  state.SetBytesProcessed(state.iterations() * kHeads * kTokens * kHeadDim * 4);
}
BENCHMARK(read_keys)->UseRealTime()->Unit(benchmark::kMillisecond);

// Up to their sign, what KeyDiff scores by.
void score_keydiff(benchmark::State& state) {
  const Heads& all = heads();
  std::vector<double> scores(kHeads * kTokens);
  for ([[maybe_unused]] auto _ : state)
    for_each_head([&](Index head) {
      const MatrixView keys = all.of(head);
      const RowMoments moments = row_moments(keys);
      quick_cosines(keys, moments.inverse_norms, QuickAnchor(moments.mean),
                    std::span(scores).subspan(head * kTokens, kTokens));
    });
  state.SetBytesProcessed(state.iterations() * kHeads * kTokens * kHeadDim * 4);
}
BENCHMARK(score_keydiff)->UseRealTime()->Unit(benchmark::kMillisecond);

void spearman(benchmark::State& state) {
  const Heads& all = heads();
  for ([[maybe_unused]] auto _ : state)
    for_each_head([&](Index head) {
      benchmark::DoNotOptimize(analysis::spearman(Heads::of(all.first, head), Heads::of(all.second, head)));
    });
}
BENCHMARK(spearman)->UseRealTime()->Unit(benchmark::kMillisecond);

void fit_pca(benchmark::State& state) {
  const Heads& all = heads();
  for ([[maybe_unused]] auto _ : state)
    for_each_head([&](Index head) {
      const std::vector<MatrixView> blocks{all.of(head)};
      benchmark::DoNotOptimize(analysis::fit_pca(blocks, 2));
    });
}
BENCHMARK(fit_pca)->UseRealTime()->Unit(benchmark::kMillisecond);

void log_volume(benchmark::State& state) {
  const Heads& all = heads();
  for ([[maybe_unused]] auto _ : state)
    for_each_head(
        [&](Index head) { benchmark::DoNotOptimize(analysis::log_volume(all.of(head).topRows(kRetained))); });
}
BENCHMARK(log_volume)->UseRealTime()->Unit(benchmark::kMillisecond);

// Of one head, by one thread.
void cosine_matrix(benchmark::State& state) {
  const Heads& all = heads();
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(analysis::cosine_matrix(all.of(0)));
}
BENCHMARK(cosine_matrix)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace keyscope::analysis
