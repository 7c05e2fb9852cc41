#include "app/commands/capture_options.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "app/commands/options.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"

namespace keyscope::commands {

namespace {

int parse_index(std::string_view text, const std::string& option) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    throw UsageError(fmt::format("{}: '{}' is no index; expected a list such as 0,3,5-9", option, text));
  return value;
}

}  // namespace

std::string policy_help() {
  std::vector<std::string> names;
  names.reserve(analysis::registered_policies().size());
  for (const auto& entry : analysis::registered_policies()) names.push_back(entry.name);
  return fmt::format("NAME[:key=value,…], repeatable, one run each: {}", fmt::join(names, ", "));
}

std::vector<int> parse_index_list(const std::string& text, const std::string& option) {
  constexpr int kMostIndices = 100000;
  std::vector<int> indices;
  std::size_t at = 0;
  while (at <= text.size() && !text.empty()) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view item = std::string_view(text).substr(at, comma - at);
    const std::size_t dash = item.find('-');
    const int first = parse_index(item.substr(0, dash), option);
    const int last = dash == std::string_view::npos ? first : parse_index(item.substr(dash + 1), option);
    if (last < first || last - first > kMostIndices)
      throw UsageError(fmt::format("{}: '{}' is no range; expected a list such as 0,3,5-9", option, item));
    for (int i = first; i <= last; ++i) indices.push_back(i);
    at = comma + 1;
  }
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  return indices;
}

void CaptureCommandOptions::add_to(CLI::App& command, bool model_required, bool offline) {
  CLI::Option* model = model_.add_model(command);
  if (model_required) model->required();
  prompt.add_to(command);
  command.add_option("--policy", policies_, policy_help())->allow_extra_args(false);
  add_budget(command, budget_);
  add_block(command, block_);
  if (offline) {
    schedule_ = "layer";
    command
        .add_option("--budget-file", budget_file_,
                    "Budgets as JSON, one entry per layer: a number, or a list of one per KV head")
        ->excludes("--budget");
    command
        .add_option(
            "--schedule", schedule_,
            "layer: all blocks through one layer after another (fast, and models larger than memory); "
            "block: block by block through all layers, as a device does")
        ->capture_default_str();
  }
  command.add_flag("--oracle", oracle_,
                   "Evict once, after attention over the whole prompt, as other tools' presses do");
  command
      .add_option("--positions", positions_,
                  "true: RoPE by tokens' true positions; cache: by their place in the cache (StreamingLLM), "
                  "for texts beyond the model's context")
      ->capture_default_str();
  command.add_option("--generate", generate_, "Greedy tokens to generate after the prompt")
      ->check(zero_or_more());
  command.add_flag("--ignore-eos", ignore_eos_, "Go on generating after an end-of-text token");
  command.add_option("--layers", layers_, "Layers to record, such as 0,3,5-9 (default: all)")
      ->check(not_empty());
  command
      .add_option(
          "--heads", heads_,
          "KV heads whose rows to record, such as 0,2-3, with the query heads that read them (default: "
          "all); statistics are recorded of all heads")
      ->check(not_empty());
  command
      .add_option("--record", record_, "Of keys, queries, values, attention, logits (default keys,queries)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--score-last", score_last_, "Prompt positions whose logits are recorded")
      ->check(one_or_more())
      ->capture_default_str();
  command
      .add_option("--store", store_,
                  "float32 or float16: how tensors lie in the file; bfloat16: keys, queries and values as "
                  "float32 rounded to that, which --compress halves")
      ->capture_default_str();
  command.add_flag("--compress", compress_,
                   "Compress keys, queries and values (slow, saves little unless they are bfloat16)");
  model_.add_arithmetic(command);
  add_seed(command, seed_, "policies that draw");
}

capture::ModelOptions CaptureCommandOptions::model_options() const {
  capture::ModelOptions options = model_.options();
  options.may_stream = schedule() == capture::Schedule::kLayer;
  return options;
}

capture::Schedule CaptureCommandOptions::schedule() const {
  return choose<capture::Schedule>(
      "--schedule", schedule_, {{"block", capture::Schedule::kBlock}, {"layer", capture::Schedule::kLayer}});
}

capture::CaptureOptions CaptureCommandOptions::capture_options() const {
  capture::CaptureOptions options;
  for (const auto& text : policies_) options.policies.push_back(analysis::parse_policy(text));
  if (options.policies.empty()) options.policies.push_back(analysis::parse_policy("none"));
  options.budget = budget_;
  options.block_size = block_;
  options.schedule = schedule();
  options.oracle = oracle_;
  options.cache_positions = choose<bool>("--positions", positions_, {{"true", false}, {"cache", true}});
  options.generate = generate_;
  options.ignore_eos = ignore_eos_;
  options.layers = parse_index_list(layers_, "--layers");
  options.heads = parse_index_list(heads_, "--heads");
  if (!record_.empty()) {
    options.record_keys = options.record_queries = false;
    const std::map<std::string, bool*> parts{{"keys", &options.record_keys},
                                             {"queries", &options.record_queries},
                                             {"values", &options.record_values},
                                             {"attention", &options.record_attention},
                                             {"logits", &options.record_logits}};
    for (const auto& word : record_) *choose("--record", word, parts) = true;
  }
  options.score_last = score_last_;
  options.store = choose<recording::StoreType>("--store", store_,
                                               {{"float32", recording::StoreType::kFloat32},
                                                {"float16", recording::StoreType::kFloat16},
                                                {"bfloat16", recording::StoreType::kBFloat16}});
  options.compress = compress_;
  options.seed = seed_;
  return options;
}

namespace {

std::string read_text(const std::string& path) { return TextInput(path).read_all(); }

std::vector<std::int32_t> parse_ids(const std::string& text, const std::string& path) {
  const auto json = parse_json(text, 1);
  if (!json.is_array())
    throw FileError(fmt::format("{}: a JSON array of token ids is expected, such as [1, 80, 147]", path));
  std::vector<std::int32_t> ids;
  ids.reserve(json.size());
  for (const auto& entry : json) {
    const bool fits =
        entry.is_number_integer() && entry.get<std::int64_t>() >= 0 && entry.get<std::int64_t>() <= INT32_MAX;
    if (!fits)
      throw FileError(fmt::format("{}: entry {} is {}, expected a token id (an integer from 0)", path,
                                  ids.size(), shown_value(entry)));
    ids.push_back(entry.get<std::int32_t>());
  }
  return ids;
}

}  // namespace

void ChatOptions::add_to(CLI::App& command, std::initializer_list<CLI::Option*> texts,
                         std::initializer_list<CLI::Option*> excluded) {
  auto* chat = command.add_flag("--chat", form_.chat,
                                "The text is the user's turn: put it into the model's chat template");
  command.add_option("--system", form_.system, "With --chat: the text of the system turn")->needs(chat);
  auto* messages = command.add_option(
      "--messages", messages_file_,
      "A conversation for the chat template: a JSON file with an array of messages, or a request with "
      "\"messages\", \"tools\" and the template's own options; - is stdin");
  messages->excludes(chat);
  for (auto* option : texts) messages->excludes(option);
  for (auto* option : excluded) {
    chat->excludes(option);
    messages->excludes(option);
  }
}

tokenizer::PromptForm ChatOptions::form() const {
  if (form_.system) require_utf8(*form_.system, "--system");
  tokenizer::PromptForm form = form_;
  if (messages_file_) form.messages = *messages_file_ == "-" ? "standard input" : *messages_file_;
  return form;
}

void PromptOptions::add_to(CLI::App& command) {
  auto* text = command.add_option("--prompt", text_, "The prompt itself");
  auto* file = command.add_option("--prompt-file", file_, "A UTF-8 text file with the prompt; - is stdin");
  auto* ids = command.add_option("--prompt-ids", ids_file_, "A JSON array of token ids, used as they are");
  text->excludes(file)->excludes(ids);
  file->excludes(ids);
  chat_.add_to(command, {text, file}, {ids});
  command.add_option("--max-tokens", max_tokens_, "Keep only the first N prompt tokens")
      ->check(one_or_more());
}

std::optional<std::string> PromptOptions::text() const {
  if (text_) require_utf8(*text_, "--prompt");
  if (text_) return text_;
  if (chat_.messages_file()) return read_text(*chat_.messages_file());
  return file_ ? std::optional(read_text(*file_)) : std::nullopt;
}

std::vector<std::int32_t> PromptOptions::read(const tokenizer::FolderTokenizer& tokenizer,
                                              const std::filesystem::path& model_folder) const {
  std::vector<std::int32_t> ids;
  if (ids_file_) {
    ids = parse_ids(read_text(*ids_file_), *ids_file_);
  } else {
    const auto prompt = text();
    if (!prompt) throw UsageError("a prompt is needed: --prompt, --prompt-file, --messages or --prompt-ids");
    ids = tokenizer::encode_prompt(tokenizer.require("give the prompt as --prompt-ids"), model_folder,
                                   *prompt, form());
  }
  if (max_tokens_ && static_cast<std::int64_t>(ids.size()) > *max_tokens_) ids.resize(*max_tokens_);
  return ids;
}

namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 31;

std::int64_t read_budget(const nlohmann::json& entry, const std::string& where) {
  const bool fits =
      entry.is_number_integer() && entry.get<std::int64_t>() >= 1 && entry.get<std::int64_t>() <= kMostRows;
  if (!fits)
    throw FileError(fmt::format("{} is {}, expected a number of rows from 1", where, shown_value(entry)));
  return entry.get<std::int64_t>();
}

void require_size(const nlohmann::json& list, int n, const std::string& where, const char* of_what) {
  if (!list.is_array() || list.size() != static_cast<std::size_t>(n))
    throw FileError(fmt::format(
        "{} is {}, expected {} entries, one per {} of the model", where,
        list.is_array() ? fmt::format("a list of {}", list.size()) : shown_value(list), n, of_what));
}

}  // namespace

std::vector<std::int64_t> read_budget_file(const std::string& path, const capture::ModelConfig& config) {
  const nlohmann::json json = parse_json(TextInput(path).read_all(), 2);
  if (json.is_discarded())
    throw FileError(fmt::format("{}: a JSON array of budgets is expected, such as [512, [256, 128]]", path));
  require_size(json, config.n_layers, path, "layer");
  std::vector<std::int64_t> budgets;
  for (std::size_t layer = 0; layer < json.size(); ++layer) {
    const nlohmann::json& entry = json[layer];
    const std::string where = fmt::format("{}: entry {}", path, layer);
    if (entry.is_array()) require_size(entry, config.n_kv_heads, where, "KV head");
    for (int head = 0; head < config.n_kv_heads; ++head)
      budgets.push_back(read_budget(entry.is_array() ? entry[head] : entry, where));
  }
  return budgets;
}

}  // namespace keyscope::commands
