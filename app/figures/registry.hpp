#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/figures/figure.hpp"
#include "app/figures/reduction.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

// A figure as it is asked for on the command line and by the window's copied command. What is left open takes
// the recording's first layer, head 0, the end of the prompt, and a run that suits the figure.
struct FigureRequest {
  std::string name;
  std::vector<std::string> runs;  // none: every run, or `none` (else the first) where a figure shows one
  std::optional<int> layer;
  std::optional<int> kv_head;
  std::optional<int> query_head;
  std::optional<std::int64_t> block;
  int components = 2;
  bool queries = false;        // keyspace: all queries of the group as well
  bool retained_only = false;  // cosine-matrix
  bool logarithmic = true;     // attention
  std::optional<Reduction> reduction;
};

// Names that build_figure knows: "keyspace", "cosine-matrix", ...
const std::vector<std::string_view>& figure_names();

// The paper's names for them, with ours: {"fig14", "mean-key-query-cosine"}, ... Wherever a name is taken, so
// is the paper's.
struct FigureAlias {
  std::string_view paper, name;
};
std::span<const FigureAlias> figure_aliases();

// Our name for a figure.
//   throws UsageError on an unknown one, saying which there are, or which command makes it
std::string_view figure_name(std::string_view name_or_alias);

// What one figure is about: all else of a request says which.
enum class FigureScope { kKvHead, kQueryHead, kRecording };

FigureScope scope_of(std::string_view name);
bool shows_several_runs(std::string_view name);

// Whether build_figure has what the figure is made of in this recording.
bool is_recorded(const recording::RecordingInfo& info, std::string_view name);

// Options that only some figures have, by their names on the command line: "layer", "kv-head", "query-head",
// "block", "components", "queries", "retained", "linear", "reduce".
bool understands(std::string_view figure, std::string_view option);

// All of build_figure's checks of the request, without building anything.
void check_request(const recording::RecordingInfo& info, const FigureRequest& request);

//   throws UsageError on an unknown name, saying which there are, and on a selection that the recording does
//   not hold, saying what it holds; FileError when the figure needs what was not recorded
Figure build_figure(const recording::Recording& recording, const FigureRequest& request);

}  // namespace keyscope::figures
