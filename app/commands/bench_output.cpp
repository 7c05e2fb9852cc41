#include "app/commands/bench_output.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/benchmarks/benchmark_figure.hpp"
#include "app/commands/bench_table.hpp"
#include "app/commands/provenance_now.hpp"
#include "app/drawing/cairo_painter.hpp"
#include "app/figures/nexus.hpp"

namespace keyscope::commands {
namespace {

// A figure file says where its figures come from; all of the benchmark is in its configuration.
recording::Origin origin_of(const benchmarks::Benchmark& benchmark,
                            const std::optional<capture::ModelConfig>& config) {
  recording::Origin origin;
  origin.provenance = provenance_now();
  origin.provenance.configuration = benchmarks::benchmark_json(benchmark).dump();
  origin.provenance.seed = static_cast<std::int64_t>(benchmark.seed);
  origin.provenance.device = benchmark.setting.device;
  origin.model = {"{}", "random keys", 1, 1, 1, 1};
  if (config)
    origin.model = {config->raw_json, benchmark.setting.model, config->n_layers,
                    config->n_heads,  config->n_kv_heads,      config->head_dim};
  return origin;
}

void write_figure(const benchmarks::Benchmark& benchmark, const std::optional<capture::ModelConfig>& config,
                  const BenchOutputs& outputs) {
  const figures::Figure figure = benchmarks::benchmark_figure(benchmark);
  if (figures::is_nexus_path(outputs.out))
    return figures::write_nexus(outputs.out, {figure}, origin_of(benchmark, config), outputs.force);
  figures::PageOptions page;
  page.replace = outputs.force;
  figures::draw_to_file(figure, outputs.out, page);
}

}  // namespace

void write_benchmark(const benchmarks::Benchmark& benchmark,
                     const std::optional<capture::ModelConfig>& config, const BenchOutputs& outputs) {
  if (!outputs.json.is_stdout()) fmt::print("{}\n{}", bench_setting(benchmark), bench_table(benchmark));
  if (outputs.json.given()) write_json(outputs.json, benchmarks::benchmark_json(benchmark));
  if (!outputs.out.empty()) write_figure(benchmark, config, outputs);
}

}  // namespace keyscope::commands
