#include "app/session/basis_cache.hpp"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/app/session/synthetic_recording.hpp"

namespace keyscope::session {
namespace {

TEST(BasisCache, FindsWhatWasFittedOnly) {
  const SyntheticRecording recording({.n_tokens = 128});
  BasisCache cache;
  EXPECT_EQ(cache.find(*recording.info(), 1, 2), nullptr);
  const auto basis = cache.get(recording, *recording.info(), 1, 2);
  EXPECT_EQ(cache.find(*recording.info(), 1, 2), basis);
  EXPECT_EQ(cache.get(recording, *recording.info(), 1, 2), basis);
  EXPECT_EQ(cache.find(*recording.info(), 1, 1), nullptr);
}

TEST(BasisCache, GivesAllThreadsTheSame) {
  const SyntheticRecording recording({.n_tokens = 2048});
  for (int round = 0; round < 10; ++round) {
    BasisCache cache;
    std::vector<std::shared_ptr<const figures::KeyspaceBasis>> bases(4);
    {
      std::vector<std::jthread> threads;
      for (auto& basis : bases)
        threads.emplace_back([&] { basis = cache.get(recording, *recording.info(), 0, 0); });
    }
    for (const auto& basis : bases) EXPECT_EQ(basis, bases.front());
  }
}

}  // namespace
}  // namespace keyscope::session
