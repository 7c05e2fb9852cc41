#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/figures/figure.hpp"
#include "app/figures/keyspace_data.hpp"
#include "app/figures/reduction.hpp"
#include "app/figures/token_order.hpp"
#include "app/measures/head_data.hpp"
#include "app/measures/measured_heads.hpp"
#include "base/errors.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

// A recording has nothing that a figure could show: one that evicts, say, or a head of two keys. It is not
// damaged, and its other figures are there.
class NothingToDraw : public FileError {
 public:
  using FileError::FileError;
};

// Layers and heads for small multiples: a row per layer, a column per head. Empty: all that were recorded.
struct HeadGrid {
  std::vector<int> layers;
  std::vector<int> heads;
  bool query_heads = false;  // what `heads` are: KV heads unless this is set
};

// A figure as it is asked for on the command line and by the window's copied command: what its builder takes.
// What is left open takes the recording's first layer and head, the end of the prompt, and a run that suits
// the figure.
struct FigureRequest {
  std::string name = {};
  std::vector<std::string> runs = {};  // none: every run, or `none` (else the first) where a figure shows one
  std::optional<int> layer = {};
  std::optional<int> kv_head = {};
  std::optional<int> query_head = {};
  std::optional<std::int64_t> block = {};
  int components = 2;
  std::optional<Projection> projection = {};   // keyspace; by default the plane or space of `components`
  KeyColour colour = KeyColour::kDecision;     // keyspace
  bool queries = false;                        // keyspace: all queries of the group as well
  KeyDensity density = KeyDensity::kAuto;      // keyspace
  bool retained_only = false;                  // cosine-matrix
  MatrixOrder order = MatrixOrder::kPosition;  // cosine-matrix, token-lives
  // Of keys that a dendrogram may order, for time and memory grow with n²; empty: any number.
  std::optional<std::int64_t> most_ordered = {};
  bool logarithmic = true;                    // attention
  bool ranks = false;                         // score-attention: ranks instead of values
  bool margins = false;                       // lifespans: the margin of eviction instead of attention
  std::optional<std::int64_t> token = {};     // token-lives: this one in every head
  std::optional<std::string> measure = {};    // head-map: which, by its name in `analyze --json`
  std::optional<std::string> reference = {};  // head-map: the run whose values are taken off
  std::optional<Reduction> reduction = {};
  std::optional<int> max_size = {};   // of matrices, above which tokens share cells; empty: the figure's own
  std::optional<HeadGrid> grid = {};  // small multiples; layer and heads above are then of no account
  bool small = false;                 // a cell of small multiples: coarser matrices, short notes
};

// What a request selects in a recording. All throw UsageError on what is not there, saying what is.

// Those asked for, by default all.
std::vector<int> chosen_runs(const recording::RecordingInfo& info, const FigureRequest& request);

// Those of them that evict.
std::vector<int> chosen_evicting_runs(const recording::RecordingInfo& info, const FigureRequest& request);

// For a figure of one run: the one asked for, by default `none`, else the first.
int only_run(const recording::RecordingInfo& info, const FigureRequest& request);

// Whose numbers such a figure of a whole recording shows: only_run's, or where they speak of the model what
// measures::hypothesis_run has for it.
int run_of_figure(const recording::RecordingInfo& info, const FigureRequest& request);

// The layer asked for, by default the first recorded one; not checked.
int chosen_layer(const recording::RecordingInfo& info, const FigureRequest& request);

// The KV head asked for, or that of the query head asked for; by default the first recorded one.
int chosen_kv_head(const recording::RecordingInfo& info, const FigureRequest& request);

// All three of a figure of one head, checked: only_run, chosen_layer and chosen_kv_head.
measures::HeadSelection chosen_head(const recording::RecordingInfo& info, const FigureRequest& request);

// The query head asked for, or the first of the KV head's group.
int chosen_query_head(const recording::RecordingInfo& info, const FigureRequest& request);

// How the key space is to be shown. Three components of `pca` are `pca3d`.
//   throws UsageError where components and projection contradict each other
KeyspaceLook chosen_look(const FigureRequest& request);

void check_block(const recording::RecordingInfo& info, int run, const FigureRequest& request);

// What one figure is about: all else of a request says which.
enum class FigureScope { kKvHead, kQueryHead, kRecording };

// Options that only some figures have, by their names on the command line; kLayers: small multiples.
enum class FigureOption {
  kLayer,
  kKvHead,
  kQueryHead,
  kLayers,
  kBlock,
  kComponents,
  kProjection,
  kColour,
  kQueries,
  kDensity,
  kRetained,
  kOrder,
  kLinear,
  kReduce,
  kRanks,
  kMargins,
  kToken,
  kMeasure,
  kReference
};

// A set of them.
class FigureOptions {
 public:
  constexpr FigureOptions(std::initializer_list<FigureOption> options) {
    for (const FigureOption option : options) bits_ |= bit(option);
  }
  constexpr bool has(FigureOption option) const { return (bits_ & bit(option)) != 0; }

 private:
  static constexpr std::uint32_t bit(FigureOption option) { return 1U << static_cast<unsigned>(option); }

  std::uint32_t bits_ = 0;
};

// A figure as the registry knows it.
struct Builder {
  std::string_view name;
  FigureScope scope;
  bool several_runs;
  FigureOptions options;  // that it understands
  bool (*is_recorded)(const recording::RecordingInfo&);
  Figure (*build)(const measures::MeasuredHeads&, const FigureRequest&);
};

// All of them, in the order in which they are listed for people.
std::span<const Builder> builders();

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

bool understands(std::string_view figure, FigureOption option);

// All of build_figure's checks of the request, without building anything.
void check_request(const recording::RecordingInfo& info, const FigureRequest& request);

//   heads: of a recording, which stands for its own; figures made with the same heads share their measures
//   throws UsageError on an unknown name, saying which there are, and on a selection that the recording does
//   not hold, saying what it holds; FileError when the figure needs what was not recorded
Figure build_figure(const measures::MeasuredHeads& heads, const FigureRequest& request);

// Checks of what is asked for against what a recording holds; each throws UsageError saying what there is.
void require_run(const recording::RecordingInfo& info, int run);
int find_run(const recording::RecordingInfo& info, std::string_view name);
// Names given twice mean one run: each once, where it was first given.
std::vector<std::string> without_repeats(const std::vector<std::string>& runs);
void require_layer(const recording::RecordingInfo& info, int layer);
// Heads whose rows were recorded, for every figure is made of them; a query head by the KV head that it
// reads.
//   layer: one that require_layer lets pass
void require_kv_head(const recording::RecordingInfo& info, int layer, int kv_head);
void require_query_head(const recording::RecordingInfo& info, int layer, int query_head);

// A figure of keys needs recorded keys: FileError otherwise.
void require_keys(const recording::RecordingInfo& info);

// The block asked for, or the run's last prompt block for -1. A run without any block yet gives -1.
std::int64_t resolve_block(const recording::RunInfo& run, std::int64_t block);

// Tokens seen by the end of a block from resolve_block; 0 for -1.
std::int64_t tokens_seen_by(const recording::RunInfo& run, std::int64_t block);

// The `none` run, else the first one; -1 in a recording without runs.
int reference_run(const recording::RecordingInfo& info);

// The first run that evicts; -1: none does.
int first_evicting_run(const recording::RecordingInfo& info);

// "TinyStories-656K, prompt of 512 tokens".
std::string describe_prompt(const recording::RecordingInfo& info);
// "8 KV heads", or "2 to 8 KV heads" where layers differ.
std::string describe_kv_heads(const recording::RecordingInfo& info);

// "TinyStories-656K, prompt of 512 tokens, keydiff N = 64, B = 128": what a figure's caption says of a run.
std::string describe_run(const recording::RecordingInfo& info, const recording::RunInfo& run);

}  // namespace keyscope::figures
