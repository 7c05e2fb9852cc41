#include "app/session/basis_cache.hpp"

#include <algorithm>

#include "app/figures/head_selection.hpp"

namespace keyscope::session {

std::shared_ptr<const figures::KeyspaceBasis> BasisCache::get(const recording::Recording& recording,
                                                              const recording::RecordingInfo& info, int layer,
                                                              int kv_head) {
  const int reference = figures::reference_run(info);
  const std::int64_t n_now = reference < 0 ? 0 : std::min(info.n_prompt(), info.runs[reference].n_tokens);
  Fitted& fitted = fitted_[{layer, kv_head}];
  const bool outgrown = n_now >= 2 * fitted.n_tokens || n_now == info.n_prompt();
  const bool stale = !fitted.basis || fitted.basis->run != reference || (n_now > fitted.n_tokens && outgrown);
  if (stale) {
    fitted.basis = std::make_shared<const figures::KeyspaceBasis>(
        figures::fit_keyspace_basis(recording, layer, kv_head));
    fitted.n_tokens = n_now;
  }
  return fitted.basis;
}

}  // namespace keyscope::session
