#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "app/figures/builders.hpp"
#include "app/figures/figure.hpp"
#include "app/figures/catalogue.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

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

FigureScope scope_of(std::string_view name);
bool shows_several_runs(std::string_view name);

// Whether build_figure has what the figure is made of in this recording.
bool is_recorded(const recording::RecordingInfo& info, std::string_view name);

// Options that only some figures have, by their names on the command line: "layer", "kv-head", "query-head",
// "block", "components", "projection", "colour", "queries", "retained", "order", "linear", "reduce",
// "ranks", "margins", "measure", "reference", and "layers" for small multiples.
bool understands(std::string_view figure, std::string_view option);

// All of build_figure's checks of the request, without building anything.
void check_request(const recording::RecordingInfo& info, const FigureRequest& request);

//   throws UsageError on an unknown name, saying which there are, and on a selection that the recording does
//   not hold, saying what it holds; FileError when the figure needs what was not recorded
Figure build_figure(const recording::Recording& recording, const FigureRequest& request);

}  // namespace keyscope::figures
