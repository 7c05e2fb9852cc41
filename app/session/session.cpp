#include "app/session/session.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "analysis/errors.hpp"

namespace keyscope::session {
namespace {

using recording::Recording;
using recording::RecordingInfo;

// What a job may throw becomes a result, so that no worker ends the process.
template <typename Work, typename Fail>
void guarded(const Work& work, const Fail& fail) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    fail(std::string("memory ran out"));
  } catch (const std::exception& error) {
    fail(std::string(error.what()));
  }
}

WorkerResult open_path(const std::string& path, const SelectionRequest& selection,
                       const std::filesystem::path& memory, bool keep_view) {
  if (!std::filesystem::exists(path)) throw FileError(fmt::format("{}: there is no such file", path));
  if (figures::is_figure_file(path))
    return FiguresOpened{path, std::make_shared<const figures::FigureFile>(figures::read_figures(path))};
  return Opened{path, recording::open_recording(path), selection, recall_view(memory, path), keep_view};
}

}  // namespace

Session::Session(std::function<void()> wake)
    : inbox_(std::make_shared<Inbox>(wake)), wake_(std::move(wake)) {}

Session::~Session() {
  if (stop_measuring_) *stop_measuring_ = true;
}

bool Session::busy() const {
  const auto live = live_status();
  return !state_.opening.empty() || state_.reading || state_.making || !reader_.idle() ||
         !figure_maker_.idle() || !measurer_.idle() || (live && live->going_on());
}

bool Session::drain() {
  std::vector<WorkerResult> results = inbox_->take_all();
  for (WorkerResult& result : results)
    std::visit([this](auto&& value) { take(std::forward<decltype(value)>(value)); }, std::move(result));
  const auto info_before = state_.info;
  refresh_live();
  return !results.empty() || info_before != state_.info;
}

void Session::open(const std::filesystem::path& path, const SelectionRequest& request, bool keep_view) {
  state_.opening = path.string();
  state_.opening_work = {"opening " + path.string(), std::chrono::steady_clock::now()};
  state_.open_error.clear();
  reader_.post("open", [inbox = inbox_, name = path.string(), request, memory = memory_, keep_view,
                        now = view_to_remember(), shown = state_.path] {
    guarded(
        [&] {
          if (now) remember_view(memory, shown, *now);  // it may be the same recording
          inbox->put(open_path(name, request, memory, keep_view));
        },
        [&](std::string what) {
          inbox->put(OpenFailed{name, std::move(what)});
        });
  });
}

void Session::show(std::shared_ptr<const Recording> recording, const SelectionRequest& request) {
  std::string source = recording->info()->source;
  take(Opened{std::move(source), std::move(recording), request});
}

void Session::close_document() {
  if (auto view = view_to_remember())
    measurer_.post("remember " + state_.path, [folder = memory_, path = state_.path,
                                               view = std::move(*view)] {
      guarded([&] { remember_view(folder, path, view); }, [](const std::string&) {});  // nobody waits for it
    });
  keep_live_run();
  ++document_;
  if (stop_measuring_) *stop_measuring_ = true;
  const std::size_t measure = state_.measure;
  std::string view = std::move(state_.view);
  auto earlier = std::move(state_.earlier);
  state_ = SessionState();
  state_.earlier = std::move(earlier);
  state_.measure = measure;
  state_.view = std::move(view);
  points_.clear();
  figures_.clear();
  history_.clear();
  figure_asked_.reset();
  bases_ = std::make_shared<BasisCache>();
  measuring_run_ = -1;
  measuring_tokens_ = -1;
}

void Session::take(Opened&& result) {
  close_document();
  state_.path = std::move(result.path);
  state_.recording = std::move(result.recording);
  state_.info = state_.recording->info();
  if (!state_.loaded()) {
    if (live_ && state_.recording == live_->recording()) return;  // its plan is still to come
    state_.open_error = fmt::format("{}: it holds no run with recorded layers", state_.info->source);
    return;
  }
  state_.selection = first_selection(result);
  if (result.remembered) {
    if (!result.keep_view && is_view(result.remembered->view)) state_.view = result.remembered->view;
    const auto& measures = measure_choices();
    const auto measure = std::ranges::find(measures, result.remembered->measure, &MeasureChoice::id);
    if (measure != measures.end()) state_.measure = static_cast<std::size_t>(measure - measures.begin());
  }
  if (!state_.info->complete && !live_ && !state_.notice.error)
    state_.notice = {"This capture was cut short; it is shown up to its last complete block.", false};
  want_points();
  want_figure();
  want_measures();
  note_moment();
}

void Session::take(FiguresOpened&& result) {
  close_document();
  if (result.file->figures.empty()) {
    state_.open_error = fmt::format("{}: this figure file holds no figure", result.path);
    return;
  }
  state_.figure_file = std::move(result.file);
  state_.figure = state_.figure_file->default_figure;
  state_.figure_path = std::move(result.path);
}

void Session::take(PointsRead&& result) {
  if (result.document != document_) return;
  points_.put(result.points);
  want_points();
}

void Session::take(FigureMade&& result) {
  if (result.document != document_) return;
  if (figure_asked_ == result.made.key) figure_asked_.reset();
  figures_.put(std::move(result.made));
  want_figure();
}

void Session::take(HeadMeasured&& result) {
  if (result.document != document_) return;
  state_.measured[result.head] = {std::move(result.measures), result.n_tokens};
}

void Session::take(MeasuresFailed&& result) {
  if (result.document == document_) state_.measures_error = std::move(result.what);
}

void Session::take(OpenFailed&& result) {
  if (state_.opening == result.path) {
    state_.opening.clear();
    state_.opening_work = {};
  }
  state_.open_error = result.what;
  state_.notice = {std::move(result.what), true};
}

void Session::take(Exported&& result) {
  state_.export_work = {};
  state_.notice = std::move(result.notice);
}

void Session::take(Notice&& result) { state_.notice = std::move(result); }

// Makes `points` the selected head's: from the cache, or by asking the reader for it.
void Session::want_points() {
  if (!state_.loaded()) return;
  const HeadKey head = state_.head();
  const auto cached = points_.find(head);
  if (cached) state_.points = cached;
  state_.reading = !cached || cached->n_tokens < state_.run().n_tokens;
  if (state_.reading) post_points(head);
}

void Session::post_points(const HeadKey& head) {
  reader_.post("points", [inbox = inbox_, bases = bases_, recording = state_.recording, info = state_.info,
                          earlier = points_.find(head), head, document = document_] {
    guarded(
        [&] {
          auto basis = bases->get(*recording, *info, head.layer, head.kv_head);
          inbox->put(PointsRead{document,
                                read_head_points(*recording, *info, head, std::move(basis), earlier.get())});
        },
        [&](std::string what) {
          inbox->put(Notice{std::move(what), true});
        });
  });
}

// Makes `shown` the figure that the view asks for: from the cache, or by having it made. Of a live run it is
// made again for what has come meanwhile when the one in work is done.
void Session::want_figure() {
  state_.making = false;
  if (!state_.loaded() || !is_figure_view(state_.view)) return;
  const FigureKey key = figure_key(*state_.info, state_.selection, state_.view);
  if (state_.shown.key == key) return;
  if (const MadeFigure* made = figures_.find(key)) {
    state_.shown = *made;
    return;
  }
  if (state_.shown.key.name != key.name) state_.shown = {};  // another figure says nothing here
  state_.making = true;
  if (figure_asked_ == key) return;
  figure_asked_ = key;
  figure_maker_.post("figure", [inbox = inbox_, recording = state_.recording, info = state_.info, key,
                                document = document_] {
    MadeFigure made{key, nullptr, {}};
    guarded(
        [&] {
          made.figure = std::make_shared<const figures::Figure>(
              figures::build_figure(*recording, figure_request(*info, key)));
        },
        [&](std::string what) { made.error = std::move(what); });
    inbox->put(FigureMade{document, std::move(made)});
  });
}

// Measures the selected run's heads that were not measured yet. Of a live run again when it has doubled and
// when its prompt is complete.
void Session::want_measures() {
  if (!state_.loaded() || !state_.measures_error.empty()) return;
  const int run = state_.selection.run;
  const std::int64_t n_tokens = std::min(state_.run().n_tokens, state_.info->n_prompt());
  const bool longer = n_tokens > measuring_tokens_ &&
                      (n_tokens >= 2 * measuring_tokens_ || n_tokens == state_.info->n_prompt());
  if (n_tokens == 0 || (run == measuring_run_ && !longer)) return;
  measuring_run_ = run;
  measuring_tokens_ = n_tokens;
  if (stop_measuring_) *stop_measuring_ = true;
  stop_measuring_ = std::make_shared<std::atomic<bool>>(false);

  std::vector<HeadKey> heads;
  for (const int layer : state_.info->layers)
    for (int kv_head = 0; kv_head < state_.info->model.n_kv_heads; ++kv_head) {
      const auto done = state_.measured.find({run, layer, kv_head});
      if (done == state_.measured.end() || done->second.n_tokens < n_tokens)
        heads.push_back({run, layer, kv_head});
    }
  measurer_.post("measures", [inbox = inbox_, recording = state_.recording, heads = std::move(heads),
                              stop = stop_measuring_, document = document_, n_tokens] {
    constexpr measures::MeasureOptions kCheap{.bounds = false, .pca = false};
    for (const HeadKey& head : heads) {
      if (*stop) return;
      bool failed = false;
      guarded(
          [&] {
            inbox->put(
                HeadMeasured{document, head, n_tokens,
                             measures::measure_head(*recording, head.run, head.layer, head.kv_head, kCheap)});
          },
          [&](std::string what) {
            inbox->put(MeasuresFailed{document, std::move(what)});
            failed = true;
          });
      if (failed) return;
    }
  });
}

}  // namespace keyscope::session
