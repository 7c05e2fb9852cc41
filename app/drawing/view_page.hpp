#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "capture/recording/recording.hpp"

namespace keyscope::figures {

// The page without its data, assets/view_page.html.
extern const char* const view_page_html;

// A page to send is opened from mail and chat, which have limits.
inline constexpr std::size_t kMostPageBytes = 5'000'000;

// One run of a page.
struct PageRun {
  const recording::Recording* recording = nullptr;  // of the page's prompt
  int run = 0;                                      // an index into its runs
  std::string name = {};                            // above its keys; empty: the run's own
};

// What a page shows: one KV head of a layer in one run or in several, side by side.
struct ViewPage {
  std::vector<PageRun> runs = {};  // one or more
  // Of these: whose recording has the prompt and the basis of all, and whose states the text shows first.
  std::size_t main_run = 0;
  int layer = 0;
  int kv_head = 0;
  std::int64_t block = -1;  // of the main run, at which the page opens; -1: its last prompt block
  std::vector<std::int32_t> tokens = {};  // positions that are selected when it opens
};

// The page as one HTML file that needs nothing else, neither a server nor a network: the key space along the
// first two principal components, in the axes of `keyscope figure keyspace`, beside the text. A slider goes
// through the blocks of the run that has most of them; the other runs are shown where they had seen as much.
// `evicted_at` is the recording's; places, norms and scores have 16 bits.
//   throws UsageError on a layer, head, run or block that is not there, and where the page would have more
//   than kMostPageBytes; FileError where keys were not recorded, and as the recording does
std::string view_page(const ViewPage& page);

// Whether a path asks for such a page: .html, in capital letters as well.
bool is_page_path(const std::filesystem::path& path);

}  // namespace keyscope::figures
