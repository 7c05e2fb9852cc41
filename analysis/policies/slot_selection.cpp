#include "analysis/policies/slot_selection.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "analysis/policies/registry.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

constexpr double kAdaKvFloor = 0.2;  // of N: what each head keeps of its own

// Rows of positions below `end`.
std::int64_t rows_below(std::span<const std::int32_t> positions, std::int64_t end) {
  return std::lower_bound(positions.begin(), positions.end(), end) - positions.begin();
}

}  // namespace

std::vector<std::int32_t> protected_rows(const Slots::Protection& protect, const LayerCut& cut,
                                         std::span<const std::int32_t> positions, std::int64_t most) {
  const auto n_rows = std::ssize(positions);
  std::vector<std::int32_t> rows;
  std::vector<bool> taken(positions.size());
  const auto take = [&](std::int64_t row) {
    if (row < 0 || taken[row] || std::ssize(rows) >= most) return;
    taken[row] = true;
    rows.push_back(static_cast<std::int32_t>(row));
  };
  const std::int64_t n_boundary = round_half_up(protect.boundaries, cut.nominal);
  const std::int64_t n_first =
      std::max(rows_below(positions, protect.sinks), rows_below(positions, (n_boundary + 1) / 2));
  for (std::int64_t row = 0; row < n_first; ++row) take(row);
  const std::int64_t n_recent =
      protect.recent.rows > 0 ? protect.recent.rows : round_half_up(protect.recent.share, cut.nominal);
  for (std::int64_t row = n_rows - 1; row >= std::max<std::int64_t>(0, n_rows - n_recent); --row) take(row);
  const std::int64_t prompt_end = rows_below(positions, cut.n_prompt);
  for (std::int64_t i = 1; i <= n_boundary / 2; ++i) take(prompt_end - i);
  return rows;
}

std::int64_t protected_everywhere(const Slots::Protection& protect, std::int64_t budget) {
  // As protected_rows counts them where the rows are those of the positions below the budget: some of the
  // first, and some of the last.
  const std::int64_t n_boundary = round_half_up(protect.boundaries, budget);
  const std::int64_t n_recent =
      protect.recent.rows > 0 ? protect.recent.rows : round_half_up(protect.recent.share, budget);
  const std::int64_t n_first = std::max<std::int64_t>(protect.sinks, (n_boundary + 1) / 2);
  const std::int64_t n_last = std::max(n_recent, n_boundary / 2);
  return std::min(budget, std::min(budget, n_first) + std::min(budget, n_last));
}

std::vector<std::uint8_t> forced_rows(const Slots& slots, std::span<const std::int32_t> positions,
                                      std::span<const std::uint8_t> by_policy, const LayerCut& cut,
                                      std::int64_t most) {
  std::vector<std::uint8_t> marks(positions.size());
  const auto protect = protected_rows(slots.protect, cut, positions, most);
  for (const std::int32_t row : protect) marks[row] = 1;
  auto n_marked = std::ssize(protect);
  for (auto row = std::ssize(marks) - 1; row >= 0 && n_marked < most; --row)
    if (by_policy[row] != 0 && marks[row] == 0) {
      marks[row] = 1;
      ++n_marked;
    }
  return marks;
}

namespace {

// A row of one of a layer's heads.
struct HeadRow {
  double score;
  std::int32_t position;
  std::int32_t head, row;

  // The one that stays rather.
  bool before(const HeadRow& other) const {
    if (score != other.score) return score > other.score;
    return position != other.position ? position < other.position : head < other.head;
  }
};

// The best `n` of `rows` come first.
void partition(std::vector<HeadRow>& rows, std::int64_t n) {
  n = std::clamp<std::int64_t>(n, 0, std::ssize(rows));
  std::nth_element(rows.begin(), rows.begin() + n, rows.end(),
                   [](const HeadRow& a, const HeadRow& b) { return a.before(b); });
}

// What rows are ranked by that are not of the better half (CriticalKV).
//   least: what `shift` takes from every score
std::vector<double> weighed(const RankedRows& rows, double least) {
  constexpr double kEpsilon = 1e-4;
  if (rows.value_norms.size() != rows.scores.size())
    throw InvalidInput(fmt::format("selection of rows: {} norms of values for {} rows",
                                   rows.value_norms.size(), rows.scores.size()));
  std::vector<double> products;
  for (std::size_t row = 0; row < rows.scores.size(); ++row)
    products.push_back((rows.scores[row] - least + kEpsilon) * rows.value_norms[row]);
  require_finite_scores(products);
  return products;
}

double least_score(const Slots& slots, std::span<const RankedRows> heads) {
  if (slots.critical != Slots::Critical::kShift) return 0;
  double least = std::numeric_limits<double>::infinity();
  for (const RankedRows& rows : heads)
    for (const double score : rows.scores) least = std::min(least, score);
  return least;
}

std::int64_t better_half(std::int64_t budget) { return std::max<std::int64_t>(1, budget / 2); }

// Of rows of which `marks` stay: the `budget` that do, by score, and by their values where these weigh.
Selection select_ranked(const Slots& slots, const RankedRows& rows, std::vector<std::uint8_t> marks,
                        std::int64_t budget) {
  if (!slots.weighs_values() || std::ssize(marks) <= budget) return select_rows(rows.scores, marks, budget);
  const auto n_marked = std::count(marks.begin(), marks.end(), std::uint8_t{1});
  if (n_marked < better_half(budget))
    for (const std::int32_t row : select_rows(rows.scores, marks, better_half(budget)).retained)
      marks[row] = 1;
  return select_rows(weighed(rows, least_score(slots, {&rows, 1})), marks, budget);
}

// The best `n` of rows that are left of a layer's heads stay.
//   returns the least score of them; NaN where there are none
double take_best(std::vector<HeadRow>& open, std::int64_t n, std::vector<std::vector<std::uint8_t>>& stays) {
  n = std::clamp<std::int64_t>(n, 0, std::ssize(open));
  partition(open, n);
  double least = std::numeric_limits<double>::quiet_NaN();
  for (std::int64_t i = 0; i < n; ++i) {
    stays[open[i].head][open[i].row] = 1;
    least = std::isnan(least) ? open[i].score : std::min(least, open[i].score);
  }
  open.erase(open.begin(), open.begin() + n);
  return least;
}

// AdaKV: each head keeps what is forced and its own best up to the floor; the layer's best rows fill the
// rest, half of all by score alone where values weigh.
std::vector<Selection> select_adakv(const Slots& slots, std::span<const RankedRows> heads,
                                    const LayerCut& cut) {
  std::vector<std::vector<std::uint8_t>> stays;
  std::vector<HeadRow> open;
  const std::int64_t all = std::reduce(cut.budgets.begin(), cut.budgets.end());
  std::int64_t left = all;
  double least_floor = std::numeric_limits<double>::infinity();
  for (std::size_t head = 0; head < heads.size(); ++head) {
    const RankedRows& rows = heads[head];
    require_finite_scores(rows.scores);
    auto& marks = stays.emplace_back(forced_rows(slots, rows.positions, rows.forced, cut, cut.budgets[head]));
    const auto n_forced = std::count(marks.begin(), marks.end(), std::uint8_t{1});
    std::vector<HeadRow> own;
    for (std::size_t row = 0; row < marks.size(); ++row)
      if (marks[row] == 0)
        own.push_back({rows.scores[row], rows.positions[row], static_cast<std::int32_t>(head),
                       static_cast<std::int32_t>(row)});
    const auto floor =
        static_cast<std::int64_t>(std::ceil(kAdaKvFloor * static_cast<double>(cut.budgets[head]) - 1e-9));
    const auto n_floor = std::clamp<std::int64_t>(floor - n_forced, 0, std::ssize(own));
    partition(own, n_floor);
    for (std::int64_t i = 0; i < n_floor; ++i) {
      marks[own[i].row] = 1;
      least_floor = std::min(least_floor, own[i].score);
    }
    left -= n_forced + n_floor;
    open.insert(open.end(), own.begin() + n_floor, own.end());
  }
  std::vector<std::vector<double>> ranks;
  for (const RankedRows& rows : heads)
    ranks.push_back(slots.weighs_values() ? weighed(rows, least_score(slots, heads))
                                          : std::vector<double>(rows.scores.begin(), rows.scores.end()));
  if (slots.weighs_values()) {
    const std::int64_t n_by_score = std::clamp<std::int64_t>(better_half(all) - (all - left), 0, left);
    take_best(open, n_by_score, stays);
    left -= n_by_score;
    for (HeadRow& row : open) row.score = ranks[row.head][row.row];
  }
  double least = take_best(open, left, stays);
  if (std::isnan(least) && std::isfinite(least_floor) && !slots.weighs_values())
    least = least_floor;  // floors took all there is
  std::vector<Selection> selections(heads.size());
  for (std::size_t head = 0; head < heads.size(); ++head)
    for (std::size_t row = 0; row < stays[head].size(); ++row) {
      Selection& selection = selections[head];
      if (stays[head][row] != 0) {
        selection.retained.push_back(static_cast<std::int32_t>(row));
        continue;
      }
      selection.evicted.push_back(static_cast<std::int32_t>(row));
      selection.margin.push_back(static_cast<float>(least - ranks[head][row]));
    }
  return selections;
}

// Heads that are to hold the same rows, as one: the mean of their scores; forced is what all of them force.
struct JointRows {
  std::vector<double> scores, norms;  // norms: as many, or none
  std::vector<std::uint8_t> forced;
  std::span<const std::int32_t> positions;

  void add(const RankedRows& rows) {
    if (positions.data() == nullptr) {
      positions = rows.positions;
      scores.assign(rows.scores.size(), 0);
      norms.assign(rows.value_norms.size(), 0);
      forced.assign(rows.forced.begin(), rows.forced.end());
    }
    if (!std::ranges::equal(positions, rows.positions))
      throw InvalidInput(fmt::format(
          "selection of rows: heads that share one set hold {} and {} rows, or others; they must be the same",
          positions.size(), rows.positions.size()));
    for (std::size_t row = 0; row < scores.size(); ++row) {
      scores[row] += rows.scores[row];
      forced[row] = static_cast<std::uint8_t>(forced[row] != 0 && rows.forced[row] != 0);
    }
    for (std::size_t row = 0; row < std::min(norms.size(), rows.value_norms.size()); ++row)
      norms[row] += rows.value_norms[row];
    ++n_heads;
  }
  RankedRows mean() {
    for (double& score : scores) score /= n_heads;
    for (double& norm : norms) norm /= n_heads;
    return {scores, forced, positions, norms};
  }

  double n_heads = 0;
};

// Rows [first, end) that are one page.
struct Page {
  std::size_t first, end;
};

std::vector<Page> pages_of(std::span<const std::int32_t> positions, std::int64_t page_rows) {
  std::vector<Page> pages;
  for (std::size_t row = 0; row < positions.size(); ++row) {
    const bool same = row > 0 && positions[row] / page_rows == positions[row - 1] / page_rows;
    if (same)
      pages.back().end = row + 1;
    else
      pages.push_back({row, row + 1});
  }
  return pages;
}

// A page that is not full yet stays, since the next tokens go there; then those that hold the most important
// of the protected rows, as many as there is room for.
std::vector<std::uint8_t> forced_pages(const Slots& slots, const RankedRows& rows, const LayerCut& cut,
                                       const std::vector<Page>& pages, std::int64_t n_stay) {
  std::vector<std::uint8_t> marks(pages.size());
  std::vector<std::size_t> page_of(rows.positions.size());
  for (std::size_t page = 0; page < pages.size(); ++page)
    std::fill(page_of.begin() + static_cast<std::ptrdiff_t>(pages[page].first),
              page_of.begin() + static_cast<std::ptrdiff_t>(pages[page].end), page);
  std::int64_t n_marked = 0;
  const auto mark = [&](std::size_t page) {
    if (marks[page] != 0 || n_marked == n_stay) return;
    marks[page] = 1;
    ++n_marked;
  };
  if ((rows.positions.back() + 1) % slots.page_rows != 0) mark(pages.size() - 1);
  const auto n_rows = std::ssize(rows.positions);
  for (const std::int32_t row : protected_rows(slots.protect, cut, rows.positions, n_rows))
    mark(page_of[row]);
  for (auto row = n_rows - 1; row >= 0; --row)
    if (rows.forced[row] != 0) mark(page_of[row]);
  return marks;
}

// Of each page's rows; nothing where rows have nothing.
std::vector<double> page_means(std::span<const double> of_rows, const std::vector<Page>& pages) {
  std::vector<double> means;
  if (of_rows.empty()) return means;
  for (const Page& page : pages) {
    const auto of_page = of_rows.subspan(page.first, page.end - page.first);
    means.push_back(std::accumulate(of_page.begin(), of_page.end(), 0.0) /
                    static_cast<double>(of_page.size()));
  }
  return means;
}

Selection select_pages(const Slots& slots, const RankedRows& rows, const LayerCut& cut, std::int64_t budget) {
  const std::int64_t n_stay = std::max<std::int64_t>(1, budget / slots.page_rows);
  const std::vector<Page> pages = pages_of(rows.positions, slots.page_rows);
  const std::vector<double> scores = page_means(rows.scores, pages),
                            norms = page_means(rows.value_norms, pages);
  const Selection by_page =
      select_ranked(slots, {scores, {}, {}, norms}, forced_pages(slots, rows, cut, pages, n_stay), n_stay);
  Selection selection;
  const auto add = [&](std::vector<std::int32_t>& to, std::int32_t page) {
    for (std::size_t row = pages[page].first; row < pages[page].end; ++row)
      to.push_back(static_cast<std::int32_t>(row));
  };
  for (const std::int32_t page : by_page.retained) add(selection.retained, page);
  for (std::size_t i = 0; i < by_page.evicted.size(); ++i) {
    add(selection.evicted, by_page.evicted[i]);
    selection.margin.resize(selection.evicted.size(), by_page.margin[i]);
  }
  return selection;
}

Selection select_one(const Slots& slots, const RankedRows& rows, const LayerCut& cut, std::int64_t budget) {
  if (slots.granularity == Slots::Granularity::kPage) return select_pages(slots, rows, cut, budget);
  return select_ranked(slots, rows, forced_rows(slots, rows.positions, rows.forced, cut, budget), budget);
}

}  // namespace

std::vector<Selection> select_layer(const Slots& slots, std::span<const RankedRows> heads,
                                    const LayerCut& cut) {
  if (slots.split == Slots::Split::kAdaKv) return select_adakv(slots, heads, cut);
  if (slots.joint()) {
    JointRows all;
    for (const RankedRows& rows : heads) all.add(rows);
    return std::vector<Selection>(heads.size(), select_one(slots, all.mean(), cut, cut.budgets.front()));
  }
  std::vector<Selection> selections;
  for (std::size_t head = 0; head < heads.size(); ++head)
    selections.push_back(select_one(slots, heads[head], cut, cut.budgets[head]));
  return selections;
}

std::vector<std::vector<Selection>> select_model(const Slots& slots,
                                                 std::span<const std::vector<RankedRows>> layers,
                                                 const LayerCut& cut) {
  JointRows all;
  for (const auto& heads : layers)
    for (const RankedRows& rows : heads) all.add(rows);
  const Selection selection = select_one(slots, all.mean(), cut, cut.budgets.front());
  std::vector<std::vector<Selection>> selections;
  for (const auto& heads : layers) selections.emplace_back(heads.size(), selection);
  return selections;
}

}  // namespace keyscope::analysis
