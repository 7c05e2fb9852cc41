#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/figures/keyspace_look.hpp"
#include "app/session/figure_settings.hpp"
#include "app/session/head_map.hpp"
#include "app/session/head_points.hpp"
#include "app/session/job_watch.hpp"
#include "app/session/selection.hpp"
#include "app/session/token_selection.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::session {

// What is to be written, and where.
struct ExportRequest {
  std::string view;  // one of view_choices()
  Selection selection;
  FigureSettings settings;
  MapChoice map;
  std::shared_ptr<const HeadPoints> points;  // the selected head; needed for tokens
  figures::KeyspaceLook look;                // of the key space
  std::vector<int> runs;                     // that a key space shows side by side; empty: the selected one
  std::shared_ptr<const TokenSet> tokens;    // that are selected; null: all are meant
  std::filesystem::path path;
  bool replace = false;  // whether the file may exist
};

// Writes the view by the file's extension: png, svg, pdf, or h5, hdf5 and nxs for the numbers of the figure,
// the very one that `keyscope figure` writes; csv and json for the tokens of the selected head, the
// selected ones where some are. Of runs that stand side by side, a key space has a panel each; every other
// figure is the selected run's alone.
//   job: is told of the heads that were read; once it is called off nothing is written any more
//   throws FileError where it exists already or cannot be written, UsageError on another extension, or on a
//   picture of the text, Cancelled when it is called off
void export_view(const recording::Recording& recording, const recording::RecordingInfo& info,
                 const ExportRequest& request, JobWatch& job);

}  // namespace keyscope::session
