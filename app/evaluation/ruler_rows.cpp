#include "app/evaluation/ruler_rows.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/evaluation/task_data.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/sha256.hpp"

namespace keyscope::evaluation {

namespace {

namespace fs = std::filesystem;

bool is_name_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// A length as folders and files are named after it. Years and numbers of rows are none.
std::optional<std::int64_t> named_length(std::string_view part) {
  const auto length = parse_ruler_length(part);
  return length && *length % 512 == 0 ? length : std::nullopt;
}

// The first length among the parts of a name that points, dashes and the like separate.
std::optional<std::int64_t> length_in(std::string_view name) {
  while (!name.empty()) {
    const std::size_t end = std::ranges::find_if_not(name, is_name_part) - name.begin();
    if (const auto length = named_length(name.substr(0, end))) return length;
    name.remove_prefix(std::min(name.size(), end + 1));
  }
  return std::nullopt;
}

const RulerTask* task_before(std::string_view name) {
  for (const RulerTask& task : ruler_tasks())
    if (name.starts_with(task.name) &&
        (name.size() == task.name.size() || (!is_name_part(name[task.name.size()]))))
      return &task;
  return nullptr;
}

// How often a text stands in another.
std::size_t n_found(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

// How the prompts of the four kinds begin, those of needles in two ways.
constexpr std::string_view kOneNeedle = "A special magic ", kSomeNeedles = "Some special magic ";
constexpr std::string_view kTracked = "Memorize and track the chain(s)";
constexpr std::string_view kNumberedList = "Below is a numbered list of words.";
constexpr std::string_view kCodedText = "Read the following coded text";
constexpr std::string_view kDocuments = "Answer the question based on the given documents.";
constexpr std::array kBeginnings{kOneNeedle, kSomeNeedles, kTracked, kNumberedList, kCodedText, kDocuments};

// Without what a chat template puts in front of it.
std::string_view from_beginning(std::string_view input) {
  std::size_t first = input.npos;
  for (const std::string_view beginning : kBeginnings) first = std::min(first, input.find(beginning));
  return first == input.npos ? std::string_view() : input.substr(first);
}

std::string_view task_of_one_needle(std::string_view input) {
  constexpr std::size_t kMostInEssay = 4;
  const bool uuids = input.starts_with("A special magic uuid");
  const std::size_t n_needles = n_found(input, "One of the special magic ");
  if (n_needles > kMostInEssay) return uuids ? "niah_multikey_3" : "niah_multikey_2";
  if (n_needles > 1) return "niah_multikey_1";
  if (input.find(kRulerNoise) != input.npos) return "niah_single_1";
  return uuids ? "niah_single_3" : "niah_single_2";
}

}  // namespace

RulerPlace ruler_place(const fs::path& file) {
  RulerPlace place;
  const std::string name = file.stem().string();
  place.task = task_before(name);
  place.length =
      length_in(std::string_view(name).substr(place.task != nullptr ? place.task->name.size() : 0));
  for (fs::path folder = file.parent_path(); !folder.filename().empty(); folder = folder.parent_path()) {
    const std::string above = folder.filename().string();
    if (place.task == nullptr) place.task = find_ruler_task(above);
    if (!place.length) place.length = named_length(above);
  }
  return place;
}

const RulerTask* ruler_task_of_text(std::string_view input) {
  input = from_beginning(input);
  if (input.starts_with(kOneNeedle)) return find_ruler_task(task_of_one_needle(input));
  if (input.starts_with(kSomeNeedles)) {
    const std::size_t question = input.rfind("What are all the special magic ");
    if (question == input.npos) return nullptr;
    const bool several = input.find(", and ", question) != input.npos;
    return find_ruler_task(several ? "niah_multiquery" : "niah_multivalue");
  }
  if (input.starts_with(kTracked)) return find_ruler_task("vt");
  if (input.starts_with(kNumberedList)) return find_ruler_task("cwe");
  return input.starts_with(kCodedText) ? find_ruler_task("fwe") : nullptr;
}

RulerText ruler_text(const RulerTask& task, std::string_view input,
                     const std::optional<std::string>& answer_prefix) {
  if (answer_prefix) {
    if (!answer_prefix->empty() && input.ends_with(*answer_prefix))
      input.remove_suffix(answer_prefix->size());
    return {std::string(input), *answer_prefix, {}};
  }
  const std::size_t at = input.rfind(task.prefix_begins);
  const bool ends = at != input.npos && input.find('\n', at) == input.npos;
  return {std::string(input.substr(0, ends ? at : input.npos)),
          std::string(ends ? input.substr(at) : std::string_view()),
          {}};
}

bool has_own_template(const RulerText& text) {
  std::string_view asked = text.asked;
  asked.remove_prefix(std::min(asked.find_first_not_of(" \n\t\r"), asked.size()));
  return std::ranges::none_of(kBeginnings,
                              [&](std::string_view beginning) { return asked.starts_with(beginning); });
}

namespace {

constexpr std::int64_t kMostCount = std::int64_t{1} << 40;  // more than any text has of anything

std::optional<std::int64_t> count_field(const nlohmann::json& row, const char* field, const char* expected,
                                        const std::string& where) {
  if (!row.contains(field)) return std::nullopt;
  const nlohmann::json& value = row[field];
  const auto count = json_integer(value, 0, kMostCount);
  if (!count)
    throw FileError(fmt::format("{}: \"{}\" is {}; expected {}", where, field, shown_value(value), expected));
  return count;
}

}  // namespace

RulerRow read_ruler_row(const nlohmann::json& row, const RulerPlace& place, const RulerTask* named,
                        const std::string& where) {
  RulerRow read;
  const std::string input = text_field(row, "input", where);
  read.task = place.task != nullptr ? place.task : ruler_task_of_text(input);
  if (read.task == nullptr) read.task = named;
  if (read.task == nullptr)
    throw FileError(
        fmt::format("{}: neither the file's name, nor its folder, nor \"input\" says which of RULER's "
                    "tasks this is; name it by --task: {}",
                    where, ruler_task_names()));
  std::optional<std::string> prefix;
  if (row.contains("answer_prefix")) prefix = text_field(row, "answer_prefix", where);
  read.text = ruler_text(*read.task, input, prefix);
  read.text.outputs = texts_field(row, "outputs", where);
  if (read.text.outputs.empty())
    throw FileError(fmt::format("{}: \"outputs\" is empty; expected at least one text", where));
  read.length = count_field(row, "length", "a number of tokens", where);
  return read;
}

std::int64_t ruler_target(std::int64_t length) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(length)));
}

namespace {

// Turns rows into examples, by task and length.
class RulerCollection {
 public:
  RulerCollection(const RulerOptions& options, const capture::Model& model)
      : options_(options),
        context_(model.config().context_length),
        tokenizer_(model.folder_tokenizer().require("RULER is text")),
        encoder_(tokenizer_, model.folder(), options.chat) {}

  void add(const nlohmann::json& json, const RulerPlace& place, const std::string& where) {
    const RulerTask* const named =
        options_.tasks.size() == 1 ? find_ruler_task(options_.tasks.front()) : nullptr;
    RulerRow row = read_ruler_row(json, place, named, where);
    if (!is_asked(options_.tasks, row.task->name)) return;
    std::vector<std::int32_t> ids = has_own_template(row.text)
                                        ? encoder_.plain(row.text.asked + row.text.answer_prefix)
                                        : encoder_.turn(row.text.asked, row.text.answer_prefix);
    const std::int64_t n_tokens = std::ssize(ids) + row.task->max_new_tokens;
    const std::int64_t length = place.length.value_or(ruler_target(row.length.value_or(n_tokens)));
    if (!is_asked(options_.lengths, length)) return;
    auto& examples = examples_[{row.task - ruler_tasks().data(), length}];
    if (options_.samples && std::ssize(examples) >= *options_.samples) return;
    if (n_tokens > context_)
      throw FileError(
          fmt::format("{}: the prompt has {} tokens, the answer up to {}, and the model's context is "
                      "{}; take rows that were made for shorter prompts",
                      where, ids.size(), row.task->max_new_tokens, context_));
    Evidence evidence = ruler_evidence(*row.task, row.text, ids, tokenizer_);
    Example example =
        ruler_example(*row.task, length, std::ssize(examples), std::move(ids), std::move(row.text.outputs));
    Sha256 row_hash;
    row_hash.add(fmt::format("{} {} {}", row.task->name, length, json_text(json)));
    if (!seen_.insert(row_hash.hex()).second)
      throw FileError(
          fmt::format("{}: the same row as an earlier one of {} at {} tokens, which would count twice", where,
                      row.task->name, length));
    example.evidence = std::move(evidence);
    examples.push_back(std::move(example));
  }

  RulerSet take(std::vector<std::string> bad) {
    RulerSet set;
    set.bad = std::move(bad);
    for (auto& [key, examples] : examples_) std::ranges::move(examples, std::back_inserter(set.examples));
    return set;
  }

 private:
  template <typename Value, typename Wanted>
  static bool is_asked(const std::vector<Value>& asked, const Wanted& value) {
    return asked.empty() || std::ranges::find(asked, value) != asked.end();
  }

  const RulerOptions& options_;
  std::int64_t context_;
  const tokenizer::Tokenizer& tokenizer_;
  PromptEncoder encoder_;
  std::map<std::pair<std::ptrdiff_t, std::int64_t>, std::vector<Example>> examples_;
  std::set<std::string> seen_;  // SHA-256 of rows with their task and length
};

}  // namespace

RulerSet read_ruler_rows(const RulerOptions& options, const capture::Model& model) {
  RulerCollection collection(options, model);
  std::vector<std::string> bad;
  for (const fs::path& file : data_files(options.data, true)) {
    const RulerPlace place = ruler_place(file);
    const auto add = [&](const nlohmann::json& row, const std::string& where) {
      collection.add(row, place, where);
    };
    std::ranges::move(read_json_rows({&file, 1}, options.skip_bad, add).bad, std::back_inserter(bad));
  }
  RulerSet set = collection.take(std::move(bad));
  if (set.examples.empty())
    throw UsageError("--data: none of the rows is of a task and a length that --task and --length ask for");
  return set;
}

}  // namespace keyscope::evaluation
