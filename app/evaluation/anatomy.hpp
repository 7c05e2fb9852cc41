#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/evaluation/evidence.hpp"
#include "capture/inference/completion.hpp"
#include "capture/model/config.hpp"

namespace keyscope::evaluation {

// The first row of the evidence that a policy evicted, of equal ones that of the lowest layer and KV head.
struct FirstLoss {
  int layer = 0, kv_head = 0;
  std::int64_t position = 0;
  std::int64_t block = 0;             // at whose end it went, as a recording's `evicted_at`
  std::int64_t rank = 0, n_rows = 0;  // as capture::LostRow
  std::optional<double> margin = {};

  bool operator==(const FirstLoss&) const = default;
};

// What one layer held of the evidence once the prompt was read. Rows that its window had left behind by then,
// whatever the policy, do not count.
struct LayerEvidence {
  int layer = 0;
  // A count for every KV head and place of the evidence: all of its rows there, some of them gone, all gone.
  std::int64_t kept = 0, torn = 0, lost = 0;
  double rows_kept = 0;  // of its rows, the share that was there, mean over KV heads
  // Of the rows of the evidence that had been evicted by then: the mean of rank / n_rows (0 the best, 1 the
  // last), and the median margin; none where none was ranked.
  std::optional<double> rank_share = {}, margin = {};
  std::optional<FirstLoss> first = {};

  bool operator==(const LayerEvidence&) const = default;
};

// What became of the rows that an answer stands on.
struct EvidenceFate {
  std::int64_t n_places = 0, n_rows = 0, n_answer_rows = 0;
  // The global eviction ratio: the share of the answer's rows that were in no KV head of any layer any more,
  // once the prompt was read and at the end of what was generated. None where there are none that some
  // layer's window reaches.
  //   source: arXiv 2603.01426
  std::optional<double> gone_everywhere = {}, gone_at_end = {};
  std::vector<LayerEvidence> layers = {};  // that still reach it
  std::optional<FirstLoss> first = {};

  // Of the counts of all layers the share that one of them has: {kept, torn, lost}; none where no layer
  // reaches it.
  std::optional<double> share(std::int64_t LayerEvidence::*count) const;
  bool operator==(const EvidenceFate&) const = default;
};

// The question's rows, once the prompt was read.
struct QuestionFate {
  std::int64_t n_rows = 0;
  std::optional<double> rows_kept = {};  // the share that was there, over all KV heads that reach it

  bool operator==(const QuestionFate&) const = default;
};

// Why an answer is what it is.
struct Anatomy {
  bool empty = false;                          // it was to be written, and has nothing but white space
  std::optional<EvidenceFate> evidence = {};   // none where it is not known what the answer stands on
  std::optional<QuestionFate> question = {};   // likewise
  std::vector<capture::CacheSize> sizes = {};  // at most kMostSizes, the prompt's end and the last among them

  bool operator==(const Anatomy&) const = default;
};

inline constexpr std::size_t kMostSizes = 65;

// What became of a prompt's evidence in a completion, of which all its positions were watched.
//   block_size: B of the run
Anatomy anatomy_of(const capture::ModelConfig& config, const Evidence& evidence,
                   const capture::Completion& completion, std::int64_t block_size);

// As a line of examples.jsonl has it: {"empty", "evidence", "question", "cache" (columns: "read", "rows",
// "bytes")}; null for what is not known.
nlohmann::ordered_json anatomy_json(const Anatomy& anatomy);

//   where: file and line, for messages
//   throws FileError naming the field that is missing or of another kind
Anatomy parse_anatomy(const nlohmann::json& json, const std::string& where);

}  // namespace keyscope::evaluation
