#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/figures/keyspace_look.hpp"
#include "app/figures/reduction.hpp"
#include "app/figures/token_order.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

// Layers and heads for small multiples: a row per layer, a column per head. Empty: all that were recorded.
struct HeadGrid {
  std::vector<int> layers;
  std::vector<int> heads;
  bool query_heads = false;  // what `heads` are: KV heads unless this is set
};

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
  std::optional<Projection> projection;        // keyspace; by default the plane or space of `components`
  KeyColour colour = KeyColour::kDecision;     // keyspace
  bool queries = false;                        // keyspace: all queries of the group as well
  bool retained_only = false;                  // cosine-matrix
  MatrixOrder order = MatrixOrder::kPosition;  // cosine-matrix
  // Of keys that a dendrogram may order, for time and memory grow with n²; empty: any number.
  std::optional<std::int64_t> most_ordered;
  bool logarithmic = true;               // attention
  bool ranks = false;                    // score-attention: ranks instead of values
  bool margins = false;                  // lifespans: the margin of eviction instead of attention
  std::optional<std::string> measure;    // head-map: which, by its name in `analyze --json`
  std::optional<std::string> reference;  // head-map: the run whose values are taken off
  std::optional<Reduction> reduction;
  std::optional<int> max_size;   // of matrices, above which tokens share cells; empty: the figure's own
  std::optional<HeadGrid> grid;  // small multiples; layer and heads above are then of no account
  bool small = false;            // a cell of small multiples: coarser matrices, short notes
};

// What a request comes to in a recording. All throw UsageError on what is not there, saying what is.

// Those asked for, by default all.
std::vector<int> chosen_runs(const recording::RecordingInfo& info, const FigureRequest& request);

// For a figure of one run: the one asked for, by default `none`, else the first.
int only_run(const recording::RecordingInfo& info, const FigureRequest& request);

// The layer asked for, by default the first recorded one; not checked.
int chosen_layer(const recording::RecordingInfo& info, const FigureRequest& request);

// The KV head asked for, or that of the query head asked for; by default the first recorded one.
int chosen_kv_head(const recording::RecordingInfo& info, const FigureRequest& request);

// The query head asked for, or the first of the KV head's group.
int chosen_query_head(const recording::RecordingInfo& info, const FigureRequest& request);

// How the key space is to be shown. Three components of `pca` are `pca3d`.
//   throws UsageError where components and projection contradict each other
KeyspaceLook chosen_look(const FigureRequest& request);

void check_block(const recording::RecordingInfo& info, int run, const FigureRequest& request);

}  // namespace keyscope::figures
