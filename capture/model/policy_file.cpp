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
#include "capture/model/recorded_attention.hpp"
#include "capture/model/rotary_frequencies.hpp"

namespace keyscope::capture {
namespace {

using analysis::HeadFile;

// What the file is to say of a layer.
struct LayerEntry {
  analysis::HeadShape heads;
  bool may_be_empty = false;
  int n_query_heads = 0;
  std::function<std::int64_t()> n_pairs;  // of coordinates that turn together
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

void read_numbers(const JsonField& list, const char* per, Eigen::Ref<Eigen::RowVectorXf> row) {
  const auto numbers = entries_of(list);
  require_count(list, numbers.size(), row.size(), per);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto number = static_cast<float>(numbers[i].number());
    if (!std::isfinite(number)) numbers[i].fail_type("a number that float32 holds");
    row[static_cast<Eigen::Index>(i)] = number;
  }
}

// Of a group's query heads one after another, the mean and then the mean lengths.
void read_query_means(const JsonField& head, const LayerEntry& expected, Eigen::Ref<Eigen::RowVectorXf> row) {
  const auto queries = entries_of(head);
  const Eigen::Index group = expected.n_query_heads / expected.heads.n_kv_heads, d = expected.heads.head_dim;
  require_count(head, queries.size(), group, "query head of the KV head's group");
  const Eigen::Index n = row.size() / group;
  for (Eigen::Index i = 0; i < group; ++i) {
    read_numbers(queries[i].member("mean"), "channel of a query", row.segment(i * n, d));
    const JsonField moduli = queries[i].member("moduli");
    read_numbers(moduli, "pair of channels that turn together and channel that does not turn",
                 row.segment(i * n + d, n - d));
    if (row.segment(i * n + d, n - d).minCoeff() < 0) moduli.fail("a number below 0", "mean lengths");
  }
}

Eigen::Index row_width(HeadFile kind, const LayerEntry& expected) {
  const Eigen::Index d = expected.heads.head_dim;
  if (kind == HeadFile::kFlags) return 1;
  if (kind == HeadFile::kVectors) return d;
  return expected.n_query_heads / expected.heads.n_kv_heads * (2 * d - expected.n_pairs());
}

RowMatrixF read_layer(const JsonField& layer, HeadFile kind, const LayerEntry& expected) {
  const auto heads = entries_of(layer);
  if (heads.empty() && expected.may_be_empty) return {};
  require_count(layer, heads.size(), expected.heads.n_kv_heads, "KV head");
  RowMatrixF rows(expected.heads.n_kv_heads, row_width(kind, expected));
  for (std::size_t head = 0; head < heads.size(); ++head) {
    auto row = rows.row(static_cast<Eigen::Index>(head));
    if (kind == HeadFile::kFlags)
      row[0] = static_cast<float>(heads[head].integer(0, 1));
    else if (kind == HeadFile::kVectors)
      read_numbers(heads[head], "channel of a key", row);
    else
      read_query_means(heads[head], expected, row);
  }
  return rows;
}

// What a file of the kind may look like.
const char* example_of(HeadFile kind) {
  if (kind == HeadFile::kFlags) return "[[1, 0], [0, 1]]";
  if (kind == HeadFile::kVectors)
    return "[[[0.1, -0.2], [0.3, 0.1]], …], a list of numbers per KV head of each layer";
  return R"([[[{"mean": [0.1, -0.2], "moduli": [0.3]}, …], …], …], an object per query head, in a list per KV head )"
         "of each layer";
}

std::vector<RowMatrixF> read_head_file(const std::string& path, HeadFile kind, int n_layers,
                                       const std::function<LayerEntry(int)>& entry_of) {
  constexpr int kDeepest = 5;
  const nlohmann::json json = parse_json(read_text_file(path), kDeepest);
  if (json.is_discarded())
    throw FileError(fmt::format("{}: a JSON array with an entry per layer is expected, such as {}", path,
                                example_of(kind)));
  const JsonField file(json, path, "layers");
  const auto layers = entries_of(file);
  require_count(file, layers.size(), n_layers, "layer");
  std::vector<RowMatrixF> read;
  for (int layer = 0; layer < n_layers; ++layer)
    read.push_back(read_layer(layers[layer], kind, entry_of(layer)));
  return read;
}

std::int64_t turning_pairs(const ModelConfig& config, int layer) {
  if (!config.rotates(layer)) return 0;
  return std::ssize(RotaryFrequencies(config, config.rotates_locally(layer)).of(1));
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
    return LayerEntry{config.heads(layer), !config.attends(layer) || config.borrows(layer), config.n_heads,
                      [&config, layer] { return turning_pairs(config, layer); }};
  });
}

std::unique_ptr<analysis::Policy> policy_for(const analysis::PolicySpec& spec, std::uint64_t seed,
                                             const recording::RecordingInfo& info) {
  return with_file(analysis::make_policy(spec, seed), info.model.n_layers, [&](int layer) {
    const bool own = std::ranges::binary_search(info.layers, layer) && info.model.lender(layer) == layer;
    return LayerEntry{info.model.heads(layer), !own, info.model.n_heads, [&info, layer] {
                        return turning_pairs(recorded_config(info, {&layer, 1}), layer);
                      }};
  });
}

}  // namespace keyscope::capture
