#include "analysis/team_cosines.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
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
      : heads_(heads), cosines_(cosines), n_members_(n_members), meeting_point_(n_members) {
    for (auto& sums : sums_) sums.resize(static_cast<std::size_t>(n_members));
  }

  void run() {
    {
      std::vector<std::jthread> others;
      try {
        for (int member = 1; member < n_members_; ++member)
          others.emplace_back([this, member] { work_or_fail(member); });
      } catch (...) {  // those who have started would wait for ever
        fail_with(std::current_exception());
      }
      work_or_fail(0);
    }
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  struct Share {
    Index first, n;
  };

  // Whole tiles of row_moments for everyone but the last.
  Share share_of(int member, Index n_rows) const {
    constexpr Index kTileRows = 16;
    const auto end_of = [&](Index members) {
      return members == n_members_ ? n_rows : n_rows * members / n_members_ / kTileRows * kTileRows;
    };
    return {end_of(member), end_of(member + 1) - end_of(member)};
  }

  void work(int member) {
    for (std::size_t head = 0; head < heads_.size(); ++head) {
      const MatrixView& rows = heads_[head];
      const Share share = share_of(member, rows.rows());
      const MatrixView mine(rows.middleRows(share.first, share.n));
      const RowMoments moments = row_moments(mine);
      // Two sets of sums in turn: whoever is at the next head has met those who still add up this one's.
      auto& sums = sums_[head % 2];
      sums[static_cast<std::size_t>(member)] = moments.mean * static_cast<double>(share.n);
      if (!meeting_point_.meet()) return;
      VectorXd mean = VectorXd::Zero(rows.cols());
      for (const VectorXd& sum : sums) mean += sum;
      mean /= static_cast<double>(rows.rows());
      quick_cosines(
          mine, moments.inverse_norms, mean,
          cosines_[head].subspan(static_cast<std::size_t>(share.first), static_cast<std::size_t>(share.n)));
    }
  }

  void work_or_fail(int member) {
    try {
      work(member);
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
  std::vector<VectorXd> sums_[2];  // (n_members) of their shares' rows
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

}  // namespace

void cosines_with_means(std::span<const MatrixView> heads, std::span<const std::span<double>> cosines,
                        int n_threads) {
  Team(heads, cosines, std::max(1, n_threads)).run();
}

}  // namespace keyscope::analysis
