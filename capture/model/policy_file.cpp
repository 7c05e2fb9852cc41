#include "capture/model/policy_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"

namespace keyscope::capture {
namespace {

using analysis::HeadFile;

// What the file is to say of a layer.
struct LayerEntry {
  analysis::HeadShape heads;
  bool may_be_empty = false;
};

std::vector<JsonField> entries_of(const JsonField& list) {
  std::vector<JsonField> entries;
  list.for_each([&](const JsonField& entry) { entries.push_back(entry); });
  return entries;
}

void require_count(const JsonField& list, std::size_t found, std::int64_t expected, const char* per) {
  if (std::cmp_not_equal(found, expected))
    list.fail(fmt::format("{} entries", found), fmt::format("{}, one per {} of the model", expected, per));
}

void read_head(const JsonField& head, HeadFile kind, Eigen::Ref<Eigen::RowVectorXf> row) {
  if (kind == HeadFile::kFlags) {
    row[0] = static_cast<float>(head.integer(0, 1));
    return;
  }
  const auto numbers = entries_of(head);
  require_count(head, numbers.size(), row.size(), "channel of a key");
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto number = static_cast<float>(numbers[i].number());
    if (!std::isfinite(number)) numbers[i].fail_type("a number that float32 holds");
    row[static_cast<Eigen::Index>(i)] = number;
  }
}

RowMatrixF read_layer(const JsonField& layer, HeadFile kind, const LayerEntry& expected) {
  const auto heads = entries_of(layer);
  const int width = kind == HeadFile::kVectors ? expected.heads.head_dim : 1;
  if (heads.empty() && expected.may_be_empty) return RowMatrixF(0, width);
  require_count(layer, heads.size(), expected.heads.n_kv_heads, "KV head");
  RowMatrixF rows(expected.heads.n_kv_heads, width);
  for (std::size_t head = 0; head < heads.size(); ++head)
    read_head(heads[head], kind, rows.row(static_cast<Eigen::Index>(head)));
  return rows;
}

std::vector<RowMatrixF> read_head_file(const std::string& path, HeadFile kind, int n_layers,
                                       const std::function<LayerEntry(int)>& entry_of) {
  constexpr int kDeepest = 3;
  const nlohmann::json json = parse_json(read_text_file(path), kDeepest);
  if (json.is_discarded())
    throw FileError(fmt::format("{}: a JSON array with an entry per layer is expected, such as {}", path,
                                kind == HeadFile::kFlags ? "[[1, 0], [0, 1]]"
                                                         : "[[[0.1, -0.2], [0.3, 0.1]], …], a list of "
                                                           "numbers per KV head of each layer"));
  const JsonField file(json, path, "layers");
  const auto layers = entries_of(file);
  require_count(file, layers.size(), n_layers, "layer");
  std::vector<RowMatrixF> read;
  for (int layer = 0; layer < n_layers; ++layer)
    read.push_back(read_layer(layers[layer], kind, entry_of(layer)));
  return read;
}

std::unique_ptr<analysis::Policy> with_file(std::unique_ptr<analysis::Policy> policy, int n_layers,
                                            const std::function<LayerEntry(int)>& entry_of) {
  if (policy != nullptr && policy->head_file() != HeadFile::kNone)
    policy->take_file(
        read_head_file(policy->spec().options.at("file"), policy->head_file(), n_layers, entry_of));
  return policy;
}

}  // namespace

std::unique_ptr<analysis::Policy> policy_for(const analysis::PolicySpec& spec, std::uint64_t seed,
                                             const ModelConfig& config) {
  return with_file(analysis::make_policy(spec, seed), config.n_layers, [&](int layer) {
    return LayerEntry{config.heads(layer), !config.attends(layer) || config.borrows(layer)};
  });
}

std::unique_ptr<analysis::Policy> policy_for(const analysis::PolicySpec& spec, std::uint64_t seed,
                                             const recording::RecordingInfo& info) {
  return with_file(analysis::make_policy(spec, seed), info.model.n_layers, [&](int layer) {
    const bool own = std::ranges::binary_search(info.layers, layer) && info.model.lender(layer) == layer;
    return LayerEntry{info.model.heads(layer), !own};
  });
}

}  // namespace keyscope::capture
