#include "app/session/session.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "app/session/export_view.hpp"
#include "app/session/live.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/inputs.hpp"
#include "base/jobs.hpp"
#include "capture/recording/hand_over.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::session {

namespace {

using recording::Recording;
using recording::RecordingInfo;

// What can be opened beside the path, as `open` takes it: of a folder its recordings, of a file its entries,
// or those among which the path was.
std::vector<std::string> documents_beside(const std::string& path, const std::vector<std::string>& before) {
  std::vector<std::string> documents = figures::documents_of(path);
  if (documents.size() >= 2 || std::filesystem::is_directory(path)) return documents;
  return std::ranges::find(before, path) == before.end() ? std::vector<std::string>() : before;
}

WorkerResult open_path(std::string path, const SelectionRequest& selection,
                       const std::filesystem::path& memory, Keep keep, const std::shared_ptr<JobWatch>& job,
                       const std::vector<std::string>& before) {
  job->check();
  if (!std::filesystem::exists(recording::entry_path(path).file))
    throw FileError(fmt::format("{}: there is no such file", path));
  std::vector<std::string> documents = documents_beside(path, before);
  if (std::filesystem::is_directory(path)) path = documents.front();
  if (figures::is_figure_file(path))
    return FiguresOpened{path, std::make_shared<const figures::FigureFile>(figures::read_figures(path)), job,
                         std::move(documents)};
  const auto progress = [&](std::int64_t n_checked, std::int64_t n_layers) {
    job->check();
    job->note(n_checked, n_layers);
  };
  std::shared_ptr<const Recording> opened = recording::open_recording(path, progress);
  auto losses = measures::first_evidence_losses(*opened, [&] { job->check(); });
  return Opened{
      path, std::move(opened),    selection,        keep.all ? std::nullopt : recall_view(memory, path), keep,
      job,  std::move(documents), std::move(losses)};
}

}  // namespace

Session::Session(std::function<void()> wake)
    : inbox_(std::make_shared<Inbox>(wake)), wake_(std::move(wake)) {}

Session::~Session() {
  if (stop_measuring_) *stop_measuring_ = true;
  if (stop_story_) *stop_story_ = true;
  if (stop_difference_) *stop_difference_ = true;
  if (opening_job_) opening_job_->cancel();
  stop_making();
}

bool Session::busy() const { return !measurer_.idle() || owes_picture(); }

bool Session::owes_picture() const {
  const auto live = live_status();
  const bool owes_map = !measurer_.idle() && !*map_measured_;
  return !state_.opening.empty() || std::ranges::any_of(state_.tiles, &RunTile::waiting) || !reader_.idle() ||
         !settler_.idle() || !figure_maker_.idle() || owes_map || !story_maker_.idle() ||
         (live && live->going_on());
}

bool Session::drain() {
  std::vector<WorkerResult> results = inbox_->take_all();
  for (WorkerResult& result : results)
    std::visit([this](auto&& value) { take(std::forward<decltype(value)>(value)); }, std::move(result));
  const auto info_before = state_.info;
  refresh_live();
  if (map_is_old_) make_map();
  return !results.empty() || info_before != state_.info;
}

void Session::open(const std::filesystem::path& path, const SelectionRequest& request, Keep keep) {
  stop_opening();
  state_.opening = path.string();
  opening_job_ = state_.jobs.emplace_back(std::make_shared<JobWatch>("opening " + state_.opening, "layers"));
  state_.open_error.clear();
  reader_.post("open",
               [inbox = inbox_, name = path.string(), request, memory = memory_, keep, job = opening_job_,
                now = view_to_remember(), shown = state_.path, before = state_.documents] {
                 guarded(
                     [&] {
                       if (now) remember_view(memory, shown, *now);  // it may be the same recording
                       auto opened = open_path(name, request, memory, keep, job, before);
                       note_input(recording::entry_path(name).file);
                       inbox->put(std::move(opened));
                     },
                     [&](std::string what) {
                       inbox->put(OpenFailed{name, std::move(what), job});
                     });
               });
}

void Session::show(std::shared_ptr<const Recording> recording, const SelectionRequest& request) {
  std::string source = recording->info()->source;
  take(Opened{std::move(source), std::move(recording), request});
}

void Session::forget_job(const std::shared_ptr<const JobWatch>& job) {
  if (opening_job_ == job) opening_job_.reset();
  std::erase(state_.jobs, job);
}

// Its file is not wanted any more; what comes of it is dropped.
void Session::stop_opening() {
  if (!opening_job_) return;
  opening_job_->cancel();
  forget_job(opening_job_);
  state_.opening.clear();
}

void Session::stop_making() {
  for (const auto& [kind, job] : figure_jobs_) {
    job->cancel();
    forget_job(job);
  }
  figure_jobs_.clear();
}

void Session::close_document() {
  if (auto view = view_to_remember())
    measurer_.post("remember " + state_.path, [folder = memory_, path = state_.path,
                                               view = std::move(*view)] {
      guarded([&] { remember_view(folder, path, view); }, [](const std::string&) {});  // nobody waits for it
    });
  stop_opening();
  stop_making();
  keep_live_run();
  ++document_;
  if (stop_measuring_) *stop_measuring_ = true;
  if (stop_story_) *stop_story_ = true;
  story_asked_.reset();
  if (stop_difference_) *stop_difference_ = true;
  difference_asked_.reset();
  const std::size_t measure = state_.measure;
  const figures::KeyspaceLook look = state_.look;
  const FigureSettings settings = state_.figure_settings;
  std::string view = std::move(state_.view);
  std::vector<std::string> visible = std::move(state_.visible);
  Arrangement arrangement = std::move(state_.arrangement);
  const int arranged = state_.arranged;
  auto earlier = std::move(state_.earlier);
  auto jobs = std::move(state_.jobs);
  state_ = SessionState();
  state_.earlier = std::move(earlier);
  state_.jobs = std::move(jobs);
  state_.measure = measure;
  state_.look = look;
  state_.figure_settings = settings;
  state_.view = std::move(view);
  state_.visible = std::move(visible);
  state_.arrangement = std::move(arrangement);
  state_.arranged = arranged;
  base_.reset();
  curve_asked_ = {};
  state_.shown_panels.clear();
  points_.clear();
  figures_.clear();
  history_.clear();
  work_.clear();
  bases_ = std::make_shared<BasisCache>();
  measuring_ = {};
}

// Where none was named, the first is shown.
void Session::note_documents(std::vector<std::string> documents, const std::string& shown) {
  state_.documents = std::move(documents);
  const auto place = std::ranges::find(state_.documents, shown);
  state_.document = place == state_.documents.end() ? 0 : place - state_.documents.begin();
}

void Session::open_document(std::ptrdiff_t by) {
  const auto n = std::ssize(state_.documents);
  if (n == 0) return;
  const auto to = (static_cast<std::ptrdiff_t>(state_.document) + by) % n;
  open(state_.documents[to < 0 ? to + n : to]);
}

void Session::take(Opened&& result) {
  if (result.job && result.job->cancelled()) return;
  forget_job(result.job);
  close_document();
  note_documents(std::move(result.documents), result.path);
  state_.path = std::move(result.path);
  state_.recording = std::move(result.recording);
  state_.info = state_.recording->info();
  state_.evidence_losses = std::move(result.evidence_losses);
  if (!state_.evidence_losses.empty()) state_.evidence = measures::evidence_tokens(*state_.info);
  if (!state_.loaded()) {
    if (live_ && state_.recording == live_->recording()) return;  // its plan is still to come
    state_.open_error = fmt::format("{}: it holds no run with recorded layers", state_.info->source);
    return;
  }
  select_first(result);
  if (!state_.info->complete && !live_ && !state_.notice.error)
    state_.notice = {"This capture was cut short; it is shown up to its last complete block.", false};
  want_shown();
  want_measures();
  note_snapshot();
}

void Session::take(FiguresOpened&& result) {
  if (result.job->cancelled()) return;
  forget_job(result.job);
  close_document();
  if (result.file->figures.empty()) {
    state_.open_error = fmt::format("{}: this figure file holds no figure", result.path);
    return;
  }
  state_.figure_file = std::move(result.file);
  state_.figure = state_.figure_file->default_figure;
  note_documents(std::move(result.documents), result.path);
  state_.figure_path = std::move(result.path);
}

void Session::take(HeadMeasured&& result) {
  if (result.document != document_) return;
  state_.measured[result.head] = {std::move(result.measures), result.n_tokens, result.parts};
  map_is_old_ = true;
}

void Session::take(MeasuresFailed&& result) {
  if (result.document == document_) state_.measures_error = std::move(result.what);
}

void Session::take(OpenFailed&& result) {
  if (result.job->cancelled()) return;
  forget_job(result.job);
  state_.opening.clear();
  state_.open_error = result.what;
  state_.notice = {std::move(result.what), true};
}

void Session::take(Exported&& result) {
  forget_job(result.job);
  state_.notice = std::move(result.notice);
}

void Session::take(Notice&& result) { state_.notice = std::move(result); }

// What outlives a document: how it was looked at, and live runs that are in no file.

std::optional<RememberedView> Session::view_to_remember() const {
  if (memory_.empty() || state_.path.empty() || !state_.loaded()) return std::nullopt;
  const Selection& now = state_.selection;
  RememberedView view;
  view.selection.run = state_.run().plan.name;
  view.selection.layer = now.layer;
  view.selection.kv_head = now.kv_head;
  for (const RunId& id : state_.beside)
    if (id.source == 0) view.selection.beside.push_back(state_.info->runs[id.run].plan.name);
  view.view = state_.view;
  view.arrangement = state_.arrangement;
  view.measure = measure_choices()[state_.measure].id;
  view.look = state_.look;
  view.settings = state_.figure_settings;
  if (now.block >= 0) view.selection.block = now.block;
  return view;
}

void Session::remember() const {
  if (const auto view = view_to_remember()) remember_view(memory_, state_.path, *view);
}

std::string_view Session::save_refusal() const {
  const auto live = live_status();
  if (!state_.loaded()) return "nothing is open";
  if (!state_.path.empty()) return "it lies in a file";
  if (live && live->going_on()) return "the run has not ended";
  const auto info = (base_ ? base_ : state_.recording)->info();
  const auto begun = [](const recording::RunInfo& run) { return run.blocks_done > 0; };
  if (std::ranges::none_of(info->runs, begun)) return "it was stopped before its first block";
  return {};
}

// What was cut short takes no file's place, as nowhere else.
std::string Session::save_refusal(const std::filesystem::path& path, bool replace) const {
  std::error_code error;
  const bool whole = (base_ ? base_ : state_.recording)->info()->complete;
  if (!whole && std::filesystem::exists(path, error))
    return fmt::format("{}: exists already, and a run that was cut short replaces none; choose another name",
                       path.string());
  return path_refusal(path, replace);
}

void Session::save_recording(const std::filesystem::path& path, bool replace) {
  if (!save_refusal().empty()) return;
  if (std::string why = save_refusal(path, replace); !why.empty()) return notify({std::move(why), true});
  state_.notice = {};
  const std::string full = full_path(path).string();
  const auto job =
      state_.jobs.emplace_back(std::make_shared<JobWatch>("saving the run to " + full, "blocks"));
  reader_.post("save " + full,
               [inbox = inbox_, recording = base_ ? base_ : state_.recording, full, replace, job] {
                 bool begun = false;  // until then a .part there is somebody else's
                 guarded(
                     [&] {
                       job->check();
                       const auto writer = recording::make_recording_writer(full, replace);
                       recording::hand_over(*recording, *writer, [&](std::int64_t done, std::int64_t total) {
                         begun = true;
                         job->check();
                         job->note(done, total);
                       });
                       inbox->put(Saved{full, recording.get(), job});
                     },
                     [&](std::string what) {
                       if (job->cancelled()) {
                         std::error_code ignored;
                         if (begun) std::filesystem::remove(full + ".part", ignored);
                         what = fmt::format("cancelled; {} was not written", full);
                       }
                       inbox->put(Exported{job, {std::move(what), !job->cancelled()}});
                     });
               });
}

void Session::take(Saved&& result) {
  forget_job(result.job);
  const bool whole = result.recording->info()->complete;
  state_.notice = {fmt::format("saved{}: {}", whole ? "" : " up to its last block", result.path), false};
  if (result.recording == (base_ ? base_ : state_.recording).get()) state_.path = std::move(result.path);
}

// What is in no file would be gone with the document.
void Session::keep_live_run() {
  if (!state_.loaded() || !state_.path.empty()) return;
  const auto recording = base_ ? base_ : state_.recording;  // without what was asked of it
  const auto info = recording->info();
  std::string name = info->model.name + ":";
  for (const recording::RunInfo& run : info->runs)
    name += fmt::format("{} {}", &run == &info->runs.front() ? "" : ",", run.plan.name);
  if (const std::int64_t budget = state_.run().plan.budget; budget > 0)
    name += fmt::format(", N = {}", budget);
  state_.earlier.push_back({recording, std::move(name)});
}

void Session::show_earlier(std::size_t earlier) {
  if (earlier >= state_.earlier.size()) return;
  auto recording = state_.earlier[earlier].recording;
  state_.earlier.erase(state_.earlier.begin() + static_cast<std::ptrdiff_t>(earlier));
  take(Opened{"", std::move(recording), {}});
}

// What was asked for; else what is remembered; else the default.
void Session::select_first(const Opened& result) {
  select_as_asked(result.selection);
  if (!result.remembered) {
    if (result.selection == SelectionRequest()) select_evidence_loss();
    return;
  }
  if (result.selection == SelectionRequest()) {
    state_.selection = remembered_selection(*state_.info, *result.remembered);
    state_.beside = remembered_beside(*state_.info, state_.selection.run, *result.remembered);
  }
  if (!result.keep.view && !result.keep.arrangement && !result.remembered->arrangement.views.empty()) {
    state_.arrangement = result.remembered->arrangement;
    ++state_.arranged;
  }
  if (!result.keep.view && is_view(result.remembered->view)) open_view(result.remembered->view);
  if (!result.keep.look) state_.look = result.remembered->look;
  if (!result.keep.settings) state_.figure_settings = result.remembered->settings;
  if (!result.selection.measure) state_.measure = measure_index(result.remembered->measure);
}

}  // namespace keyscope::session
