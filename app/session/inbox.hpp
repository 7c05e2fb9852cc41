#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "app/figures/nexus.hpp"
#include "app/measures/evidence_loss.hpp"
#include "app/measures/head_measures.hpp"
#include "app/measures/what_if.hpp"
#include "app/session/head_points.hpp"
#include "app/session/keyspace_view.hpp"
#include "app/session/made_figures.hpp"
#include "app/session/remembered.hpp"
#include "app/session/selection.hpp"
#include "app/session/shown_figure.hpp"
#include "app/session/tokens.hpp"
#include "base/jobs.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::session {

// Finished, immutable results of workers. Those about a recording carry the number of the document they were
// made for, so that what arrives late for a closed one is dropped.
//   job: null where nobody could have called it off
struct Opened {
  std::string path;
  std::shared_ptr<const recording::Recording> recording;
  SelectionRequest selection;
  std::optional<RememberedView> remembered = std::nullopt;
  Keep keep = {};
  std::shared_ptr<const JobWatch> job = nullptr;
  std::vector<std::string> documents = {};                                  // see SessionState
  std::vector<std::optional<measures::EvidenceLoss>> evidence_losses = {};  // likewise
};
struct FiguresOpened {
  std::string path;
  std::shared_ptr<const figures::FigureFile> file;
  std::shared_ptr<const JobWatch> job;
  std::vector<std::string> documents;
};
struct PointsRead {
  int document = 0;
  std::shared_ptr<const HeadPoints> points;
};
// Of the selected run or one beside it.
struct PointsFailed {
  int document = 0;
  HeadKey head;
  std::string what;
};
struct PictureMade {
  int document = 0;
  std::shared_ptr<const KeyspacePicture> picture;
};
struct HeadMeasured {
  int document = 0;
  HeadKey head;
  std::int64_t n_tokens = 0;  // of the run when it was measured
  measures::Parts parts{};
  measures::HeadMeasures measures;
};
struct FigureMade {
  int document = 0;
  MadeFigure made;
  std::shared_ptr<const JobWatch> job;
};
struct StoryMade {
  int document = 0;
  MadeStory made;
};

struct DifferenceMade {
  int document = 0;
  MadeDifference made;
};
struct CurveMade {
  const recording::Recording* base = nullptr;  // that it is of
  measures::BudgetCurve curve;
};
struct PreviewMade {
  Preview preview;
};
struct MeasuresFailed {
  int document = 0;
  std::string what;
};
struct OpenFailed {
  std::string path;
  std::string what;
  std::shared_ptr<const JobWatch> job;
};
struct Notice {
  std::string text;
  bool error = false;
  bool of_data = false;  // an error: of what was read, not of what was asked for
};
// A live run's, that was in no file before.
struct Saved {
  std::string path;
  const recording::Recording* recording = nullptr;
  std::shared_ptr<const JobWatch> job;
};
struct Exported {
  std::shared_ptr<const JobWatch> job;
  Notice notice;
};
using WorkerResult = std::variant<Opened, FiguresOpened, PointsRead, PointsFailed, PictureMade, HeadMeasured,
                                  FigureMade, StoryMade, DifferenceMade, CurveMade, PreviewMade,
                                  MeasuresFailed, OpenFailed, Saved, Exported, Notice>;

// Where workers put results and the session takes them from. `wake` is called after every one, on the
// worker's thread.
class Inbox {
 public:
  explicit Inbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  void put(WorkerResult result) {
    {
      std::lock_guard lock(mutex_);
      results_.push_back(std::move(result));
    }
    if (wake_) wake_();
  }

  std::vector<WorkerResult> take_all() {
    std::lock_guard lock(mutex_);
    return std::exchange(results_, {});
  }

 private:
  std::function<void()> wake_;
  std::mutex mutex_;
  std::vector<WorkerResult> results_;
};

}  // namespace keyscope::session
