#pragma once

#include <cstdint>
#include <vector>

#include "capture/recording/hdf5.hpp"

namespace keyscope::recording {

// Values at scattered rows of a (n_kv_heads, n_tokens) dataset, collected head by head and written in one
// call.
template <typename T>
class ScatteredRows {
 public:
  // positions: ascending; where they have no gaps they are written as one slab, which is far quicker
  void add(std::size_t head, const std::vector<std::int32_t>& positions, const std::vector<T>& values) {
    if (positions.empty()) return;
    const auto n_rows = static_cast<hsize_t>(positions.size());
    const auto first = static_cast<hsize_t>(positions.front());
    if (static_cast<hsize_t>(positions.back()) - first + 1 == n_rows) {
      slabs_.push_back({head, first, values});
      return;
    }
    for (const std::int32_t position : positions) {
      coordinates_.push_back(head);
      coordinates_.push_back(static_cast<hsize_t>(position));
    }
    values_.insert(values_.end(), values.begin(), values.end());
  }

  void write(hdf5::Dataset& dataset) const {
    for (const Slab& slab : slabs_)
      dataset.write(std::span<const T>(slab.values), {slab.head, slab.first}, {1, slab.values.size()});
    dataset.write_points(std::span<const T>(values_), coordinates_);
  }

 private:
  struct Slab {
    hsize_t head = 0;
    hsize_t first = 0;
    std::vector<T> values;
  };
  std::vector<Slab> slabs_;
  std::vector<hsize_t> coordinates_;  // (head, position) of each of `values_`
  std::vector<T> values_;
};

}  // namespace keyscope::recording
