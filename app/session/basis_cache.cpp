#include "app/session/basis_cache.hpp"

#include <algorithm>

#include "app/figures/head_selection.hpp"

namespace keyscope::session {

namespace {

using recording::RecordingInfo;

// Prompt tokens that a basis can be fitted on now.
std::int64_t tokens_to_fit(const RecordingInfo& info) {
  const int reference = figures::reference_run(info);
  return reference < 0 ? 0 : std::min(info.n_prompt(), info.runs[reference].n_tokens);
}

}  // namespace

std::shared_ptr<const figures::KeyspaceBasis> BasisCache::find(const RecordingInfo& info, int layer,
                                                               int kv_head) const {
  const std::lock_guard lock(mutex_);
  return known(info, layer, kv_head);
}

std::shared_ptr<const figures::KeyspaceBasis> BasisCache::known(const RecordingInfo& info, int layer,
                                                                int kv_head) const {
  const auto at = fitted_.find({layer, kv_head});
  if (at == fitted_.end() || at->second.basis->run != figures::reference_run(info)) return nullptr;
  const std::int64_t n_now = tokens_to_fit(info), n_then = at->second.n_tokens;
  const bool outgrown = n_now >= 2 * n_then || n_now == info.n_prompt();
  return n_now > n_then && outgrown ? nullptr : at->second.basis;
}

// Nobody waits for another one's fit. Where two fit the same at the same time, both get the first one.
std::shared_ptr<const figures::KeyspaceBasis> BasisCache::get(const recording::Recording& recording,
                                                              const RecordingInfo& info, int layer,
                                                              int kv_head) {
  if (auto before = find(info, layer, kv_head)) return before;
  auto basis =
      std::make_shared<const figures::KeyspaceBasis>(figures::fit_keyspace_basis(recording, layer, kv_head));
  const std::lock_guard lock(mutex_);
  if (auto first = known(info, layer, kv_head)) return first;
  fitted_[{layer, kv_head}] = {basis, tokens_to_fit(info)};
  return basis;
}

}  // namespace keyscope::session
