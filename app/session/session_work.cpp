#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include "app/session/live.hpp"
#include "app/session/session.hpp"
#include "base/errors.hpp"
#include "base/jobs.hpp"

namespace keyscope::session {

using measures::Part, measures::Parts;

// The measures of heads, and the map that is made of them.

namespace {

// What a map or a panel may show of a head: all that does not take minutes.
constexpr Parts kShown = Parts::all() - Parts{Part::kPca, Part::kBounds};

}  // namespace

MapChoice SessionState::map_choice() const {
  return loaded() ? effective_choice(*info, {measure, reference}, selection.run) : MapChoice{measure, -1};
}

// A head that is to be measured.
struct Session::HeadTask {
  HeadKey head;
  Parts parts;
};

// The heads of a run of which some of this is not known yet, or was when the run was shorter.
std::vector<Session::HeadTask> Session::unmeasured(int run, std::int64_t n_tokens, Parts parts) const {
  std::vector<HeadTask> tasks;
  if (n_tokens == 0) return tasks;
  for (const auto& [layer, kv_head] : state_.info->all_heads()) {
    const auto done = state_.measured.find({run, layer, kv_head});
    const bool is_known = done != state_.measured.end() && done->second.n_tokens >= n_tokens &&
                          done->second.parts.has_all(parts);
    if (!is_known) tasks.push_back({{run, layer, kv_head}, parts});
  }
  return tasks;
}

// Measures the heads of the selected run, of the one it is compared with, and of the one that speaks for the
// model: what the map is made of and all of the selected head, then the rest.
void Session::want_measures() {
  map_is_old_ = true;
  if (!state_.loaded() || !state_.measures_error.empty()) return;
  const MapChoice choice = state_.map_choice();
  Measuring now{{}, {figures::part_of_measure(measure_choices()[choice.measure])}};
  for (const int run : {state_.selection.run, choice.reference,
                        measures::hypothesis_run(*state_.info, state_.selection.run).run})
    if (run >= 0 && std::ranges::find(now.runs, run, &std::pair<int, std::int64_t>::first) == now.runs.end())
      now.runs.emplace_back(run, state_.info->n_prompt_read(run));
  const auto same_stretch = [&](const auto& a, const auto& b) {
    return a.first == b.first && !outgrown(b.second, a.second, *state_.info, state_.grows);
  };
  if (now.runs.front().second == 0 ||
      (now.of_map == measuring_.of_map && std::ranges::equal(now.runs, measuring_.runs, same_stretch)))
    return;
  measuring_ = now;
  if (stop_measuring_) *stop_measuring_ = true;
  stop_measuring_ = std::make_shared<std::atomic<bool>>(false);
  map_measured_ = std::make_shared<std::atomic<bool>>(false);

  std::vector<HeadTask> of_map, rest;
  const int shown = run_of_map(*state_.info, choice, state_.selection.run).run;
  for (const auto& [run, n_tokens] : now.runs) {
    const bool on_map = run == shown || run == choice.reference;
    if (on_map) std::ranges::move(unmeasured(run, n_tokens, now.of_map), std::back_inserter(of_map));
    std::ranges::move(unmeasured(run, n_tokens, kShown), std::back_inserter(rest));
  }
  const auto is_selected = [&](const HeadTask& task) {
    return task.head.layer == state_.selection.layer && task.head.kv_head == state_.selection.kv_head;
  };
  std::erase_if(of_map, is_selected);
  std::ranges::copy_if(rest, std::back_inserter(of_map), is_selected);
  std::erase_if(rest, is_selected);
  measurer_.post("measures", [inbox = inbox_, recording = state_.recording, of_map = std::move(of_map),
                              rest = std::move(rest), stop = stop_measuring_, map_measured = map_measured_,
                              document = document_] {
    const auto measure = [&](const HeadTask& task) {
      if (*stop) return;
      guarded(
          [&] {
            const HeadKey& head = task.head;
            const std::int64_t n_tokens = recording->info()->n_prompt_read(head.run);
            inbox->put(HeadMeasured{
                document, head, n_tokens, task.parts,
                measures::measure_head(*recording, head.run, head.layer, head.kv_head, task.parts)});
          },
          [&](std::string what) {
            inbox->put(MeasuresFailed{document, std::move(what)});
            *stop = true;
          });
    };
    oneapi::tbb::parallel_for(std::size_t{0}, of_map.size(), [&](std::size_t i) { measure(of_map[i]); });
    *map_measured = true;
    std::ranges::for_each(rest, measure);
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
  want_shown();
  make_map();
}

// The story of the token that is held.

// Makes `story` the held token's, by having it made. One that is on its way for the same token is waited for,
// though a live run may have gone on meanwhile: it is then made again.
void Session::want_story() {
  const bool held = state_.loaded() && state_.locked && *state_.locked < state_.run().n_tokens;
  const StoryKey key = held ? StoryKey{state_.head(), *state_.locked, state_.run().blocks_done} : StoryKey{};
  if (!held || !key.same_token(state_.story.key)) state_.story = {};
  state_.making_story = held && state_.story.key != key;
  if (story_asked_ && key.same_token(*story_asked_)) return;
  if (stop_story_) *stop_story_ = true;
  story_asked_.reset();
  if (!state_.making_story) return;
  story_asked_ = key;
  stop_story_ = std::make_shared<std::atomic<bool>>(false);
  story_maker_.post(
      "story", [inbox = inbox_, recording = state_.recording, stop = stop_story_, key, document = document_] {
        MadeStory made{key, nullptr, {}};
        guarded(
            [&] {
              made.story = std::make_shared<const measures::TokenStory>(measures::token_story(
                  *recording, {key.head.run, key.head.layer, key.head.kv_head}, key.position, *stop));
            },
            [&](std::string what) { made.error = std::move(what); });
        if (!*stop) inbox->put(StoryMade{document, std::move(made)});
      });
}

void Session::take(StoryMade&& result) {
  if (result.document != document_ || story_asked_ != result.made.key) return;
  story_asked_.reset();
  state_.story = std::move(result.made);
  want_story();
}

// What the selected run and the one that it is compared with keep of the selected head.

int SessionState::other_run() const {
  return loaded() ? figures::other_run(*info, selection.run, reference) : -1;
}

void Session::compare_tokens(bool compare) {
  if (compare == state_.compares_tokens) return;
  state_.compares_tokens = compare;
  want_difference();
}

void Session::want_difference() {
  const bool wanted = state_.loaded() && state_.selection.block >= 0 && state_.other_run() >= 0 &&
                      (is_visible(kDifferenceView) || state_.compares_tokens);
  if (!wanted) return;
  const DifferenceKey key{state_.head(), state_.other_run(), state_.selection.block,
                          state_.run().blocks_done};
  if (state_.difference.key == key || difference_asked_ == key) return;
  if (stop_difference_) *stop_difference_ = true;
  difference_asked_ = key;
  stop_difference_ = std::make_shared<std::atomic<bool>>(false);
  story_maker_.post("difference", [inbox = inbox_, recording = state_.recording, stop = stop_difference_, key,
                                   document = document_] {
    for (const bool whole : {false, true}) {
      MadeDifference made{key, nullptr, whole, {}};
      guarded(
          [&] {
            made.difference = std::make_shared<const measures::PolicyDifference>(measures::policy_difference(
                *recording, key.head.run, key.other, {{key.head.run, key.head.layer, key.head.kv_head}},
                key.block, whole, nullptr, *stop));
          },
          [&](std::string what) { made.error = std::move(what); });
      if (*stop) return;
      inbox->put(DifferenceMade{document, std::move(made)});
    }
  });
}

void Session::take(DifferenceMade&& result) {
  if (result.document != document_ || difference_asked_ != result.made.key) return;
  if (result.made.whole || !result.made.error.empty()) difference_asked_.reset();
  state_.difference = std::move(result.made);
  want_difference();
}

// What a policy would keep at a budget.

std::string SessionState::usual_what_if() const {
  for (const recording::RunInfo& run : info->runs)
    if (run.plan.policy != "none") return run.plan.policy;
  return "keydiff";
}

// What workers are at is of the budget before, and comes too late.
void Session::ask_what_if(const measures::WhatIf& what_if) {
  if (const auto live = live_status(); !state_.loaded() || (live && live->going_on())) return;
  if (!base_) base_ = state_.recording;
  if (const std::string why = measures::what_if_refusal(*base_->info(), what_if.policy); !why.empty()) {
    state_.notice = {fmt::format("{}: {}.", what_if.policy, why), true};
    return;
  }
  const auto asked = std::make_shared<const measures::WhatIfRecording>(base_, what_if);
  ++document_;
  stop_making();
  for (const auto& stop : {stop_measuring_, stop_story_, stop_difference_})
    if (stop) *stop = true;
  story_asked_.reset();
  difference_asked_.reset();
  const int run = asked->run();
  points_.remove_if([&](const HeadPoints& points) { return points.head.run == run; });
  figures_.clear();
  std::erase_if(state_.measured, [&](const auto& head) { return head.first.run == run; });
  measuring_ = {};
  for (auto& [id, work] : work_) work.asked = {};
  // What is shown stays until there is something new, but is of another budget.
  for (RunTile& tile : state_.tiles) {
    if (tile.id.run == run) tile.points.reset();
    for (auto& [view, figure] : tile.figures) figure.made.key = {};
  }
  state_.difference.key = {};
  state_.story.key = {};
  state_.recording = asked;
  state_.info = asked->info();
  state_.what_if = what_if;
  const int before = std::exchange(state_.selection.run, run);
  state_.beside = after_selecting(std::move(state_.beside), before, run);
  state_.selection = clamp_selection(*state_.info, state_.selection);
  want_shown();
  want_story();
  want_measures();
  make_map();
}

void Session::want_budget_curve(const std::string& policy) {
  if (const auto live = live_status(); !state_.loaded() || (live && live->going_on())) return;
  const auto asked = std::tuple(policy, state_.selection.layer, state_.selection.kv_head);
  const auto base = base_ ? base_ : state_.recording;
  if (asked == curve_asked_ || !measures::what_if_refusal(*base->info(), policy).empty()) return;
  curve_asked_ = asked;
  story_maker_.post("curve", [inbox = inbox_, base, policy, layer = state_.selection.layer,
                              kv_head = state_.selection.kv_head] {
    guarded(
        [&] {
          inbox->put(CurveMade{base.get(), measures::budget_curve(base, policy, layer, kv_head)});
        },
        [&](std::string what) {
          inbox->put(CurveMade{base.get(), {policy, layer, kv_head, {}, std::move(what)}});
        });
  });
}

void Session::take(CurveMade&& result) {
  if (result.base == (base_ ? base_ : state_.recording).get()) state_.budget_curve = std::move(result.curve);
}

// A live run in the session: begun, controlled, and looked at as it grows.

namespace {

using recording::RecordingInfo;

bool grew(const RecordingInfo& before, const RecordingInfo& now) {
  if (before.runs.size() != now.runs.size() || before.complete != now.complete) return true;
  for (std::size_t run = 0; run < now.runs.size(); ++run)
    if (before.runs[run].blocks_done != now.runs[run].blocks_done ||
        before.runs[run].generated.size() != now.runs[run].generated.size())
      return true;
  return false;
}

// The run that blocks are arriving for: the last one that has any.
int newest_run(const RecordingInfo& info) {
  int newest = 0;
  for (std::size_t run = 0; run < info.runs.size(); ++run)
    if (info.runs[run].blocks_done > 0) newest = static_cast<int>(run);
  return newest;
}

}  // namespace

void Session::start_live(LiveCapture capture, const SelectionRequest& request,
                         const std::filesystem::path& out, bool paused) {
  if (live_ && live_->status().going_on()) {
    state_.notice = {"A run is going on; cancel it first.", true};
    return;
  }
  const std::size_t n_earlier = state_.earlier.size();
  close_document();
  if (state_.earlier.size() > n_earlier)
    state_.notice = {"The run before is kept in memory: Ctrl+P, Earlier run.", false};
  live_request_ = request;
  live_ = std::make_unique<LiveRunner>(std::move(capture), wake_, paused);
  state_.recording = live_->recording();
  state_.path = out.string();
  // Nothing yet: the first look at it is refresh_live's, which selects as well. A capture may have ended
  // before this line, and would not grow any more.
  state_.info = std::make_shared<const recording::RecordingInfo>();
  state_.following = true;
}

std::optional<LiveStatus> Session::live_status() const {
  if (!live_ || state_.recording != live_->recording()) return std::nullopt;
  return live_->status();
}

void Session::refresh_live() {
  if (!live_ || state_.recording != live_->recording()) return;
  auto now = state_.recording->info();
  const LiveStage stage = live_->status().stage;
  const bool grows = stage == LiveStage::kRunning || stage == LiveStage::kStopping;
  if (state_.info && !grew(*state_.info, *now) && grows == state_.grows) return;
  state_.grows = grows;
  const bool first = !state_.loaded();
  state_.info = std::move(now);
  if (!state_.loaded()) return;
  const bool together = state_.info->provenance.schedule == "together";
  if (first) select_as_asked(live_request_);
  // However many blocks it has by the first look.
  if (first && together && !live_request_.run) state_.selection.run = 0;
  if (first && together && state_.beside.empty())
    for (int run = 0; run < std::ssize(state_.info->runs) && state_.beside.size() < kMostBeside; ++run)
      if (run != state_.selection.run) state_.beside.push_back({0, run});
  if (state_.following) {
    const int newest = together ? state_.selection.run : newest_run(*state_.info);
    const int before = std::exchange(state_.selection.run, newest);
    state_.beside = after_selecting(std::move(state_.beside), before, state_.selection.run);
    state_.selection.block = state_.run().blocks_done - 1;
  }
  state_.selection = clamp_selection(*state_.info, state_.selection);
  want_shown();
  want_measures();
}

}  // namespace keyscope::session
