#include "app/validation/prompt_record.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <oneapi/tbb/parallel_for.h>

#include "analysis/theorem_bounds.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace keyscope::validation {

namespace {

using Json = nlohmann::ordered_json;
using measures::HeadMeasures;
using measures::RunMeasures;

std::optional<double> read_number(const nlohmann::json& from, std::string_view field) {
  const auto& value = from.at(std::string(field));
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

template <typename Int>
Int read_count(const nlohmann::json& from, const char* field) {
  const auto count = json_integer<Int>(from.at(field));
  if (!count)
    throw FileError(fmt::format("{} is {}, expected an integer", field, shown_value(from.at(field))));
  return *count;
}

Json tally_json(const BoundTally& tally) {
  return {
      {"pairs", tally.pairs}, {"violations", tally.violations}, {"min_slack", json_number(tally.min_slack)}};
}

BoundTally read_tally(const nlohmann::json& from) {
  return {read_count<std::int64_t>(from, "pairs"), read_count<std::int64_t>(from, "violations"),
          read_number(from, "min_slack")};
}

constexpr std::pair<const char*, BoundTally BoundTallies::*> kTallies[]{
    {"theorem", &BoundTallies::theorem},
    {"lemma_stated", &BoundTallies::lemma_stated},
    {"lemma_proof", &BoundTallies::lemma_proof},
    {"lemma_always", &BoundTallies::lemma_always}};

constexpr std::pair<const char*, std::optional<double> BoundTallies::*> kShares[]{
    {"theorem_share", &BoundTallies::theorem_share},
    {"theorem_share_causal", &BoundTallies::theorem_share_causal},
    {"lemma_share", &BoundTallies::lemma_share}};

Json run_json(const RunMeasures& run) {
  Json json{{"run", run.run}};
  for (const Quantity& one : quantities())
    if (one.of_run != nullptr) json[std::string(one.id)] = json_number(run.*one.of_run);
  json["heads"] = Json::array();
  for (const HeadMeasures& head : run.heads) {
    Json entry{{"layer", head.layer}, {"kv_head", head.kv_head}};
    for (const Quantity& one : quantities())
      if (one.of_head != nullptr && (!one.of_sinks || head.*one.of_head))
        entry[std::string(one.id)] = json_number(head.*one.of_head);
    json["heads"].push_back(std::move(entry));
  }
  return json;
}

RunMeasures read_run(const nlohmann::json& from) {
  RunMeasures run;
  run.run = from.at("run").get<std::string>();
  for (const Quantity& one : quantities())
    if (one.of_run != nullptr) run.*one.of_run = read_number(from, one.id);
  for (const auto& entry : from.at("heads")) {
    HeadMeasures& head = run.heads.emplace_back();
    head.layer = read_count<int>(entry, "layer");
    head.kv_head = read_count<int>(entry, "kv_head");
    for (const Quantity& one : quantities())
      if (one.of_head != nullptr && (!one.of_sinks || entry.contains(one.id)))
        head.*one.of_head = read_number(entry, one.id);
  }
  return run;
}

Json bounds_json(const BoundTallies& bounds) {
  Json json{{"layer", bounds.layer}, {"kv_head", bounds.kv_head}};
  for (const auto& [name, tally] : kTallies) json[name] = tally_json(bounds.*tally);
  for (const auto& [name, share] : kShares) json[name] = json_number(bounds.*share);
  return json;
}

BoundTallies read_bounds(const nlohmann::json& from) {
  BoundTallies bounds;
  bounds.layer = read_count<int>(from, "layer");
  bounds.kv_head = read_count<int>(from, "kv_head");
  for (const auto& [name, tally] : kTallies) bounds.*tally = read_tally(from.at(name));
  for (const auto& [name, share] : kShares) bounds.*share = read_number(from, name);
  return bounds;
}

}  // namespace

BoundTallies tally_bounds(const measures::HeadBounds& head) {
  const analysis::MeanKeyBounds& theorem = head.theorem;
  const analysis::AttentionWeightBounds& lemma = head.lemma;
  const auto tally = [](std::int64_t pairs, const auto& bound) {
    return BoundTally{pairs, bound.violations, measures::if_defined(bound.min_slack)};
  };
  return {.layer = head.layer,
          .kv_head = head.kv_head,
          .theorem = tally(theorem.pairs, theorem),
          .theorem_share = measures::if_defined(theorem.share),
          .theorem_share_causal = measures::if_defined(theorem.share_causal),
          .lemma_stated = tally(lemma.pairs_nonnegative, lemma.stated),
          .lemma_proof = tally(lemma.pairs_nonnegative, lemma.proof),
          .lemma_always = tally(lemma.pairs, lemma.always),
          .lemma_share = measures::if_defined(lemma.share_nonnegative)};
}

const RunMeasures* PromptRecord::run(std::string_view name) const {
  const auto found = std::ranges::find(runs, name, &RunMeasures::run);
  return found == runs.end() ? nullptr : &*found;
}

Json prompt_record_json(const PromptRecord& record) {
  Json json{{"key", record.key}, {"n_tokens", record.n_tokens}, {"budget", record.budget}};
  json["runs"] = Json::array();
  for (const RunMeasures& run : record.runs) json["runs"].push_back(run_json(run));
  json["bounds"] = Json::array();
  for (const BoundTallies& bounds : record.bounds) json["bounds"].push_back(bounds_json(bounds));
  return json;
}

namespace {

constexpr std::size_t kKeyDigits = 64;  // of a SHA-256

}  // namespace

PromptRecord parse_prompt_record(std::string_view text, const std::string& where) {
  const nlohmann::json json = parse_json_object(text, where);
  try {
    PromptRecord record;
    record.key = json.at("key").get<std::string>();
    if (!is_digest(record.key, kKeyDigits))  // files are named by it
      throw FileError(
          fmt::format("key is {}, expected {} hexadecimal digits", shown(record.key), kKeyDigits));
    record.n_tokens = read_count<std::int64_t>(json, "n_tokens");
    record.budget = read_count<std::int64_t>(json, "budget");
    for (const auto& run : json.at("runs")) record.runs.push_back(read_run(run));
    for (const auto& bounds : json.at("bounds")) record.bounds.push_back(read_bounds(bounds));
    return record;
  } catch (const std::exception& error) {
    throw FileError(fmt::format("{}: damaged: {}", where, error.what()));
  }
}

namespace {

constexpr std::array<Quantity, 23> kQuantities{{
    {"spearman", "ρ(−cos, attention per query)", "", &HeadMeasures::spearman},
    {"spearman_total", "ρ(−cos, summed attention)", "", &HeadMeasures::spearman_total},
    {"spearman_given_position", "ρ given position", "", &HeadMeasures::spearman_given_position},
    {"kendall", "Kendall's τ-b", "", &HeadMeasures::kendall},
    {"mean_key_cosine", "cos(key, mean key)", "", &HeadMeasures::mean_key_cosine},
    {"key_query_mean_cosine", "cos(mean key, mean query)", "", &HeadMeasures::key_query_mean_cosine},
    {"top_key_query_cosine", "cos(top KeyDiff key, mean query)", "", &HeadMeasures::top_key_query_cosine},
    {"sink_metric", "attention on the first token", "", &HeadMeasures::sink_metric},
    {"attention_entropy_nats", "entropy of a query's attention", "nats",
     &HeadMeasures::attention_entropy_nats},
    {"attention_gini", "Gini coefficient of attention received", "", &HeadMeasures::attention_gini},
    {"attention_top_share", "attention on the top 1 % of positions", "", &HeadMeasures::attention_top_share},
    {"learned_sink_share", "attention that learned sinks took", "", &HeadMeasures::learned_sink_share,
     nullptr, false, true},
    {"spearman_without_sinks", "ρ(−cos, attention per query), without sinks", "",
     &HeadMeasures::spearman_without_sinks, nullptr, false, true},
    {"spearman_given_position_without_sinks", "ρ given position, without sinks", "",
     &HeadMeasures::spearman_given_position_without_sinks, nullptr, false, true},
    {"log_volume_nats", "log volume of the retained keys", "nats", &HeadMeasures::log_volume_nats},
    {"regularised_log_volume_nats", "regularised log volume", "nats",
     &HeadMeasures::regularised_log_volume_nats},
    {"mean_pairwise_cosine", "mean cosine between retained keys", "", &HeadMeasures::mean_pairwise_cosine},
    {"attention_mass_kept", "attention mass kept", "", &HeadMeasures::attention_mass_kept, nullptr, true},
    {"output_error", "relative error of attention's output", "", &HeadMeasures::output_error, nullptr, true},
    {"attention_mass_kept_without_sinks", "attention mass kept, without sinks", "",
     &HeadMeasures::attention_mass_kept_without_sinks, nullptr, true, true},
    {"output_error_without_sinks", "relative error of attention's output, without sinks", "",
     &HeadMeasures::output_error_without_sinks, nullptr, true, true},
    {"kl_nats", "KL against the full cache", "nats", nullptr, &RunMeasures::kl_nats, true},
    {"top1_agreement", "same most likely token", "", nullptr, &RunMeasures::top1_agreement, true},
}};

// A mean of what there is.
class Mean {
 public:
  void add(double value) {
    sum_ += value;
    ++n_;
  }
  std::optional<double> value() const {
    return n_ > 0 ? std::optional(sum_ / static_cast<double>(n_)) : std::nullopt;
  }

 private:
  double sum_ = 0;
  std::int64_t n_ = 0;
};

}  // namespace

std::span<const Quantity> quantities() { return kQuantities; }

const Quantity& quantity(std::string_view id) {
  const auto found = std::ranges::find(kQuantities, id, &Quantity::id);
  if (found == kQuantities.end()) throw std::logic_error("no such quantity: " + std::string(id));
  return *found;
}

std::optional<double> value_of(const RunMeasures& run, const Quantity& quantity, int layer) {
  if (quantity.of_run != nullptr) return layer < 0 ? run.*quantity.of_run : std::nullopt;
  Mean mean;
  for (const HeadMeasures& head : run.heads)
    if (const auto& value = head.*quantity.of_head; value && (layer < 0 || head.layer == layer))
      mean.add(*value);
  return mean.value();
}

std::optional<double> difference_of(const RunMeasures& a, const RunMeasures& b, const Quantity& quantity,
                                    int layer) {
  if (quantity.of_run != nullptr) {
    const auto of_a = value_of(a, quantity, layer), of_b = value_of(b, quantity, layer);
    return of_a && of_b ? std::optional(*of_a - *of_b) : std::nullopt;
  }
  Mean mean;
  for (std::size_t i = 0; i < std::min(a.heads.size(), b.heads.size()); ++i) {
    const auto &of_a = a.heads[i].*quantity.of_head, &of_b = b.heads[i].*quantity.of_head;
    if (of_a && of_b && (layer < 0 || a.heads[i].layer == layer)) mean.add(*of_a - *of_b);
  }
  return mean.value();
}

namespace {

// What each prompt says, where it says something.
template <typename ValueOf>
std::vector<double> gather(Records records, const ValueOf& value) {
  std::vector<double> samples;
  for (const PromptRecord& record : records)
    if (const auto found = value(record)) samples.push_back(*found);
  return samples;
}

}  // namespace

std::vector<double> samples_of(Records records, const Quantity& quantity, std::string_view run, int layer) {
  return gather(records, [&](const PromptRecord& record) {
    const RunMeasures* found = record.run(run);
    return found != nullptr ? value_of(*found, quantity, layer) : std::nullopt;
  });
}

std::vector<double> differences_of(Records records, const Quantity& quantity, std::string_view a,
                                   std::string_view b, int layer) {
  return gather(records, [&](const PromptRecord& record) {
    const RunMeasures *of_a = record.run(a), *of_b = record.run(b);
    return of_a != nullptr && of_b != nullptr ? difference_of(*of_a, *of_b, quantity, layer) : std::nullopt;
  });
}

std::vector<int> layers_of(Records records) {
  std::set<int> layers;
  for (const PromptRecord& record : records)
    for (const BoundTallies& head : record.bounds) layers.insert(head.layer);
  return {layers.begin(), layers.end()};
}

std::vector<SummaryRow> summarise(Records records, const analysis::BootstrapOptions& options) {
  if (records.empty()) return {};
  std::vector<int> places = layers_of(records);
  places.insert(places.begin(), -1);
  std::vector<SummaryRow> rows;
  for (const Quantity& one : quantities())
    for (const RunMeasures& run : records.front().runs) {
      if (one.against_full_cache && run.run == "none") continue;
      for (const int layer : places) rows.push_back({&one, run.run, layer, {}});
    }
  oneapi::tbb::parallel_for(std::size_t{0}, rows.size(), [&](std::size_t i) {
    const auto samples = samples_of(records, *rows[i].quantity, rows[i].run, rows[i].layer);
    rows[i].mean = analysis::bootstrap_mean(samples, options);
  });
  std::erase_if(rows, [](const SummaryRow& row) { return row.mean.n_samples == 0; });
  return rows;
}

const SummaryRow* find_row(std::span<const SummaryRow> rows, std::string_view quantity, std::string_view run,
                           int layer) {
  const auto found = std::ranges::find_if(rows, [&](const SummaryRow& row) {
    return row.quantity->id == quantity && row.run == run && row.layer == layer;
  });
  return found == rows.end() ? nullptr : &*found;
}

namespace {

namespace fs = std::filesystem;

constexpr const char* kPrompts = "prompts";
constexpr const char* kRecordings = "recordings";
constexpr const char* kFigures = "figures";

constexpr std::size_t kNameDigits = 16;  // of a key, in the names of files

std::string file_name(const std::string& key, const char* extension) {
  return key.substr(0, kNameDigits) + extension;
}

fs::path prompt_file(const std::string& key) { return fs::path(kPrompts) / file_name(key, ".json"); }

// Those files of a folder that a validation makes there, and the folder where nothing else is in it.
void remove_made(const fs::path& folder, const std::function<bool(const fs::path& file)>& is_made) {
  std::error_code error;
  std::vector<fs::path> made;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (is_made(entry->path().filename())) made.push_back(entry->path());
  for (const fs::path& file : made) fs::remove(file);
  if (fs::is_empty(folder, error) && !error) fs::remove(folder);
}

}  // namespace

ResultFolder::ResultFolder(fs::path out, const nlohmann::ordered_json& settings, bool discard)
    : out_(std::move(out), settings, "validation", discard) {
  out_.require_own([](const nlohmann::ordered_json& task) { return task.is_null(); });
}

void ResultFolder::begin() {
  out_.begin();
  if (out_.discarded()) {
    const auto named = [](const char* extension) {
      return [=](const fs::path& file) {
        return file.extension() == extension && is_digest(file.stem().string(), kNameDigits);
      };
    };
    remove_made(file(kPrompts), named(".json"));
    remove_made(file(kRecordings), named(".h5"));
    remove_made(file(kFigures), [](const fs::path& name) {
      return name.extension() == ".svg" &&
             std::ranges::find(kReportFigures, name.stem().string()) != kReportFigures.end();
    });
    for (const char* name : {"validation.json", "validation.html", "validation.h5"}) fs::remove(file(name));
  }
  out_.make(kPrompts);
  out_.write_settings();
}

std::optional<PromptRecord> ResultFolder::find(const std::string& key) const {
  const fs::path path = file(prompt_file(key));
  if (!fs::exists(path)) return std::nullopt;
  try {
    PromptRecord record = parse_prompt_record(read_small_file(path), path.string());
    if (record.key == key) return record;
    throw FileError(fmt::format("{}: \"key\" is {}; expected {}", path.string(), record.key, key));
  } catch (const FileError& error) {
    throw FileError(std::string(error.what()) + "; remove the file, and the prompt is measured again");
  }
}

void ResultFolder::save(const PromptRecord& record) const {
  write(prompt_file(record.key), json_text(prompt_record_json(record), 1) + "\n");
}

fs::path ResultFolder::recording(const std::string& key) const {
  out_.make(kRecordings);
  return file(kRecordings) / file_name(key, ".h5");
}

}  // namespace keyscope::validation
