#include "app/measures/head_profile.hpp"

#include <oneapi/tbb/parallel_for.h>

#include "app/measures/head_data.hpp"

namespace keyscope::measures {

std::vector<HeadProfile> profile_heads(const recording::Recording& recording, int run) {
  const auto info = recording.info();
  std::vector<HeadProfile> profiles;
  for (const int layer : info->layers)
    for (int kv_head = 0; kv_head < info->model.n_kv_heads; ++kv_head)
      profiles.push_back({layer, kv_head, {}});
  oneapi::tbb::parallel_for(std::size_t{0}, profiles.size(), [&](std::size_t i) {
    HeadProfile& profile = profiles[i];
    const HeadData head = read_head(recording, *info, {run, profile.layer, profile.kv_head});
    if (head.keys.rows() > 0) profile.geometry = analysis::measure_head_geometry(head.keys, head.queries);
  });
  std::erase_if(profiles,
                [](const HeadProfile& profile) { return profile.geometry.key_cosines.size() == 0; });
  return profiles;
}

}  // namespace keyscope::measures
