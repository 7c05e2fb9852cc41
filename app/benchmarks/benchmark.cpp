#include "app/benchmarks/benchmark.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include <nlohmann/json.hpp>

#include "capture/kernels/kernels.hpp"
#include "capture/model/transformer.hpp"

namespace keyscope::benchmarks {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<const char*, std::optional<Spread> Row::*> kSpreads[]{
    {"ttft_ms", &Row::ttft_ms},
    {"tokens_per_second", &Row::tokens_per_second},
    {"attention_share", &Row::attention_share},
    {"eviction_share", &Row::eviction_share},
    {"products_share", &Row::products_share},
    {"generated_per_second", &Row::generated_per_second},
    {"plain_ms", &Row::plain_ms},
    {"recorded_ms", &Row::recorded_ms},
    {"overhead", &Row::overhead},
    {"score_us", &Row::score_us},
    {"select_us", &Row::select_us},
    {"statistics_us", &Row::statistics_us},
    {"relative", &Row::relative},
    {"all_relative", &Row::all_relative},
    {"peak_bytes", &Row::peak_bytes}};
constexpr std::pair<const char*, std::optional<double> Row::*> kNumbers[]{
    {"paper_relative", &Row::paper_relative},
    {"flops", &Row::flops},
    {"flops_relative", &Row::flops_relative}};
constexpr std::pair<const char*, std::optional<std::int64_t> Row::*> kCounts[]{
    {"file_bytes", &Row::file_bytes},
    {"peak_cache_rows", &Row::peak_cache_rows},
    {"peak_cache_bytes", &Row::peak_cache_bytes}};

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

void put(Json& json, const std::string& name, const std::optional<Spread>& spread) {
  json[name] = spread ? Json(spread->median) : Json(nullptr);
  json[name + "_min"] = spread ? Json(spread->least) : Json(nullptr);
  json[name + "_max"] = spread ? Json(spread->most) : Json(nullptr);
}

Json row_json(const Row& row) {
  Json json{{"policy", row.policy},
            {"budget", or_null(row.budget)},
            {"block", or_null(row.block)},
            {"schedule", or_null(row.schedule)},
            {"n_tokens", row.n_tokens}};
  for (const auto& [name, spread] : kSpreads) put(json, name, row.*spread);
  for (const auto& [name, number] : kNumbers) json[name] = or_null(row.*number);
  for (const auto& [name, count] : kCounts) json[name] = or_null(row.*count);
  return json;
}

}  // namespace

Setting setting_of(const capture::Model& model) {
  const auto folder = std::filesystem::absolute(model.folder()).lexically_normal();
  const auto name = folder.has_filename() ? folder.filename() : folder.parent_path().filename();
  const bool kernels = model.transformer().arithmetic() == capture::Arithmetic::kKernels;
  return {name.string(),       model.dtype_name(),
          model.device_name(), kernels ? capture::kernels::best().level : "ATen",
          model.threads(),     model.weight_bytes()};
}

Json benchmark_json(const Benchmark& benchmark) {
  const Setting& setting = benchmark.setting;
  Json json{{"format", 1}, {"benchmark", benchmark.name}};
  json["model"] = setting.model.empty() ? Json(nullptr) : Json(setting.model);
  json["dtype"] = setting.dtype;
  json["device"] = setting.device;
  json["kernels"] = setting.kernels;
  json["threads"] = setting.threads;
  json["weight_bytes"] = setting.weight_bytes;
  json["repeat"] = benchmark.repeat;
  json["seed"] = benchmark.seed;
  put(json, "product_gflops", benchmark.product_gflops);
  json["load_before"] = or_null(benchmark.load_before);
  json["load_after"] = or_null(benchmark.load_after);
  json["rows"] = Json::array();
  for (const Row& row : benchmark.rows) json["rows"].push_back(row_json(row));
  return json;
}

std::optional<double> load_average() {
  std::array<double, 1> load{};
  return getloadavg(load.data(), 1) == 1 ? std::optional(load[0]) : std::nullopt;
}

}  // namespace keyscope::benchmarks
