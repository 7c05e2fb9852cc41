#include "capture/recording/layer_rows.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.hpp"
#include "capture/recording/checked_read.hpp"
#include "capture/recording/row_store.hpp"

namespace keyscope::recording {
namespace {

using hdf5::ElementType;
using hdf5::Group;

// The types in which rows may lie.
constexpr auto kRowTypes = {ElementType::kFloat32, ElementType::kFloat16};

hsize_t size(std::int64_t n) { return static_cast<hsize_t>(n); }

// Every layer of every run has the same heads.
void check_heads(const Group& layer, const RecordingInfo& info) {
  const RecordedHeads heads = read_recorded_heads(layer, info.model.n_kv_heads);
  if (heads == info.heads) return;
  const auto listed = [&](const RecordedHeads& of) {
    return fmt::format("{}", fmt::join(of.list(info.model.n_kv_heads), ", "));
  };
  throw FileError(fmt::format("{}: kv_heads: found heads {}; expected {}, as in the first layer",
                              layer.where(), listed(heads), listed(info.heads)));
}

}  // namespace

RecordedHeads read_recorded_heads(const Group& layer, int n_kv_heads) {
  if (!layer.has("kv_heads")) return {};
  const hdf5::Dataset dataset = open_list(layer, "kv_heads", ElementType::kInt32);
  const hsize_t n_heads = dataset.shape().front();
  if (n_heads < 1 || n_heads > size(n_kv_heads))
    throw FileError(
        fmt::format("{}: found {} heads; expected 1 to {}", dataset.where(), n_heads, n_kv_heads));
  const auto heads = dataset.read<std::int32_t>();
  const bool ascending = std::ranges::adjacent_find(heads, std::greater_equal<>()) == heads.end();
  if (!ascending || heads.front() < 0 || heads.back() >= n_kv_heads)
    throw FileError(fmt::format("{}: found [{}]; expected ascending indices of {} KV heads", dataset.where(),
                                fmt::join(heads, ", "), n_kv_heads));
  if (n_heads == size(n_kv_heads)) return {};
  return {{heads.begin(), heads.end()}};
}

StoreType read_store(const Group& layer) {
  StoreType coarsest = StoreType::kFloat32;
  for (const char* name : {"keys", "queries", "values"}) {
    if (!layer.has(name)) continue;
    const StoreType store = store_of(layer.open_dataset(name, 0, {0}));
    if (store_rounding(store) > store_rounding(coarsest)) coarsest = store;
  }
  return coarsest;
}

void check_layer_rows(const Group& layer, const RecordingInfo& info, const RunInfo& run) {
  check_heads(layer, info);
  const int n_recorded = info.heads.count(info.model.n_kv_heads);
  const hsize_t n_kv_heads = size(n_recorded), n_heads = size(n_recorded * info.model.group_size());
  const hsize_t head_dim = size(info.model.head_dim), n_tokens = size(run.n_tokens);
  const Roomy rows = info.complete ? Roomy{} : Roomy{1};
  const Roomy matrix = info.complete ? Roomy{} : Roomy{1, 2};
  const auto check = [&](const char* name, hsize_t n) {
    store_of(open_dataset(layer, name, kRowTypes, {n, n_tokens, head_dim}, rows));
  };
  if (info.keys) check("keys", n_kv_heads);
  if (info.queries) check("queries", n_heads);
  if (info.values) check("values", n_kv_heads);
  // Nothing attended under the eviction of a replayed run.
  if (info.attention && !run.plan.replayed)
    open_dataset(layer, "attention", kRowTypes, {n_heads, n_tokens, n_tokens}, matrix);
}

}  // namespace keyscope::recording
