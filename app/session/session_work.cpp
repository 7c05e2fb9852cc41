// The measures of heads, and the map that is made of them.

#include <algorithm>
#include <vector>

#include "base/errors.hpp"
#include "app/session/guarded.hpp"
#include "app/session/session.hpp"

namespace keyscope::session {
namespace {

// Puts the measures of a head into the inbox, or why there are none; whether it went well.
bool measure_into(Inbox& inbox, const recording::Recording& recording, const HeadKey& head,
                  std::int64_t n_tokens, int document) {
  constexpr measures::MeasureOptions kCheap{.bounds = false, .pca = false};
  bool went_well = true;
  guarded(
      [&] {
        inbox.put(
            HeadMeasured{document, head, n_tokens,
                         measures::measure_head(recording, head.run, head.layer, head.kv_head, kCheap)});
      },
      [&](std::string what) {
        inbox.put(MeasuresFailed{document, std::move(what)});
        went_well = false;
      });
  return went_well;
}

}  // namespace

MapChoice SessionState::map_choice() const {
  return loaded() ? effective_choice(*info, {measure, reference}, selection.run) : MapChoice{measure, -1};
}

// Adds the heads of a run that were not measured yet, or when it was shorter.
void Session::add_unmeasured(int run, std::int64_t n_tokens, std::vector<HeadKey>& heads) const {
  for (const int layer : state_.info->layers)
    for (int kv_head = 0; kv_head < state_.info->model.n_kv_heads; ++kv_head) {
      const auto done = state_.measured.find({run, layer, kv_head});
      if (done == state_.measured.end() || done->second.n_tokens < n_tokens)
        heads.push_back({run, layer, kv_head});
    }
}

// Measures the heads of the selected run and then of the one it is compared with. Of a live run again when it
// has doubled and when its prompt is complete.
void Session::want_measures() {
  map_is_old_ = true;
  if (!state_.loaded() || !state_.measures_error.empty()) return;
  const auto prompt_seen = [&](int run) {
    return std::min(state_.info->runs[static_cast<std::size_t>(run)].n_tokens, state_.info->n_prompt());
  };
  const int reference = state_.map_choice().reference;
  const Measuring now{state_.selection.run, prompt_seen(state_.selection.run), reference,
                      reference < 0 ? 0 : prompt_seen(reference)};
  const auto much_longer = [&](std::int64_t n_tokens, std::int64_t before) {
    return n_tokens > before && (n_tokens >= 2 * before || n_tokens == state_.info->n_prompt());
  };
  const bool same = now.run == measuring_.run && now.reference == measuring_.reference;
  if (now.n_tokens == 0 || (same && !much_longer(now.n_tokens, measuring_.n_tokens) &&
                            !much_longer(now.reference_tokens, measuring_.reference_tokens)))
    return;
  measuring_ = now;
  if (stop_measuring_) *stop_measuring_ = true;
  stop_measuring_ = std::make_shared<std::atomic<bool>>(false);

  std::vector<HeadKey> heads;
  add_unmeasured(now.run, now.n_tokens, heads);
  if (now.reference_tokens > 0) add_unmeasured(reference, now.reference_tokens, heads);
  measurer_.post("measures", [inbox = inbox_, recording = state_.recording, heads = std::move(heads),
                              stop = stop_measuring_, document = document_, now] {
    for (const HeadKey& head : heads) {
      const std::int64_t n_tokens = head.run == now.run ? now.n_tokens : now.reference_tokens;
      if (*stop || !measure_into(*inbox, *recording, head, n_tokens, document)) return;
    }
  });
}

void Session::make_map() {
  map_is_old_ = false;
  state_.map = state_.loaded()
                   ? make_head_map(*state_.info, state_.measured, state_.map_choice(), state_.selection.run)
                   : HeadMap{};
}

void Session::choose_measure(std::size_t measure) {
  state_.measure = std::min(measure, measure_choices().size() - 1);
  want_map();
}

void Session::choose_reference(int run) {
  const bool there = state_.loaded() && run >= 0 && run < static_cast<int>(state_.info->runs.size());
  state_.reference = there ? run : -1;
  want_map();
}

// Another map, of what is measured already or is asked for now.
void Session::want_map() {
  want_measures();
  want_figure();
  make_map();
}

}  // namespace keyscope::session
