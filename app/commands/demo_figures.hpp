#pragma once

#include <filesystem>
#include <vector>

#include "app/measures/head_measures.hpp"

namespace keyscope::commands {

// One layer and KV head of a recording.
struct HeadChoice {
  int layer = 0;
  int kv_head = 0;
};

// The head where unlike keys receive the most attention: the largest Spearman correlation of the first run.
HeadChoice most_telling_head(const std::vector<measures::RunMeasures>& runs);

// Draws the demo's pictures of one head into `folder` and all of them into one NeXus file; its own earlier
// files are replaced. Returns what it wrote.
std::vector<std::filesystem::path> write_demo_figures(const recording::Recording& recording, HeadChoice head,
                                                      const std::filesystem::path& folder);

}  // namespace keyscope::commands
