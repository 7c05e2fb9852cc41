#include "capture/tokenizer/tokenizer_json.hpp"

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"

namespace keyscope::tokenizer {

void MergeList::add(std::string_view left, std::string_view right) {
  entries_.push_back(
      {bytes_.size(), static_cast<std::uint32_t>(left.size()), static_cast<std::uint32_t>(right.size())});
  bytes_.append(left).append(right);
}

MergeList::Pair MergeList::operator[](std::size_t i) const {
  const Entry& entry = entries_[i];
  const std::string_view bytes(bytes_);
  return {bytes.substr(entry.offset, entry.left_size),
          bytes.substr(entry.offset + entry.left_size, entry.right_size)};
}

namespace {

using nlohmann::json;

constexpr std::size_t kDeepest = 64;

// Receives the parser's events: builds the document, except inside of model.vocab and model.merges.
class Reader : public nlohmann::json_sax<json> {
 public:
  Reader(std::string file, TokenizerJson& result) : file_(std::move(file)), result_(result) {}

  bool null() override { return scalar(json(nullptr), "null"); }
  bool boolean(bool value) override { return scalar(json(value), value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override {
    if (table_ == Table::kScores) return set_score(static_cast<double>(value));
    return scalar(json(value), std::to_string(value));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    if (table_ == Table::kScores) return set_score(value);
    return scalar(json(value), text);
  }
  bool binary(binary_t&) override { return false; }

  bool number_unsigned(number_unsigned_t value) override {
    if (table_ == Table::kScores) return set_score(static_cast<double>(value));
    if (table_ != Table::kVocabulary) return scalar(json(value), std::to_string(value));
    add_token(value);
    return true;
  }

  bool string(string_t& value) override {
    if (table_ == Table::kMerges) {
      add_merge_text(value);
      return true;
    }
    if (table_ == Table::kScores && in_pair_ && pair_.empty()) {
      pair_.push_back(value);
      return true;
    }
    return scalar(json(std::move(value)), "a string");
  }

  bool key(string_t& name) override {
    key_ = std::move(name);
    return true;
  }

  bool start_object(std::size_t) override {
    if (table_ != Table::kNone) refuse_entry("an object");
    if (at_model_field("vocab")) {
      open_vocabulary(Table::kVocabulary);
      return true;
    }
    open(json::object());
    return true;
  }

  bool end_object() override {
    if (table_ == Table::kVocabulary) {
      table_ = Table::kNone;
    } else {
      open_.pop_back();
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if ((table_ == Table::kMerges || table_ == Table::kScores) && !in_pair_) {
      in_pair_ = true;
      pair_.clear();
      score_.reset();
      return true;
    }
    if (table_ != Table::kNone) refuse_entry("an array");
    if (at_model_field("merges")) {
      if (result_.has_merges) fail("model.merges", "it twice", "it once");
      table_ = Table::kMerges;
      result_.has_merges = true;
      return true;
    }
    if (at_model_field("vocab")) {
      open_vocabulary(Table::kScores);
      result_.has_scores = true;
      return true;
    }
    open(json::array());
    return true;
  }

  bool end_array() override {
    if (table_ == Table::kNone) {
      open_.pop_back();
    } else if (in_pair_) {
      in_pair_ = false;
      if (table_ == Table::kScores) {
        add_scored_token();
        return true;
      }
      if (pair_.size() != 2) fail_merge(fmt::format("an array of {}", pair_.size()));
      result_.merges.add(pair_[0], pair_[1]);
    } else {
      table_ = Table::kNone;
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: what is wrong"
    const std::string_view what = error.what();
    const auto detail = what.find(": ");
    throw FileError(fmt::format("{}: found no valid JSON at byte {} ({}), expected a tokenizer.json", file_,
                                position, detail == what.npos ? what : what.substr(detail + 2)));
  }

 private:
  enum class Table { kNone, kVocabulary, kScores, kMerges };

  [[noreturn]] void fail(const std::string& path, const std::string& found,
                         const std::string& expected) const {
    throw FileError(fmt::format("{}: {}: found {}, expected {}", file_, path, found, expected));
  }
  [[noreturn]] void fail_merge(const std::string& found) const {
    fail(fmt::format("model.merges[{}]", result_.merges.size()), found,
         "two tokens, as \"a b\" or [\"a\", \"b\"]");
  }
  [[noreturn]] void fail_score(const std::string& found) const {
    fail(fmt::format("model.vocab[{}]", result_.scores.size()), found,
         "a token and its score, as [\"a\", -3.5]");
  }
  [[noreturn]] void fail_token(const std::string& found) const {
    fail(fmt::format("model.vocab[{}]", shown(key_)), found,
         fmt::format("an id from 0 to {}, given to no other token", kLargestId));
  }
  [[noreturn]] void refuse_entry(const std::string& found) const {
    if (table_ == Table::kMerges) fail_merge(found);
    if (table_ == Table::kScores) fail_score(found);
    fail_token(found);
  }

  bool at_model_field(std::string_view name) const {
    return open_.size() == 2 && in_model_ && open_.back()->is_object() && key_ == name;
  }

  void open_vocabulary(Table table) {
    if (result_.has_vocabulary) fail("model.vocab", "it twice", "it once");
    table_ = table;
    result_.has_vocabulary = true;
  }

  bool set_score(double score) {
    if (!in_pair_ || pair_.empty() || score_) fail_score(fmt::format("{}", score));
    score_ = score;
    return true;
  }

  void add_scored_token() {
    if (pair_.empty() || !score_) fail_score(pair_.empty() ? "neither" : "a token alone");
    if (!std::isfinite(*score_)) fail_score(fmt::format("the score {}", *score_));
    const auto id = static_cast<std::int32_t>(result_.scores.size());
    if (id > kLargestId) fail_score(fmt::format("more than {} tokens", kLargestId));
    if (result_.vocabulary.add(pair_[0], id) != Vocabulary::Added::kYes)
      fail_score(fmt::format("the token {} a second time", shown(pair_[0])));
    result_.scores.push_back(*score_);
  }

  bool scalar(json value, const std::string& found) {
    if (table_ != Table::kNone) refuse_entry(found);
    place(std::move(value));
    return true;
  }

  json* place(json value) {
    if (open_.empty()) return &(result_.document = std::move(value));
    json& parent = *open_.back();
    if (parent.is_object()) return &(parent[key_] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }

  void open(json container) {
    if (open_.size() == kDeepest)
      throw FileError(
          fmt::format("{}: found values nested deeper than {}, expected a tokenizer.json", file_, kDeepest));
    if (open_.size() == 1) in_model_ = open_.back()->is_object() && key_ == "model";
    open_.push_back(place(std::move(container)));
  }

  void add_token(number_unsigned_t id) {
    if (id > static_cast<number_unsigned_t>(kLargestId)) fail_token(std::to_string(id));
    const auto added = result_.vocabulary.add(key_, static_cast<std::int32_t>(id));
    if (added == Vocabulary::Added::kTextTwice) fail_token("the token a second time");
    if (added == Vocabulary::Added::kIdTwice)
      fail_token(fmt::format("{}, which is also {}", id,
                             shown(result_.vocabulary.text(static_cast<std::int32_t>(id)))));
  }

  void add_merge_text(const std::string& text) {
    if (in_pair_) {
      if (pair_.size() == 2) fail_merge("an array of more than two");
      pair_.push_back(text);
      return;
    }
    const auto space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
      fail_merge("the string " + shown(text));
    result_.merges.add(std::string_view(text).substr(0, space), std::string_view(text).substr(space + 1));
  }

  std::string file_;
  TokenizerJson& result_;
  std::vector<json*> open_;  // containers from the document's root inwards
  std::string key_;
  Table table_ = Table::kNone;
  bool in_model_ = false;  // the container at depth 2 is the field `model`
  bool in_pair_ = false;
  std::vector<std::string> pair_;
  std::optional<double> score_;
};

}  // namespace

TokenizerJson parse_tokenizer_json(std::string_view text, const std::string& file) {
  TokenizerJson result;
  Reader reader(file, result);
  json::sax_parse(text.data(), text.data() + text.size(), &reader);
  return result;
}

// The slot that holds `text`, or the free one where it belongs. Linear probing at a load of at most a half.
std::size_t Vocabulary::find_slot(std::string_view text) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>{}(text)&mask;
  while (slots_[slot] != 0 && text_of(tokens_[slots_[slot] - 1]) != text) slot = (slot + 1) & mask;
  return slot;
}

void Vocabulary::grow() {
  slots_.assign(slots_.empty() ? 1024 : 2 * slots_.size(), 0);
  for (std::size_t i = 0; i < tokens_.size(); ++i)
    slots_[find_slot(text_of(tokens_[i]))] = static_cast<std::uint32_t>(i + 1);
}

Vocabulary::Added Vocabulary::add(std::string_view text, std::int32_t id) {
  if (2 * (tokens_.size() + 1) > slots_.size()) grow();
  const std::size_t slot = find_slot(text);
  if (slots_[slot] != 0) return Added::kTextTwice;
  if (contains(id)) return Added::kIdTwice;
  tokens_.push_back({bytes_.size(), static_cast<std::uint32_t>(text.size()), id});
  bytes_.append(text);
  slots_[slot] = static_cast<std::uint32_t>(tokens_.size());
  if (static_cast<std::size_t>(id) >= by_id_.size()) by_id_.resize(static_cast<std::size_t>(id) + 1, 0);
  by_id_[id] = static_cast<std::uint32_t>(tokens_.size());
  return Added::kYes;
}

std::optional<std::int32_t> Vocabulary::find(std::string_view text) const {
  if (slots_.empty()) return std::nullopt;
  const std::uint32_t token = slots_[find_slot(text)];
  if (token == 0) return std::nullopt;
  return tokens_[token - 1].id;
}

bool Vocabulary::contains(std::int32_t id) const {
  return id >= 0 && static_cast<std::size_t>(id) < by_id_.size() && by_id_[id] != 0;
}

std::string_view Vocabulary::text(std::int32_t id) const {
  return contains(id) ? text_of(tokens_[by_id_[id] - 1]) : std::string_view();
}

}  // namespace keyscope::tokenizer
