#include "app/validation/prompts_file.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "capture/model/strict_json.hpp"

namespace keyscope::validation {
namespace {

using nlohmann::json;

// Of the words that people recognise a prompt by.
constexpr std::size_t kShownTokens = 40;

std::string text_field(const json& row, const char* field, const std::string& where) {
  if (!row[field].is_string())
    throw FileError(fmt::format("{}: \"{}\" is {}; expected a text", where, field, row[field].type_name()));
  return row[field].get<std::string>();
}

std::vector<std::int32_t> ids_field(const json& row, const std::string& where) {
  if (!row["ids"].is_array())
    throw FileError(fmt::format("{}: \"ids\" is {}; expected an array of token ids, such as [1, 80, 147]",
                                where, row["ids"].type_name()));
  std::vector<std::int32_t> ids;
  for (const json& entry : row["ids"]) {
    const bool fits =
        entry.is_number_integer() && entry >= 0 && entry <= std::numeric_limits<std::int32_t>::max();
    if (!fits)
      throw FileError(fmt::format("{}: entry {} of \"ids\" is {}; expected a token id (an integer from 0)",
                                  where, ids.size(), capture::shown(entry.dump())));
    ids.push_back(entry.get<std::int32_t>());
  }
  return ids;
}

std::vector<std::int32_t> read_ids(const json& row, const tokenizer::Tokenizer* tokenizer,
                                   const std::string& where) {
  const bool text = row.contains("prompt"), ids = row.contains("ids");
  if (text == ids)
    throw FileError(fmt::format(
        "{}: {}; expected one of \"prompt\" (a text) and \"ids\" (token ids)", where,
        text ? "both \"prompt\" and \"ids\" are there" : "neither \"prompt\" nor \"ids\" is there"));
  if (ids) return ids_field(row, where);
  const std::string prompt = text_field(row, "prompt", where);
  if (prompt.empty()) throw FileError(fmt::format("{}: \"prompt\" is empty; expected a text", where));
  if (tokenizer == nullptr)
    throw FileError(
        fmt::format("{}: \"prompt\" is a text, and the model's folder has no tokenizer.json; "
                    "expected \"ids\"",
                    where));
  return tokenizer->encode(prompt, true);
}

void check_ids(const std::vector<std::int32_t>& ids, const capture::ModelConfig& model,
               const std::string& where) {
  if (ids.empty())
    throw FileError(fmt::format("{}: the prompt is empty; expected at least one token", where));
  if (std::ssize(ids) > model.context_length)
    throw FileError(
        fmt::format("{}: the prompt has {} tokens, and the model's context is {}; shorten it, or all of them "
                    "with --max-tokens",
                    where, ids.size(), model.context_length));
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] >= model.vocab_size)
      throw FileError(fmt::format("{}: prompt token {} is id {}, and the model's vocabulary has ids 0 to {}",
                                  where, i, ids[i], model.vocab_size - 1));
}

Prompt read_row(const std::string& text, std::int64_t line, const std::string& where,
                const capture::ModelConfig& model, const tokenizer::Tokenizer* tokenizer,
                std::optional<std::int64_t> max_tokens) {
  if (text.find_first_not_of(" \t\r") == std::string::npos)
    throw FileError(fmt::format("{}: the line is empty; expected a JSON object with \"prompt\"", where));
  const json row = capture::parse_json_object(text, where);
  Prompt prompt;
  prompt.line = line;
  prompt.name = row.contains("name") ? text_field(row, "name", where) : fmt::format("line {}", line);
  prompt.ids = read_ids(row, tokenizer, where);
  if (max_tokens && std::ssize(prompt.ids) > *max_tokens)
    prompt.ids.resize(static_cast<std::size_t>(*max_tokens));
  check_ids(prompt.ids, model, where);
  if (tokenizer != nullptr)
    prompt.beginning =
        tokenizer->decode(std::span(prompt.ids).first(std::min(prompt.ids.size(), kShownTokens)), true);
  return prompt;
}

std::ifstream open(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw FileError(fmt::format("{}: found a folder, expected a file of prompts", path.string()));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FileError(fmt::format("{}: cannot be read; is the path right?", path.string()));
  return file;
}

}  // namespace

std::vector<Prompt> read_prompts(const std::filesystem::path& path, const capture::ModelConfig& model,
                                 const tokenizer::Tokenizer* tokenizer,
                                 std::optional<std::int64_t> max_tokens) {
  std::ifstream file = open(path);
  std::vector<Prompt> prompts;
  std::map<std::vector<std::int32_t>, std::int64_t> seen;  // on which line
  std::string text;
  for (std::int64_t line = 1; std::getline(file, text); ++line) {
    const std::string where = fmt::format("{}, line {}", path.string(), line);
    prompts.push_back(read_row(text, line, where, model, tokenizer, max_tokens));
    const auto [first, is_new] = seen.emplace(prompts.back().ids, line);
    if (!is_new)
      throw FileError(
          fmt::format("{}: the same tokens as on line {}, which would count twice; expected every "
                      "prompt once",
                      where, first->second));
  }
  if (file.bad()) throw FileError(fmt::format("{}: could not be read to its end", path.string()));
  if (prompts.empty())
    throw FileError(fmt::format("{}: there is no prompt; expected a JSON object a line", path.string()));
  return prompts;
}

}  // namespace keyscope::validation
