#include "app/evaluation/anatomy.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"

namespace keyscope::evaluation {
namespace {

using capture::LostRow;

// The rows of one completion, by when they left which KV head.
class RowsLost {
 public:
  RowsLost(const capture::ModelConfig& config, const capture::Completion& completion)
      : config_(config), completion_(completion) {
    for (const LostRow& row : completion.lost) at_[{row.layer, row.kv_head, row.position}] = row.n_read;
  }

  // Whether a layer would still hold the row with the full cache, of which the next query is at n_read.
  bool reaches(int layer, std::int64_t position, std::int64_t n_read) const {
    const std::int64_t window = config_.window(layer);
    return config_.attends(layer) && (window == 0 || position > n_read - window);
  }
  bool holds(int layer, int kv_head, std::int64_t position, std::int64_t n_read) const {
    const auto found = at_.find({layer, kv_head, position});
    return found == at_.end() || found->second > n_read;
  }
  int n_heads(int layer) const { return config_.heads(layer).n_kv_heads; }
  int n_layers() const { return config_.n_layers; }
  std::int64_t n_prompt() const { return completion_.n_prompt; }
  std::int64_t n_read_at_end() const {
    return std::max(n_prompt(), completion_.sizes.empty() ? 0 : completion_.sizes.back().n_read);
  }
  const std::vector<LostRow>& all() const { return completion_.lost; }

 private:
  const capture::ModelConfig& config_;
  const capture::Completion& completion_;
  std::map<std::tuple<int, int, std::int64_t>, std::int64_t> at_;
};

// A count of things, and how many of them are so.
struct Share {
  std::int64_t n = 0, of = 0;

  void add(bool is_so) {
    n += is_so ? 1 : 0;
    ++of;
  }
  std::optional<double> value() const {
    if (of == 0) return std::nullopt;
    return static_cast<double>(n) / static_cast<double>(of);
  }
};

bool is_in(const std::vector<TokenRange>& places, std::int64_t position) {
  return std::ranges::any_of(
      places, [&](const TokenRange& place) { return position >= place.first && position < place.end; });
}

std::optional<double> gone_everywhere(const RowsLost& rows, const std::vector<TokenRange>& places,
                                      std::int64_t n_read) {
  Share gone;
  for (const TokenRange& place : places)
    for (std::int64_t position = place.first; position < place.end; ++position) {
      Share held;
      for (int layer = 0; layer < rows.n_layers(); ++layer)
        for (int head = 0; rows.reaches(layer, position, n_read) && head < rows.n_heads(layer); ++head)
          held.add(rows.holds(layer, head, position, n_read));
      if (held.of > 0) gone.add(held.n == 0);
    }
  return gone.value();
}

// Blocks of a prompt, and of a token each after it.
std::int64_t block_ending_at(std::int64_t n_read, std::int64_t n_prompt, std::int64_t block_size) {
  const auto blocks = [&](std::int64_t n) { return (n + block_size - 1) / block_size; };
  return n_read <= n_prompt ? blocks(n_read) - 1 : blocks(n_prompt) - 1 + n_read - n_prompt;
}

std::optional<double> as_number(float margin) {
  if (std::isnan(margin)) return std::nullopt;
  return margin;
}

// Whether a policy evicted a row that its layer would still reach at the prompt's end.
bool is_evicted(const RowsLost& rows, const LostRow& row) {
  return !row.past_window && rows.reaches(row.layer, row.position, rows.n_prompt());
}

// Of the rows that a policy evicted of these places, in any layer or one: the first.
template <typename Wanted>
std::optional<FirstLoss> first_loss(const RowsLost& rows, std::int64_t block_size, const Wanted& wanted) {
  const LostRow* first = nullptr;
  const auto order = [](const LostRow& row) {
    return std::tuple(row.n_read, row.layer, row.kv_head, row.position);
  };
  for (const LostRow& row : rows.all())
    if (is_evicted(rows, row) && wanted(row) && (first == nullptr || order(row) < order(*first)))
      first = &row;
  if (first == nullptr) return std::nullopt;
  return FirstLoss{.layer = first->layer,
                   .kv_head = first->kv_head,
                   .position = first->position,
                   .block = block_ending_at(first->n_read, rows.n_prompt(), block_size),
                   .rank = first->rank,
                   .n_rows = first->n_rows,
                   .margin = as_number(first->margin)};
}

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Nothing where no window reaches the places any more.
std::optional<LayerEvidence> layer_evidence(const RowsLost& rows, const std::vector<TokenRange>& places,
                                            int layer, std::int64_t block_size) {
  const std::int64_t n_read = rows.n_prompt();
  LayerEvidence evidence;
  evidence.layer = layer;
  Share held_of_all;
  for (int head = 0; head < rows.n_heads(layer); ++head)
    for (const TokenRange& place : places) {
      Share held;
      for (std::int64_t position = place.first; position < place.end; ++position)
        if (rows.reaches(layer, position, n_read)) held.add(rows.holds(layer, head, position, n_read));
      if (held.of == 0) continue;
      ++(held.n == held.of ? evidence.kept : held.n > 0 ? evidence.torn : evidence.lost);
      held_of_all.n += held.n;
      held_of_all.of += held.of;
    }
  if (held_of_all.of == 0) return std::nullopt;
  evidence.rows_kept = *held_of_all.value();
  const auto is_here = [&](const LostRow& row) { return row.layer == layer && is_in(places, row.position); };
  double shares = 0;
  std::vector<double> margins;
  for (const LostRow& row : rows.all()) {
    if (!is_here(row) || !is_evicted(rows, row) || row.n_read > n_read || row.rank == 0) continue;
    shares += static_cast<double>(row.rank) / static_cast<double>(row.n_rows);
    margins.push_back(row.margin);
  }
  if (!margins.empty()) evidence.rank_share = shares / static_cast<double>(margins.size());
  evidence.margin = median(std::move(margins));
  evidence.first = first_loss(rows, block_size, is_here);
  return evidence;
}

EvidenceFate evidence_fate(const RowsLost& rows, const Evidence& evidence, std::int64_t block_size) {
  const std::vector<TokenRange>& places = evidence.places;
  EvidenceFate fate;
  fate.n_places = std::ssize(places);
  for (const TokenRange& place : places) fate.n_rows += place.size();
  for (const TokenRange& answer : evidence.answers) fate.n_answer_rows += answer.size();
  fate.gone_everywhere = gone_everywhere(rows, evidence.answers, rows.n_prompt());
  fate.gone_at_end = gone_everywhere(rows, evidence.answers, rows.n_read_at_end());
  for (int layer = 0; layer < rows.n_layers(); ++layer)
    if (auto of_layer = layer_evidence(rows, places, layer, block_size))
      fate.layers.push_back(std::move(*of_layer));
  fate.first = first_loss(rows, block_size, [&](const LostRow& row) { return is_in(places, row.position); });
  return fate;
}

QuestionFate question_fate(const RowsLost& rows, const TokenRange& question) {
  Share held;
  for (int layer = 0; layer < rows.n_layers(); ++layer)
    for (std::int64_t position = question.first; position < question.end; ++position)
      for (int head = 0; rows.reaches(layer, position, rows.n_prompt()) && head < rows.n_heads(layer); ++head)
        held.add(rows.holds(layer, head, position, rows.n_prompt()));
  return {question.size(), held.value()};
}

// Evenly far apart.
std::vector<capture::CacheSize> thinned(const std::vector<capture::CacheSize>& sizes, std::int64_t n_prompt) {
  if (sizes.size() <= kMostSizes) return sizes;
  std::vector<capture::CacheSize> some;
  const std::size_t n = kMostSizes - 1;  // and the prompt's end
  std::size_t next = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const bool due = i == next * (sizes.size() - 1) / (n - 1);
    if (due) ++next;
    if (due || sizes[i].n_read == n_prompt) some.push_back(sizes[i]);
  }
  return some;
}

}  // namespace

std::optional<double> EvidenceFate::share(std::int64_t LayerEvidence::*count) const {
  Share share;
  for (const LayerEvidence& layer : layers) {
    share.n += layer.*count;
    share.of += layer.kept + layer.torn + layer.lost;
  }
  return share.value();
}

Anatomy anatomy_of(const capture::ModelConfig& config, const Evidence& evidence,
                   const capture::Completion& completion, std::int64_t block_size) {
  const RowsLost rows(config, completion);
  Anatomy anatomy;
  anatomy.empty =
      !completion.generated.empty() && completion.text.find_first_not_of(" \t\r\n\v\f") == std::string::npos;
  if (!evidence.places.empty()) anatomy.evidence = evidence_fate(rows, evidence, block_size);
  if (evidence.question) anatomy.question = question_fate(rows, *evidence.question);
  anatomy.sizes = thinned(completion.sizes, completion.n_prompt);
  return anatomy;
}

namespace {

using Json = nlohmann::ordered_json;

Json first_json(const std::optional<FirstLoss>& first) {
  if (!first) return nullptr;
  return {{"layer", first->layer},
          {"kv_head", first->kv_head},
          {"position", first->position},
          {"block", first->block},
          {"rank", first->rank},
          {"rows", first->n_rows},
          {"margin", json_number(first->margin)}};
}

Json layer_json(const LayerEvidence& layer) {
  return {{"layer", layer.layer},
          {"kept", layer.kept},
          {"torn", layer.torn},
          {"lost", layer.lost},
          {"rows_kept", layer.rows_kept},
          {"rank_share", json_number(layer.rank_share)},
          {"margin", json_number(layer.margin)},
          {"first", first_json(layer.first)}};
}

Json evidence_json(const std::optional<EvidenceFate>& fate) {
  if (!fate) return nullptr;
  Json json{{"places", fate->n_places},
            {"rows", fate->n_rows},
            {"answer_rows", fate->n_answer_rows},
            {"global_eviction_ratio", json_number(fate->gone_everywhere)},
            {"global_eviction_ratio_at_end", json_number(fate->gone_at_end)},
            {"first", first_json(fate->first)}};
  json["layers"] = Json::array();
  for (const LayerEvidence& layer : fate->layers) json["layers"].push_back(layer_json(layer));
  return json;
}

constexpr std::int64_t kMostCount = std::int64_t{1} << 53;  // that JSON's numbers hold everywhere

std::int64_t count(const JsonField& json, const std::string& name) {
  return json.member(name).integer(0, kMostCount);
}

std::optional<double> number(const JsonField& json, const std::string& name) {
  const auto field = json.optional(name);
  if (!field) return std::nullopt;
  return field->number();
}

std::optional<FirstLoss> parse_first(const std::optional<JsonField>& json) {
  if (!json) return std::nullopt;
  return FirstLoss{.layer = static_cast<int>(count(*json, "layer")),
                   .kv_head = static_cast<int>(count(*json, "kv_head")),
                   .position = count(*json, "position"),
                   .block = count(*json, "block"),
                   .rank = count(*json, "rank"),
                   .n_rows = count(*json, "rows"),
                   .margin = number(*json, "margin")};
}

EvidenceFate parse_evidence(const JsonField& json) {
  EvidenceFate fate;
  fate.n_places = count(json, "places");
  fate.n_rows = count(json, "rows");
  fate.n_answer_rows = count(json, "answer_rows");
  fate.gone_everywhere = number(json, "global_eviction_ratio");
  fate.gone_at_end = number(json, "global_eviction_ratio_at_end");
  fate.first = parse_first(json.optional("first"));
  json.member("layers").for_each([&](const JsonField& layer) {
    fate.layers.push_back({.layer = static_cast<int>(count(layer, "layer")),
                           .kept = count(layer, "kept"),
                           .torn = count(layer, "torn"),
                           .lost = count(layer, "lost"),
                           .rows_kept = layer.member("rows_kept").number(),
                           .rank_share = number(layer, "rank_share"),
                           .margin = number(layer, "margin"),
                           .first = parse_first(layer.optional("first"))});
  });
  return fate;
}

std::vector<capture::CacheSize> parse_sizes(const JsonField& json) {
  std::vector<capture::CacheSize> sizes;
  json.member("read").for_each([&](const JsonField& read) {
    sizes.push_back({read.integer(0, kMostCount), 0, 0});
  });
  const auto column = [&](const char* name, const auto& take) {
    std::size_t i = 0;
    json.member(name).for_each([&](const JsonField& value) {
      if (i < sizes.size()) take(sizes[i], value);
      ++i;
    });
    if (i != sizes.size())
      json.member(name).fail(fmt::format("{} entries", i), fmt::format("{}, as \"read\" has", sizes.size()));
  };
  column("rows", [](capture::CacheSize& size, const JsonField& value) { size.rows = value.number(); });
  column("bytes",
         [](capture::CacheSize& size, const JsonField& value) { size.bytes = value.integer(0, kMostCount); });
  return sizes;
}

}  // namespace

nlohmann::ordered_json anatomy_json(const Anatomy& anatomy) {
  Json json{{"empty", anatomy.empty}, {"evidence", evidence_json(anatomy.evidence)}};
  json["question"] = nullptr;
  if (anatomy.question)
    json["question"] = {{"rows", anatomy.question->n_rows},
                        {"rows_kept", json_number(anatomy.question->rows_kept)}};
  Json& cache = json["cache"] = {{"read", Json::array()}, {"rows", Json::array()}, {"bytes", Json::array()}};
  for (const capture::CacheSize& size : anatomy.sizes) {
    cache["read"].push_back(size.n_read);
    cache["rows"].push_back(size.rows);
    cache["bytes"].push_back(size.bytes);
  }
  return json;
}

Anatomy parse_anatomy(const nlohmann::json& json, const std::string& where) {
  const JsonField field(json, where, "anatomy");
  Anatomy anatomy;
  anatomy.empty = field.member("empty").boolean();
  if (const auto evidence = field.optional("evidence")) anatomy.evidence = parse_evidence(*evidence);
  if (const auto question = field.optional("question"))
    anatomy.question = QuestionFate{count(*question, "rows"), number(*question, "rows_kept")};
  anatomy.sizes = parse_sizes(field.member("cache"));
  return anatomy;
}

}  // namespace keyscope::evaluation
