#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/matrix_view.hpp"
#include "analysis/policies/unrotated.hpp"
#include "base/shared_memory.hpp"

namespace keyscope::analysis {

// What a policy may look at when it scores the rows of one KV head's cache, after a block was appended.
// Spans a policy did not ask for in `Policy::needs` are empty.
struct PolicyInput {
  MatrixView keys;                          // (n_rows, head_dim), after RoPE
  MatrixView values;                        // (n_rows, head_dim), or no rows
  std::span<const std::int32_t> positions;  // (n_rows) true positions, ascending
  std::int64_t n_new_rows = 0;              // rows that this block appended: the last ones
  std::int64_t budget = 0;                  // rows that will be kept
  int layer = 0;
  int kv_head = 0;
  // Attention weights; "group" is the mean over the G query heads that share this KV head.
  std::span<const float> last_row_group = {};  // (n_rows) the block's last query, mean over the group
  std::span<const float> last_row_layer = {};  // (n_rows) the same, mean over all query heads of the layer
  std::span<const double> attention_received = {};       // (n_rows) sum over all queries so far, group mean
  std::span<const std::int32_t> attention_queries = {};  // (n_rows) how many queries so far could see the row
  std::span<const float> window_sums = {};  // (n_rows) sum over the block's last w queries, group mean
  // Of the block's last queries, those of the group's query heads one after another: what they are after RoPE
  // (group_size · w, head_dim), and their weights on the rows (group_size · w, n_rows).
  int group_size = 1;
  const RowMatrixD* window_queries = nullptr;
  const RowMatrixD* window_weights = nullptr;
  const Rotation* rotation = nullptr;                // how keys turned
  std::span<const QueryMoments> query_moments = {};  // (group_size) of all queries so far, before RoPE
};

// Which parts of `PolicyInput` beyond keys and positions a policy reads.
struct PolicyNeeds {
  bool values = false;
  bool last_row_group = false;
  bool last_row_layer = false;
  bool attention_received = false;
  int window = 0;          // w of `window_sums`; 0: not read
  int window_queries = 0;  // w of these; 0: not read
  int window_weights = 0;  // likewise
  bool rotation = false;
  bool query_moments = false;

  // Queries themselves, which a recording's statistics do not tell.
  bool queries() const { return window_queries > 0 || window_weights > 0 || query_moments; }
  bool attention() const {
    return last_row_group || last_row_layer || attention_received || window > 0 || queries();
  }
};

class Policy;
struct Slots;

// A policy as its user names it: `keydiff:anchor=mean,recent=0.1`.
struct PolicySpec {
  std::string name;
  std::map<std::string, std::string> options;
  // A policy of its user's own, which the registry does not know: `name` and `options` describe it. Its runs
  // are called `label`.
  std::shared_ptr<const Policy> own = nullptr;
  std::string label = {};

  const std::string& run_name() const { return label.empty() ? name : label; }
};

// What a policy's own file, its option `file`, says of each KV head of a model, as JSON with an entry per
// layer that has one per KV head.
enum class HeadFile : std::uint8_t {
  kNone,       // the policy has no file
  kVectors,    // a list of as many numbers as a key has
  kFlags,      // 0 or 1
  kQueryMeans  // of each query head of its group, before RoPE, what QueryMoments::mean and mean_moduli are
};

// An eviction policy: a score per cached row, of which the largest are kept, and rows that are kept whatever
// they score. One object serves every layer and head of a run and keeps no state between calls.
class Policy {
 public:
  virtual ~Policy() = default;

  virtual PolicyNeeds needs() const { return {}; }

  // False where this layer's rows are never evicted.
  virtual bool evicts(int /*layer*/) const { return true; }
  // True where a KV head of a layer that evicts keeps all its rows.
  virtual bool keeps_all(int /*layer*/, int /*kv_head*/) const { return false; }

  virtual HeadFile head_file() const { return HeadFile::kNone; }

  // Takes what its file says, before anything else is asked of it that depends on that: of each layer
  // (n_kv_heads, head_dim), (n_kv_heads, 1) or, query head after query head, (n_kv_heads, group_size · (2
  // head_dim
  // - n_pairs)); no rows of a layer of which the file says nothing.
  void take_file(std::vector<RowMatrixF> layers) { file_ = std::move(layers); }
  const std::vector<RowMatrixF>& file() const { return file_; }

  // Writes one finite score per row into `scores` (n_rows); the largest are kept.
  virtual void score(const PolicyInput& input, std::span<double> scores) const = 0;

  // Marks rows that stay whatever their score, at most `budget` of them; `forced` (n_rows) arrives zeroed.
  // Where rows are to be chosen, it follows `score` of the same input, on the same thread.
  virtual void force(const PolicyInput& /*input*/, std::int64_t /*budget*/,
                     std::span<std::uint8_t> /*forced*/) const {}

  // Where the rows that `score` gets had best lie; null: anywhere.
  virtual std::shared_ptr<SharedMemory> row_memory() const { return nullptr; }

  // Ends a `score` that is under way, which then throws Cancelled, as does every later one. From any thread.
  virtual void cancel() const {}

  // What the registry made it by, with every option; without a name where its user made it.
  const PolicySpec& spec() const { return spec_; }

  // What is decided beside the score; neutral where the registry did not make it.
  const Slots& slots() const;

 private:
  friend std::unique_ptr<Policy> make_policy(const PolicySpec& spec, std::uint64_t seed);
  PolicySpec spec_;
  std::shared_ptr<const Slots> slots_;
  std::vector<RowMatrixF> file_;  // by layer
};

// N, the rows that a policy keeps per KV head: the same number for all prompts, or a share of each one's
// tokens.
struct Budget {
  Budget() = default;                            // none
  Budget(std::int64_t n_rows) : rows(n_rows) {}  // NOLINT(google-explicit-constructor): a number is one
  static Budget of_share(double share);

  bool is_given() const { return rows > 0 || share > 0; }

  // N for a prompt of n_tokens: the share of it, half up, at least 1; 0 where none is given.
  std::int64_t rows_for(std::int64_t n_tokens) const;

  // As parse_budget reads it.
  std::string text() const;

  std::int64_t rows = 0;  // 0: `share` holds
  double share = 0;       // of the prompt's tokens, 0 < share <= 1
};

// One option that a policy takes.
struct OptionDefinition {
  std::string key;
  std::string accepted;   // as its user reads it: "mean|median", "0…1"
  std::string fallback;   // value when not given; empty: the run's seed
  bool required = false;  // there is no such value: it must be given
};

// How a policy joins the registry: what it is called, what it takes, and how it is made.
struct PolicyDefinition {
  std::string name;
  std::string summary;  // one line
  std::vector<OptionDefinition> options;
  // `options` holds every option, defaults filled in. Throws UsageError on a value it refuses. Null: no
  // policy object, nothing is ever evicted.
  std::unique_ptr<Policy> (*make)(const PolicySpec& complete) = nullptr;
};

}  // namespace keyscope::analysis
