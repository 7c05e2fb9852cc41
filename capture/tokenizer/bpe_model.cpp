#include "capture/tokenizer/bpe_model.hpp"

#include <algorithm>
#include <bit>
#include <queue>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::tokenizer {

namespace {

constexpr std::int32_t kNoToken = -1;
constexpr std::int32_t kMerged = -1;
constexpr std::size_t kMostCachedPieces = 65536;
constexpr std::size_t kLongestCachedPiece = 256;
// Shorter pieces are merged at once: looking for places to part them costs more than it saves.
constexpr std::size_t kShortestPartedPiece = 64;

}  // namespace

const std::vector<std::int32_t>* PieceCache::find(std::string_view piece) const {
  if (piece.size() > kLongestCachedPiece) return nullptr;
  const auto found = ids_.find(piece);
  return found == ids_.end() ? nullptr : &found->second;
}

void PieceCache::add(std::string_view piece, const std::int32_t* ids, std::size_t n_ids) {
  if (piece.size() > kLongestCachedPiece || ids_.size() >= kMostCachedPieces) return;
  ids_.emplace(std::string(piece), std::vector<std::int32_t>(ids, ids + n_ids));
}

BpeModel::BpeModel(TokenizerJson& parts, const JsonField& model) {
  read_options(model);
  if (!parts.has_vocabulary || parts.has_scores)
    model.fail("no object \"vocab\"", "token texts with their ids");
  if (!parts.has_merges) model.fail("no array \"merges\"", "pairs of tokens");
  vocabulary_ = std::move(parts.vocabulary);
  if (const auto unknown = model.optional("unk_token")) {
    unknown_id_ = vocabulary_.find(unknown->string());
    if (!unknown_id_ && vocabulary_.size() > 0)
      unknown->fail(shown(unknown->string()), "a token of model.vocab");
  }
  read_character_ids();
  read_merges(parts.merges, model);
}

void BpeModel::read_options(const JsonField& model) {
  if (const auto dropout = model.optional("dropout"))
    if (dropout->number() != 0) dropout->fail_type("null or 0: dropout makes tokens random");
  prefix_ = model.string_or("continuing_subword_prefix", "");
  suffix_ = model.string_or("end_of_word_suffix", "");
  fuse_unknown_ = model.boolean_or("fuse_unk", false);
  byte_fallback_ = model.boolean_or("byte_fallback", false);
  ignore_merges_ = model.boolean_or("ignore_merges", false);
}

void BpeModel::read_character_ids() {
  for (char32_t c = 0; c < character_ids_.size(); ++c) {
    std::string text;
    append_utf8(text, c);
    character_ids_[c] = vocabulary_.find(text).value_or(kNoToken);
  }
  for (unsigned byte = 0; byte < byte_ids_.size(); ++byte)
    byte_ids_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte)).value_or(kNoToken);
}

void BpeModel::read_merges(const MergeList& merges, const JsonField& model) {
  merges_.reserve(merges.size());
  std::string merged;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto [left, right] = merges[rank];
    const auto unknown = [&](std::string_view token) {
      throw FileError(
          fmt::format("{}: model.merges[{}]: found {} + {}, expected tokens of model.vocab ({} is not)",
                      model.file(), rank, shown(left), shown(right), shown(token)));
    };
    const auto left_id = vocabulary_.find(left);
    if (!left_id) unknown(left);
    const auto right_id = vocabulary_.find(right);
    if (!right_id) unknown(right);
    merged.assign(left).append(right.substr(std::min(prefix_.size(), right.size())));
    const auto id = vocabulary_.find(merged);
    if (!id) unknown(merged);
    merges_.set(*left_id, *right_id, {static_cast<std::int32_t>(rank), *id});
    remember_junction(left, right);
  }
}

// A merge joins tokens only where its left one ends and its right one begins. So where a text's neighbouring
// characters stand at no merge's junction, no merge ever crosses, and the text can be parted exactly.
void BpeModel::remember_junction(std::string_view left, std::string_view right) {
  if (left.empty() || right.empty()) return;
  std::size_t last = character_before(left, left.size());
  std::size_t first = 0;
  const char32_t before = next_code_point(left, last);
  const char32_t after = next_code_point(right, first);
  if (before < 128 && after < 128) {
    ascii_junctions_.set(before * 128 + after);
  } else {
    junctions_.insert(static_cast<std::uint64_t>(before) << 32U | after);
  }
}

bool BpeModel::may_join(char32_t left, char32_t right) const {
  if (left < 128 && right < 128) return ascii_junctions_.test(left * 128 + right);
  return junctions_.contains(static_cast<std::uint64_t>(left) << 32U | right);
}

std::int32_t BpeModel::character_id(std::string_view character, char32_t code_point) const {
  if (code_point < character_ids_.size()) return character_ids_[code_point];
  return vocabulary_.find(character).value_or(kNoToken);
}

void BpeModel::encode(std::string_view piece, PieceCache& cache, std::vector<std::int32_t>& ids) const {
  if (ignore_merges_) {
    if (const auto id = vocabulary_.find(piece)) return ids.push_back(*id);
  }
  // A prefix or suffix makes a character's token depend on where it stands, so such pieces stay whole.
  if (piece.size() < kShortestPartedPiece || !prefix_.empty() || !suffix_.empty())
    return encode_part(piece, cache, ids);
  encode_in_parts(piece, cache, ids);
}

void BpeModel::encode_in_parts(std::string_view piece, PieceCache& cache,
                               std::vector<std::int32_t>& ids) const {
  std::size_t part = 0;
  char32_t before = 0;
  bool known_before = false;
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t begin = at;
    const char32_t c = next_code_point(piece, at);
    // Unknown characters become several tokens or one for a row of them: no place to part.
    const bool known = character_id(piece.substr(begin, at - begin), c) != kNoToken;
    if (begin > part && known && known_before && !may_join(before, c)) {
      encode_part(piece.substr(part, begin - part), cache, ids);
      part = begin;
    }
    before = c;
    known_before = known;
  }
  encode_part(piece.substr(part), cache, ids);
}

void BpeModel::encode_part(std::string_view part, PieceCache& cache, std::vector<std::int32_t>& ids) const {
  if (const auto* known = cache.find(part)) {
    ids.insert(ids.end(), known->begin(), known->end());
    return;
  }
  const std::size_t n_before = ids.size();
  append_merged(initial_ids(part), ids);
  cache.add(part, ids.data() + n_before, ids.size() - n_before);
}

bool BpeModel::append_byte_tokens(std::string_view text, std::vector<std::int32_t>& ids) const {
  const auto id_of = [this](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  if (std::any_of(text.begin(), text.end(), [&](char byte) { return id_of(byte) == kNoToken; })) return false;
  for (const char byte : text) ids.push_back(id_of(byte));
  return true;
}

// One token per character, before any merge.
std::vector<std::int32_t> BpeModel::initial_ids(std::string_view part) const {
  std::vector<std::int32_t> ids;
  ids.reserve(part.size());
  bool pending_unknown = false;  // written before the next known character, as the tokenizers library does
  std::string decorated;
  for (std::size_t at = 0; at < part.size();) {
    const std::size_t begin = at;
    const char32_t c = next_code_point(part, at);
    std::string_view character = part.substr(begin, at - begin);
    std::int32_t id = kNoToken;
    if (prefix_.empty() && suffix_.empty()) {
      id = character_id(character, c);
    } else {
      decorated.assign(begin > 0 ? prefix_ : "").append(character).append(at == part.size() ? suffix_ : "");
      character = decorated;
      id = vocabulary_.find(decorated).value_or(kNoToken);
    }
    if (id != kNoToken) {
      if (pending_unknown) ids.push_back(*unknown_id_);
      pending_unknown = false;
      ids.push_back(id);
    } else if (!byte_fallback_ || !append_byte_tokens(character, ids)) {
      if (pending_unknown && !fuse_unknown_) ids.push_back(*unknown_id_);
      pending_unknown = unknown_id_.has_value();  // without an unknown token the character is dropped
    }
  }
  if (pending_unknown) ids.push_back(*unknown_id_);
  return ids;
}

namespace {

// A merge that was possible when it was found; by the time it is its turn, others may have undone it.
struct Candidate {
  std::int32_t rank, position, id;

  // Lowest rank first, leftmost first: the order of std::priority_queue's top is the greatest.
  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : position > other.position;
  }
};

}  // namespace

// A list of symbols, linked by index, and a queue of candidates. Every merge takes one symbol away and adds
// at most two candidates: O(n log n).
void BpeModel::append_merged(const std::vector<std::int32_t>& initial, std::vector<std::int32_t>& ids) const {
  const auto n = static_cast<std::int32_t>(initial.size());
  std::vector<Symbol> symbols(initial.size());
  std::vector<Candidate> found;
  const auto candidate_at = [&](std::int32_t position) -> std::optional<Candidate> {
    const std::int32_t next = symbols[position].next;
    if (next >= n) return std::nullopt;
    const Merge* merge = merges_.find(symbols[position].id, symbols[next].id);
    if (merge == nullptr) return std::nullopt;
    return Candidate{merge->rank, position, merge->id};
  };
  for (std::int32_t i = 0; i < n; ++i) symbols[i] = {initial[i], i - 1, i + 1};
  for (std::int32_t i = 0; i < n; ++i)
    if (const auto candidate = candidate_at(i)) found.push_back(*candidate);
  std::priority_queue queue(std::less<Candidate>(), std::move(found));
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = symbols[top.position];
    if (left.id == kMerged) continue;
    const auto now = candidate_at(top.position);
    if (!now || now->id != top.id) continue;
    Symbol& right = symbols[left.next];
    left.id = top.id;
    left.next = right.next;
    right.id = kMerged;
    if (left.next < n) symbols[left.next].previous = top.position;
    if (left.previous >= 0)
      if (const auto candidate = candidate_at(left.previous)) queue.push(*candidate);
    if (const auto candidate = candidate_at(top.position)) queue.push(*candidate);
  }
  for (const Symbol& symbol : symbols)
    if (symbol.id != kMerged) ids.push_back(symbol.id);
}

void MergeTable::reserve(std::size_t n_merges) {
  const std::size_t n_slots = std::bit_ceil(std::max<std::size_t>(2 * n_merges, 16));
  slots_.assign(n_slots, Slot());
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(n_slots));
}

void MergeTable::set(std::int32_t left, std::int32_t right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  slots_[find_slot(key)] = {key, merge};
}

}  // namespace keyscope::tokenizer
