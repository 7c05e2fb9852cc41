#include "capture/tokenizer/unigram_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::tokenizer {

namespace {

// What an unknown character costs beyond the worst token, as SentencePiece has it.
constexpr double kUnknownPenalty = 10;

unsigned char byte_at(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }

}  // namespace

UnigramModel::UnigramModel(TokenizerJson& parts, const JsonField& model) {
  if (!parts.has_scores || parts.scores.empty()) model.fail("no array \"vocab\"", "tokens with their scores");
  vocabulary_ = std::move(parts.vocabulary);
  scores_ = std::move(parts.scores);
  if (const auto unknown = model.optional("unk_id"))
    unknown_id_ = static_cast<std::int32_t>(unknown->integer(0, vocabulary_.size() - 1));
  byte_fallback_ = model.boolean_or("byte_fallback", false);
  index_tokens();
}

UnigramModel::UnigramModel(Vocabulary vocabulary, std::vector<double> scores,
                           std::optional<std::int32_t> unknown_id, bool byte_fallback)
    : vocabulary_(std::move(vocabulary)),
      scores_(std::move(scores)),
      unknown_id_(unknown_id),
      byte_fallback_(byte_fallback) {
  index_tokens();
}

void UnigramModel::index_tokens() {
  for (std::size_t id = 0; id < scores_.size(); ++id) {
    const auto token = static_cast<std::int32_t>(id);
    if (std::isinf(scores_[id])) continue;
    unknown_score_ = std::min(unknown_score_, scores_[id]);
    if (!vocabulary_.text(token).empty()) sorted_.push_back(token);
  }
  unknown_score_ -= kUnknownPenalty;
  std::sort(sorted_.begin(), sorted_.end(),
            [this](std::int32_t a, std::int32_t b) { return vocabulary_.text(a) < vocabulary_.text(b); });
  for (const std::int32_t id : sorted_) ++first_bytes_[byte_at(vocabulary_.text(id), 0) + std::size_t{1}];
  std::partial_sum(first_bytes_.begin(), first_bytes_.end(), first_bytes_.begin());
}

// Every token that piece[start, …) begins with is a step; tokens that share a beginning stand together in
// sorted_, so that each further byte narrows a range of them.
void UnigramModel::extend(std::string_view piece, std::size_t start, std::vector<Step>& steps) const {
  const double score = steps[start].score;
  std::size_t character_end = start;
  next_code_point(piece, character_end);
  bool has_character = false;
  const auto offer = [&](std::size_t end, double total, std::int32_t id) {
    Step& step = steps[end];
    if (step.start == kNowhere || total > step.score) step = {total, static_cast<std::int32_t>(start), id};
  };
  auto low = sorted_.begin() + static_cast<std::ptrdiff_t>(first_bytes_[byte_at(piece, start)]);
  auto high =
      sorted_.begin() + static_cast<std::ptrdiff_t>(first_bytes_[byte_at(piece, start) + std::size_t{1}]);
  for (std::size_t length = 1; low != high; ++length) {
    if (vocabulary_.text(*low).size() == length) {  // sorts before all that go on
      offer(start + length, score + scores_[*low], *low);
      has_character = has_character || start + length == character_end;
      ++low;
    }
    if (start + length == piece.size()) break;
    const unsigned char byte = byte_at(piece, start + length);
    low = std::partition_point(low, high,
                               [&](std::int32_t id) { return byte_at(vocabulary_.text(id), length) < byte; });
    high = std::partition_point(
        low, high, [&](std::int32_t id) { return byte_at(vocabulary_.text(id), length) == byte; });
  }
  if (has_character) return;
  if (!unknown_id_)
    throw InvalidInput(fmt::format("the tokenizer has no token for {} and no unknown token (model.unk_id)",
                                   shown(piece.substr(start, character_end - start))));
  offer(character_end, score + unknown_score_, *unknown_id_);
}

void UnigramModel::append_token(std::string_view token, std::vector<std::int32_t>& ids) const {
  if (const auto id = vocabulary_.find(token)) return ids.push_back(*id);
  if (byte_fallback_) {
    std::vector<std::int32_t> bytes;
    for (const char byte : token) {
      const auto id = vocabulary_.find(fmt::format("<0x{:02X}>", static_cast<unsigned char>(byte)));
      if (!id) break;
      bytes.push_back(*id);
    }
    if (bytes.size() == token.size()) {
      ids.insert(ids.end(), bytes.begin(), bytes.end());
      return;
    }
  }
  ids.push_back(*unknown_id_);  // without one, `extend` has thrown
}

void UnigramModel::encode(std::string_view piece, PieceCache& cache, std::vector<std::int32_t>& ids) const {
  if (const auto* known = cache.find(piece)) {
    ids.insert(ids.end(), known->begin(), known->end());
    return;
  }
  std::vector<Step> steps(piece.size() + 1);
  for (std::size_t start = 0; start < piece.size(); next_code_point(piece, start))
    extend(piece, start, steps);
  // The tokens, from the last to the first; a row of unknown characters is one.
  std::vector<std::string_view> tokens;
  bool was_unknown = false;
  for (auto end = static_cast<std::int32_t>(piece.size()); end > 0; end = steps[end].start) {
    const auto [score, start, id] = steps[end];
    const bool is_unknown = unknown_id_ && id == *unknown_id_;
    const std::string_view token = piece.substr(start, end - start);
    if (is_unknown && was_unknown) {
      tokens.back() = piece.substr(start, token.size() + tokens.back().size());
    } else {
      tokens.push_back(token);
    }
    was_unknown = is_unknown;
  }
  const std::size_t n_before = ids.size();
  for (auto token = tokens.rbegin(); token != tokens.rend(); ++token) append_token(*token, ids);
  cache.add(piece, ids.data() + n_before, ids.size() - n_before);
}

}  // namespace keyscope::tokenizer
