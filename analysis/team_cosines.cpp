#include "analysis/team_cosines.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <ranges>
#include <thread>
#include <utility>
#include <vector>

#include "analysis/quick_cosines.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

// Where the members of a team wait for each other, some ten microseconds at a time: too short to be put to
// sleep, so they look again and again, and leave the core to others once it takes longer.
class MeetingPoint {
 public:
  explicit MeetingPoint(int n_members) : n_members_(n_members) {}

  // Returns once every member has come. False if one has failed, and will not.
  bool meet() {
    constexpr int kLooks = 4096;
    const int meeting = n_meetings_.load();
    if (n_waiting_.fetch_add(1) + 1 == n_members_) {
      n_waiting_ = 0;
      n_meetings_ = meeting + 1;
    }
    for (int looks = 0; n_meetings_ == meeting; ++looks) {
      if (failed_) return false;
      if (looks >= kLooks) std::this_thread::yield();
    }
    return !failed_;
  }

  void fail() { failed_ = true; }

 private:
  const int n_members_;
  std::atomic<int> n_waiting_ = 0;
  std::atomic<int> n_meetings_ = 0;
  std::atomic<bool> failed_ = false;
};

class Team {
 public:
  Team(std::span<const MatrixView> heads, std::span<const std::span<double>> cosines, int n_members)
      : heads_(heads),
        cosines_(cosines),
        n_members_(n_members),
        meeting_point_(n_members),
        n_taken_(heads.size()) {
    Index most_rows = 0;
    for (const MatrixView& head : heads) most_rows = std::max(most_rows, head.rows());
    for (auto& sums : sums_)
      sums.resize(static_cast<std::size_t>((most_rows + kPortionRows - 1) / kPortionRows));
  }

  void run() {
    {
      std::vector<std::jthread> others;
      try {
        for (int member = 1; member < n_members_; ++member) others.emplace_back([this] { work_or_fail(); });
      } catch (...) {  // those who have started would wait for ever
        fail_with(std::current_exception());
      }
      work_or_fail();
    }
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  // Taken by whoever is free, because cores seldom get the same share of the memory's bandwidth.
  static constexpr Index kPortionRows = 1024;

  struct Portion {
    Index first;  // row
    VectorXd inverse_norms;
  };

  static MatrixView rows_of(const MatrixView& head, Index first) {
    return head.middleRows(first, std::min(kPortionRows, head.rows() - first));
  }

  // Takes and measures what is left of a head. Returns what it took.
  std::vector<Portion> measure(std::size_t head, std::vector<VectorXd>& sums) {
    std::vector<Portion> taken;
    for (;;) {
      const Index portion = n_taken_[head]++;
      const Index first = portion * kPortionRows;
      if (first >= heads_[head].rows()) return taken;
      const MatrixView rows = rows_of(heads_[head], first);
      RowMoments moments = row_moments(rows);
      sums[static_cast<std::size_t>(portion)] = moments.mean * static_cast<double>(rows.rows());
      taken.push_back({first, std::move(moments.inverse_norms)});
    }
  }

  void work() {
    for (std::size_t head = 0; head < heads_.size(); ++head) {
      const MatrixView& rows = heads_[head];
      // Two sets in turn: whoever is at the next head has met those who still add up this one's.
      std::vector<VectorXd>& sums = sums_[head % 2];
      const std::vector<Portion> mine = measure(head, sums);
      if (!meeting_point_.meet()) return;
      VectorXd mean = VectorXd::Zero(rows.cols());
      for (Index first = 0; first < rows.rows(); first += kPortionRows)
        mean += sums[static_cast<std::size_t>(first / kPortionRows)];
      const QuickAnchor anchor(mean / static_cast<double>(rows.rows()));
      // From the last to the first: what was read last is still in the cache.
      for (const Portion& portion : mine | std::views::reverse)
        quick_cosines(rows_of(rows, portion.first), portion.inverse_norms, anchor,
                      cosines_[head].subspan(static_cast<std::size_t>(portion.first),
                                             static_cast<std::size_t>(portion.inverse_norms.size())));
    }
  }

  void work_or_fail() {
    try {
      work();
    } catch (...) {
      fail_with(std::current_exception());
    }
  }

  void fail_with(std::exception_ptr failure) {
    const std::scoped_lock lock(failure_mutex_);
    if (!failure_) failure_ = std::move(failure);
    meeting_point_.fail();
  }

  std::span<const MatrixView> heads_;
  std::span<const std::span<double>> cosines_;
  const int n_members_;
  MeetingPoint meeting_point_;
  std::vector<std::atomic<Index>> n_taken_;  // portions of each head
  std::vector<VectorXd> sums_[2];            // of the rows of each portion
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

}  // namespace

void cosines_with_means(std::span<const MatrixView> heads, std::span<const std::span<double>> cosines,
                        int n_threads) {
  Team(heads, cosines, std::max(1, n_threads)).run();
}

}  // namespace keyscope::analysis
