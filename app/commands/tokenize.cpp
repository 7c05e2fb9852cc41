#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/errors.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/text_input.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::commands {
namespace {

using nlohmann::json;

struct TokenizeArguments {
  std::string model;
  std::optional<std::string> prompt, prompt_file;
  bool lines = false;
  bool decode = false;
  bool special = false;
};

// Bytes that are no UTF-8 become U+FFFD.
void print_json(const json& value) {
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  // A reader at the other end of a pipe gets each line as soon as it is there.
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0) throw Error("standard output: could not be written");
}

// Input as a message may show it: as a JSON string, so that nothing in it reaches the terminal raw.
std::string excerpt(const std::string& text) {
  constexpr std::size_t kMost = 60;
  if (text.empty()) return "nothing";
  const std::string shown = json(text.substr(0, kMost)).dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= kMost ? shown : shown + "…";
}

std::string read_string(const std::string& text, const std::string& where) {
  json value = json::parse(text, nullptr, false);
  if (!value.is_string())
    throw FileError(fmt::format("{}: found {}, expected one JSON string, such as \"The magic number\"", where,
                                excerpt(text)));
  return value.get<std::string>();
}

std::vector<std::int32_t> read_ids(const std::string& text, const std::string& where,
                                   std::int64_t vocab_size) {
  const json value = json::parse(text, nullptr, false);
  if (!value.is_array())
    throw FileError(fmt::format("{}: found {}, expected a JSON array of token ids, such as [1, 80, 147]",
                                where, excerpt(text)));
  std::vector<std::int32_t> ids;
  ids.reserve(value.size());
  for (const json& entry : value) {
    // Compared as unsigned, so that no number beyond int64 passes for a small one.
    if (!entry.is_number_unsigned() || entry.get<std::uint64_t>() >= static_cast<std::uint64_t>(vocab_size))
      throw FileError(fmt::format("{}: entry {} is {}, expected a token id from 0 to {}", where, ids.size(),
                                  entry.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 60),
                                  vocab_size - 1));
    ids.push_back(entry.get<std::int32_t>());
  }
  return ids;
}

json convert_line(const TokenizeArguments& arguments, const tokenizer::Tokenizer& tokenizer,
                  const std::string& line, const std::string& where) {
  if (!arguments.decode) return tokenizer.encode(read_string(line, where), arguments.special);
  return tokenizer.decode(read_ids(line, where, tokenizer.vocab_size()), !arguments.special);
}

void check_usage(const TokenizeArguments& arguments) {
  if (arguments.lines && arguments.prompt)
    throw UsageError("--lines reads stdin or --prompt-file; it does not go with --prompt");
  if (!arguments.lines && !arguments.decode && !arguments.prompt && !arguments.prompt_file)
    throw UsageError("a text is needed: --prompt, --prompt-file or --lines");
}

void run_tokenize(const TokenizeArguments& arguments) {
  check_usage(arguments);
  const auto tokenizer = tokenizer::Tokenizer::load(arguments.model);
  if (arguments.prompt) require_utf8(*arguments.prompt, "--prompt");
  if (arguments.prompt && !arguments.decode)
    return print_json(tokenizer->encode(*arguments.prompt, arguments.special));
  if (arguments.prompt) return print_json(convert_line(arguments, *tokenizer, *arguments.prompt, "--prompt"));

  TextInput input(arguments.prompt_file.value_or("-"));
  if (arguments.lines) {
    std::string line;
    for (std::int64_t n = 1; std::getline(input.stream(), line); ++n)
      print_json(convert_line(arguments, *tokenizer, line, fmt::format("{}, line {}", input.name(), n)));
    return input.check();
  }
  const std::string text = input.read_all();
  print_json(arguments.decode ? convert_line(arguments, *tokenizer, text, input.name())
                              : json(tokenizer->encode(text, arguments.special)));
}

}  // namespace

void add_tokenize(CLI::App& app) {
  auto arguments = std::make_shared<TokenizeArguments>();
  CLI::App* command = app.add_subcommand("tokenize", "The token ids of a text, and back");
  command->add_option("--model", arguments->model, "A model folder; only its tokenizer.json is needed")
      ->required();
  auto* text = command->add_option("--prompt", arguments->prompt, "The text itself (with --decode, the ids)");
  command->add_option("--prompt-file", arguments->prompt_file, "A UTF-8 text file; - is stdin")
      ->excludes(text);
  command->add_flag("--lines", arguments->lines,
                    "One JSON string a line in, one JSON array of ids a line out");
  command->add_flag("--decode", arguments->decode,
                    "The other way: JSON arrays of ids in (by default from stdin), JSON strings out");
  command->add_flag("--special", arguments->special,
                    "Add the model's special tokens (begin of text and the like); with --decode, show them");
  command->footer(
      "Example:\n"
      "  keyscope tokenize --model assets/demo_model --prompt \"The magic number\"");
  command->callback([arguments] { run_tokenize(*arguments); });
}

}  // namespace keyscope::commands
