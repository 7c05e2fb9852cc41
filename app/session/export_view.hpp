#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "app/session/head_points.hpp"
#include "app/session/session.hpp"
#include "app/session/shown_figure.hpp"
#include "base/jobs.hpp"

namespace keyscope::session {

// What is to be written, and where.
struct ExportRequest {
  ShownView shown;                           // the text and the difference too, which have no picture
  std::shared_ptr<const HeadPoints> points;  // the selected head; needed for tokens
  ExportChoice choice;
  std::filesystem::path path;
};

// Writes the view by the file's extension: png, svg, pdf as it is shown, or h5, hdf5 and nxs for the numbers
// of the figures, all of them; csv and json for the tokens of the selected run's head, the selected ones
// where some are, or the table of the difference; html for a page of the key space beside the text.
//   job: counts the heads that were read; once it is called off nothing is written any more
//   throws FileError where it exists already or cannot be written, UsageError on another extension, or on a
//   picture of the text, Cancelled when it is called off
void export_view(const ExportRequest& request, JobWatch& job);

// Why a view cannot be written there, as far as that is known before it is made; empty where it can.
//   replace: whether an existing file may be replaced
std::string export_refusal(const std::string& view, const std::filesystem::path& path, bool replace);
std::string path_refusal(const std::filesystem::path& path, bool replace);  // whatever is written

// The command line that shows again what is shown now, in words that a POSIX shell reads back, with the
// file's absolute path: `keyscope figure FILE NAME … --out NAME.svg` where a figure of one run is shown,
// otherwise `keyscope view FILE … --view NAME`, with the runs beside it and the figure's settings.
//   state: of something that is open and has a file
std::string view_command(const SessionState& state);

// The command line that writes the key space as it is shown into a file, a panel for each run.
std::string keyspace_command(const SessionState& state);

// Why there is no such command; empty where there is one.
std::string_view view_command_refusal(const SessionState& state);

}  // namespace keyscope::session
