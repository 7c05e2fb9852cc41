#pragma once

// Scores of a tile of queries become weights, with the statistics that only this moment can give for free.
// As lanes.hpp, in an anonymous namespace: every level of x86-64 has its own.

#include "capture/kernels/kernel_table.hpp"
#include "capture/kernels/lanes.hpp"

namespace keyscope::capture::kernels {
namespace {  // NOLINT(google-build-namespaces)

inline constexpr float kBelowAll = -3.0e38F;
inline constexpr int64_t kVectors = kPanel / kLanes;

// Rows whose running values stay in the first cache, and rows that are summed by columns in float32 before
// float64 takes them.
inline constexpr int64_t kRowsAtOnce = 16;
inline constexpr int64_t kRowsPerSum = 16;
static_assert(kRowsAtOnce % kRowsPerSum == 0);

// Up to kRowsAtOnce rows of a tile. A panel's rows lie one after another, so every pass goes panel by panel
// and keeps one vector a row; what lies between the passes is read in the order in which it was written.
class SoftmaxRows {
 public:
  SoftmaxRows(const SoftmaxTile& tile, int64_t first)
      : tile_(tile),
        first_(first),
        n_(tile.n_rows - first < kRowsAtOnce ? tile.n_rows - first : kRowsAtOnce) {
    for (int64_t i = 0; i < n_; ++i) {
      latest_begin_ = begin(i) > latest_begin_ ? begin(i) : latest_begin_;
      earliest_end_ = end(i) < earliest_end_ ? end(i) : earliest_end_;
    }
  }

  // Scales, caps and finds each row's largest visible score.
  void prepare() {
    for (int64_t i = 0; i < n_; ++i) running_[i].most = all(kBelowAll);
    const float scale = tile_.scale, softcap = tile_.softcap;
    for_visible([=](Running& row, float, float* at, int64_t shown_from, int64_t shown_to) {
      Floats s = load_vector<Floats>(at) * scale;
      if (softcap > 0) s = softcap * hyperbolic_tangent(s * (1.F / softcap));
      hide(s, shown_from, shown_to, kBelowAll);
      // What is not a number must not be lost in a comparison.
      row.most = (s > row.most || s != s) ? s : row.most;
      store_vector(at, s);
    });
    for (int64_t i = 0; i < n_; ++i) {
      most_[i] = max_of_all(running_[i].most);
      if (!(tile_.sink <= most_[i])) most_[i] = tile_.sink;
    }
  }

  // Exponentials relative to the largest score, their sum, and what of it a caller asked for.
  void exponentiate() {
    for_visible([](Running& row, float most, float* at, int64_t shown_from, int64_t shown_to) {
      const Floats s = load_vector<Floats>(at) - most;
      Floats e = exponential(s);
      hide(e, shown_from, shown_to, 0);
      row.moment += e * larger(s, all(-87.F));
      row.sum += e;
      store_vector(at, e);
    });
    for (int64_t i = 0; i < n_; ++i) {
      float sum = sum_of(running_[i].sum), moment = sum_of(running_[i].moment);
      if (!(tile_.sink <= kBelowAll)) {
        const float s = tile_.sink - most_[i], e = __builtin_expf(s);
        sum += e;
        moment += e * (s > -87.F ? s : -87.F);
      }
      const float log_sum = __builtin_logf(sum);
      inverse_[i] = 1.F / sum;
      tile_.log_sum_exp[first_ + i] = most_[i] + log_sum;
      // H = -Σ p ln p with p = e / sum and ln p = (s - most) - ln sum
      if (tile_.entropy != nullptr) tile_.entropy[first_ + i] = log_sum - moment / sum;
    }
  }

  // Divides by the sums, writes zeros where nothing is visible, rounds for the product with the values, and
  // sums columns.
  template <typename T>
  void normalize() const {
    for (int64_t panel = 0; panel < tile_.n_panels; ++panel)
      for (int64_t row = 0; row < n_; row += kRowsPerSum) {
        Floats sums[kVectors] = {};
        const int64_t end = row + kRowsPerSum < n_ ? row + kRowsPerSum : n_;
        for (int64_t i = row; i < end; ++i) normalize_row<T>(panel, i, sums);
        if (tile_.column_sums != nullptr) add(sums, tile_.column_sums + panel * kPanel);
      }
  }

 private:
  int64_t begin(int64_t i) const { return tile_.begin[first_ + i]; }
  int64_t end(int64_t i) const { return tile_.end[first_ + i]; }
  int64_t offset(int64_t panel, int64_t i) const { return (panel * tile_.n_rows + first_ + i) * kPanel; }

  struct Running {
    Floats most{}, sum{}, moment{};
  };

  // Calls loop(running, most, vector, from, to) for every vector of which a row sees something: lanes
  // [from, to).
  template <typename Loop>
  void for_visible(Loop loop) {
    for (int64_t panel = 0; panel < tile_.n_panels; ++panel) {
      const int64_t column = panel * kPanel;
      const bool whole = column >= latest_begin_ && column + kPanel <= earliest_end_;
      for (int64_t i = 0; i < n_; ++i) {
        float* at = tile_.scores + offset(panel, i);
        Running running = running_[i];  // in registers
        for (int64_t v = 0; v < kVectors; ++v) {
          if (whole) {
            loop(running, most_[i], at + v * kLanes, 0, kLanes);
            continue;
          }
          const int64_t from = begin(i) - column - v * kLanes, to = end(i) - column - v * kLanes;
          if (from < kLanes && to > 0) loop(running, most_[i], at + v * kLanes, from, to);
        }
        running_[i] = running;
      }
    }
  }

  template <typename T>
  void normalize_row(int64_t panel, int64_t i, Floats (&sums)[kVectors]) const {
    const int64_t column = panel * kPanel, row_begin = begin(i), row_end = end(i);
    const float inverse = inverse_[i];
    float* scores = tile_.scores + offset(panel, i);
    T* weights = tile_.weights == nullptr ? nullptr : static_cast<T*>(tile_.weights) + offset(panel, i);
    for (int64_t v = 0; v < kVectors; ++v) {
      const int64_t first = column + v * kLanes;
      const bool visible = first + kLanes > row_begin && first < row_end;
      const Floats weight = visible ? load_vector<Floats>(scores + v * kLanes) * inverse : Floats{};
      sums[v] += weight;
      store_vector(scores + v * kLanes, weight);
      if (weights != nullptr) T::store(weights + v * kLanes, weight);
    }
  }

  static void add(const Floats (&sums)[kVectors], double* to) {
    for (int64_t v = 0; v < kVectors; ++v) add_to_doubles(sums[v], to + v * kLanes);
  }

  static void hide(Floats& v, int64_t shown_from, int64_t shown_to, float value) {
    if (shown_from <= 0 && shown_to >= kLanes) return;
    for (int64_t i = 0; i < kLanes; ++i)
      if (i < shown_from || i >= shown_to) v[i] = value;
  }

  static float max_of_all(Floats v) {
    float most = v[0];
    for (int64_t i = 1; i < kLanes; ++i) most = (v[i] > most || v[i] != v[i]) ? v[i] : most;
    return most;
  }

  const SoftmaxTile& tile_;
  int64_t first_, n_;
  int64_t latest_begin_ = 0, earliest_end_ = INT64_MAX;
  Running running_[kRowsAtOnce];
  float most_[kRowsAtOnce] = {}, inverse_[kRowsAtOnce] = {};
};

// Rows of a tile summed by sixteens in float32, sums of sixteen rows in float64.
inline void add_columns(const ColumnSums& tile) {
  for (int64_t panel = 0; panel < tile.n_panels; ++panel)
    for (int64_t lane = 0; lane < kPanel; lane += kLanes) {
      const float* from = tile.weights + panel * tile.n_rows * kPanel + lane;
      double* to = tile.sums + panel * kPanel + lane;
      for (int64_t row = tile.first_row; row < tile.n_rows; row += kRowsPerSum) {
        const int64_t end = row + kRowsPerSum < tile.n_rows ? row + kRowsPerSum : tile.n_rows;
        Floats sum{};
        for (int64_t i = row; i < end; ++i) sum += load_vector<Floats>(from + i * kPanel);
        add_to_doubles(sum, to);
      }
    }
}

template <typename T>
void softmax(const SoftmaxTile& tile) {
  for (int64_t first = 0; first < tile.n_rows; first += kRowsAtOnce) {
    SoftmaxRows rows(tile, first);
    rows.prepare();
    rows.exponentiate();
    rows.normalize<T>();
  }
}

}  // namespace
}  // namespace keyscope::capture::kernels
