#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/figures/figure.hpp"
#include "app/figures/token_selection.hpp"
#include "app/measures/policy_difference.hpp"
#include "app/measures/token_story.hpp"
#include "app/session/head_points.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::session {

using figures::TokenSet;

// What is known of one token in one head of one run, at the end of a block.
struct TokenFacts {
  std::int32_t position = 0;
  std::int32_t id = 0;       // -1: not known (a generated token of a run that is still going on)
  std::string text;          // as token_label shows it
  std::int64_t arrived = 0;  // the block it came with
  bool retained = true;      // after the chosen block
  std::optional<std::int32_t> evicted_at;  // the block at whose end it goes, also if that is later
  std::optional<float> evicted_margin;
  std::optional<double> score;  // KeyDiff's, -cos(key, mean of the keys seen by then); larger is kept
  std::optional<double> attention_received;  // from prompt queries, mean over the group
  std::optional<double> attention_per_query;
};

//   throws InvalidInput on a position or block that `points` does not have
TokenFacts token_facts(const recording::RecordingInfo& info, const HeadPoints& points, std::int64_t block,
                       std::int64_t position);

// A cell of a matrix, by what its row and column stand for: token positions, or blocks.
struct MatrixCell {
  std::int64_t row = 0, column = 0;
  float value = 0;  // NaN: there is none
};

// What a cell of a head's matrix says, line by line: which tokens it is about, and its value with what that
// is.
//   figure: its name, "attention"
std::vector<std::string> cell_facts(const recording::RecordingInfo& info, int run, const std::string& figure,
                                    const figures::Heatmap& map, const MatrixCell& cell);

// What tokens can be shaded by.
enum class TokenShade { kNone, kScore, kAttention, kPerQuery, kKept };

struct ShadeChoice {
  TokenShade shade;
  const char* id;
  const char* label;
  const char* meaning;  // one line for a tooltip
};
std::span<const ShadeChoice> shade_choices();

// The values of all tokens that were seen by the end of a block, NaN where there is none: the very ones that
// `token_facts` gives for each.
//   block: of `points`
std::vector<double> token_values(const recording::RecordingInfo& info, const HeadPoints& points,
                                 std::int64_t block, TokenShade shade);

// How strongly each is shaded, 0 to 1: the share of the other values that lie below it, equal ones counted
// half, since attention is so unequal that on any other scale a few tokens would be all there is to see.
// NaN has none.
std::vector<float> shade_strengths(std::span<const double> values);

// Every token of a head that was seen by the end of a block, with what is known of it, in time order.
//   only: of these, those that are wanted; null: all
std::vector<TokenFacts> token_table(const recording::RecordingInfo& info, const HeadPoints& points,
                                    std::int64_t block, const TokenSet* only = nullptr);

// As text. Columns and fields have one name each; what is not known is empty and null. Token texts are their
// bytes, where these are no UTF-8 with the replacement character.
//   where: of what they are, such as the options that select it; a field of the JSON
std::string tokens_as_csv(const recording::RecordingInfo& info, int run,
                          const std::vector<TokenFacts>& tokens);
std::string tokens_as_json(const recording::RecordingInfo& info, int run,
                           const std::vector<TokenFacts>& tokens, const std::string& where);

// A token in one head of one run, as far as the run had gone.
struct StoryKey {
  HeadKey head;
  std::int64_t position = -1;
  std::int64_t blocks_done = 0;

  bool operator==(const StoryKey&) const = default;
  bool same_token(const StoryKey& other) const { return head == other.head && position == other.position; }
};

// A story that was made, or why it could not be.
struct MadeStory {
  StoryKey key;
  std::shared_ptr<const measures::TokenStory> story;  // null: see `error`
  std::string error;
};

// What two runs keep of a head at a block, and how long the recording was then.
struct DifferenceKey {
  HeadKey head;  // of the first run
  int other = -1;
  std::int64_t block = -1, blocks_done = 0;
  bool operator==(const DifferenceKey&) const = default;
};

// A comparison that was made: at first without attention, which takes time; or why it could not be.
struct MadeDifference {
  DifferenceKey key;
  std::shared_ptr<const measures::PolicyDifference> difference;  // null: see `error`
  bool whole = false;                                            // attention is there as well
  std::string error;
};

}  // namespace keyscope::session
