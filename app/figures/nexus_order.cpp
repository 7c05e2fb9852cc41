#include "app/figures/nexus_order.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/figures/nexus_lists.hpp"

namespace keyscope::figures {
namespace {

using analysis::Merge;
using recording::hdf5::Dataset;
using recording::hdf5::ElementType;
using recording::hdf5::Group;

constexpr hsize_t kColumns = 4;  // of SciPy's linkage matrix

void write_linkage(Group& group, const std::vector<Merge>& merges) {
  std::vector<double> table;
  table.reserve(merges.size() * kColumns);
  for (const Merge& merge : merges)
    for (const double value : {static_cast<double>(merge.first), static_cast<double>(merge.second),
                               static_cast<double>(merge.height), static_cast<double>(merge.n_rows)})
      table.push_back(value);
  Dataset dataset = group.create_dataset("linkage", ElementType::kFloat64, {merges.size(), kColumns}, {});
  dataset.write(std::span<const double>(table));
  dataset.set_text("long_name", "tree over rows and columns, as of scipy.cluster.hierarchy.linkage");
  dataset.set_text("units", "");
}

// Every cluster is there when it merges, and merges once.
bool is_tree(const std::vector<Merge>& merges, std::int64_t n_places) {
  std::vector<char> taken(static_cast<std::size_t>(n_places) + merges.size(), 0);
  for (std::size_t k = 0; k < merges.size(); ++k)
    for (const std::int32_t cluster : {merges[k].first, merges[k].second}) {
      if (cluster < 0 || cluster >= n_places + static_cast<std::int64_t>(k)) return false;
      if (std::exchange(taken[static_cast<std::size_t>(cluster)], 1) != 0) return false;
    }
  return true;
}

std::vector<Merge> read_linkage(const Group& group, std::int64_t n_places) {
  const Dataset dataset = group.open_dataset("linkage");
  const recording::hdf5::Shape expected{static_cast<hsize_t>(n_places - 1), kColumns};
  if (n_places < 1 || dataset.shape() != expected)
    throw FileError(fmt::format("{}: shape is {}; expected ({}, {}) for a matrix of {} rows", dataset.where(),
                                recording::hdf5::format_shape(dataset.shape()), n_places - 1, kColumns,
                                n_places));
  const auto table = dataset.read<double>();
  std::vector<Merge> merges;
  for (std::size_t at = 0; at < table.size(); at += kColumns) {
    const auto whole = [&](std::size_t column) {
      const double value = table[at + column];  // what no number of a cluster can be is refused as -1
      return value >= 0 && value < 4e9 / 2 ? static_cast<std::int32_t>(value) : -1;
    };
    merges.push_back({whole(0), whole(1), static_cast<float>(table[at + 2]), whole(3)});
  }
  if (!is_tree(merges, n_places))
    throw FileError(
        fmt::format("{}: a cluster merges twice, or before it is there; expected a tree of {} rows",
                    dataset.where(), n_places));
  return merges;
}

}  // namespace

void write_order(Group& group, const TokenOrder& order) {
  write_list(group, "token", order.token, "token position of each row and column");
  if (!order.retained.empty())
    write_list(group, "retained", order.retained, "each row's and column's key: retained (1) or evicted (0)");
  if (!order.merges.empty()) write_linkage(group, order.merges);
}

TokenOrder read_order(const Group& group, std::int64_t n_places) {
  const auto n = static_cast<std::size_t>(std::max<std::int64_t>(0, n_places));
  TokenOrder order;
  order.token = read_list<std::int32_t>(group, "token", n);
  if (group.has("retained")) order.retained = read_list<std::uint8_t>(group, "retained", n);
  if (group.has("linkage")) order.merges = read_linkage(group, n_places);
  return order;
}

void name_tokens(TokenOrder& order, const recording::TokenText& prompt) {
  order.text.clear();
  for (const std::int32_t position : order.token)
    order.text.push_back(position >= 0 && position < prompt.size() ? prompt.token(position) : std::string());
}

}  // namespace keyscope::figures
