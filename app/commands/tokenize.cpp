#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Option.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands/capture_options.hpp"
#include "app/commands/commands.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "capture/gguf/gguf.hpp"
#include "capture/model/model_cache.hpp"
#include "capture/tokenizer/chat_template.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::commands {
namespace {

using nlohmann::json;

struct TokenizeArguments {
  std::string model;
  ChatOptions chat;
  std::optional<std::string> prompt, prompt_file;
  bool lines = false;
  bool decode = false;
  bool special = false;
};

// Bytes that are no UTF-8 become U+FFFD.
void print_json(const json& value) {
  const std::string text = json_text(value) + "\n";
  // A reader at the other end of a pipe gets each line as soon as it is there.
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0) throw Error("standard output: could not be written");
}

std::string excerpt(const std::string& text) { return text.empty() ? "nothing" : shown(text); }

std::string read_string(const std::string& text, const std::string& where) {
  json value = parse_json(text);
  if (!value.is_string())
    throw FileError(fmt::format("{}: found {}, expected one JSON string, such as \"The magic number\"", where,
                                excerpt(text)));
  return value.get<std::string>();
}

// A tokenizer as the options want it used.
class Converter {
 public:
  explicit Converter(const TokenizeArguments& arguments)
      : arguments_(arguments), form_(arguments.chat.form()) {
    std::error_code error;
    const std::filesystem::path model = capture::find_model(arguments.model);
    tokenizer_ = tokenizer::Tokenizer::load(model);
    const bool is_whole = std::filesystem::is_directory(model, error) || gguf::is_gguf(model);
    const auto folder = is_whole ? model : model.parent_path();
    if (form_.chat || !form_.messages.empty()) template_ = tokenizer::ChatTemplate::load(folder);
  }

  json encode(const std::string& text) const {
    if (!template_) return tokenizer_->encode(text, arguments_.special);
    return tokenizer_->encode(tokenizer::chat_text(*template_, text, form_), false);
  }

  // A line of JSON, in the direction that was asked for.
  json convert(const std::string& line, const std::string& where) const {
    if (!arguments_.decode) return encode(read_string(line, where));
    const auto ids = tokenizer::ids_from_json(parse_json(line), where, tokenizer_->vocab_size() - 1);
    return tokenizer_->decode(ids, !arguments_.special);
  }

 private:
  const TokenizeArguments& arguments_;
  tokenizer::PromptForm form_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  std::optional<tokenizer::ChatTemplate> template_;
};

void check_usage(const TokenizeArguments& arguments) {
  if (arguments.lines && arguments.prompt)
    throw UsageError("--lines reads stdin or --prompt-file; it does not go with --prompt");
  if (!arguments.lines && !arguments.decode && !arguments.prompt && !arguments.prompt_file &&
      !arguments.chat.messages_file())
    throw UsageError("a text is needed: --prompt, --prompt-file, --messages or --lines");
}

void run_tokenize(const TokenizeArguments& arguments) {
  check_usage(arguments);
  const Converter converter(arguments);
  if (arguments.prompt) {
    require_utf8(*arguments.prompt, "--prompt");
    return print_json(arguments.decode ? converter.convert(*arguments.prompt, "--prompt")
                                       : converter.encode(*arguments.prompt));
  }

  TextInput input(arguments.chat.messages_file().value_or(arguments.prompt_file.value_or("-")));
  if (arguments.lines) {
    std::string line;
    for (std::int64_t n = 1; std::getline(input.stream(), line); ++n)
      print_json(converter.convert(line, fmt::format("{}, line {}", input.name(), n)));
    return input.check();
  }
  const std::string text = input.read_all();
  print_json(arguments.decode ? converter.convert(text, input.name()) : converter.encode(text));
}

}  // namespace

void add_tokenize(CLI::App& app) {
  auto arguments = std::make_shared<TokenizeArguments>();
  CLI::App* command = app.add_subcommand("tokenize", "The token ids of a text, and back");
  command
      ->add_option("--model", arguments->model,
                   "A model folder, or ORG/NAME[@REVISION] in the Hugging Face cache; only its "
                   "tokenizer.json is needed "
                   "(and its chat template, with --chat)")
      ->required();
  auto* text = command->add_option("--prompt", arguments->prompt, "The text itself (with --decode, the ids)");
  auto* file = command->add_option("--prompt-file", arguments->prompt_file, "A UTF-8 text file; - is stdin");
  file->excludes(text);
  auto* lines = command->add_flag("--lines", arguments->lines,
                                  "One JSON string a line in, one JSON array of ids a line out");
  auto* decode =
      command->add_flag("--decode", arguments->decode,
                        "The other way: JSON arrays of ids in (by default from stdin), JSON strings out");
  auto* special = command->add_flag(
      "--special", arguments->special,
      "Add the model's special tokens (begin of text and the like); with --decode, show them");
  // A chat template writes its special tokens itself.
  arguments->chat.add_to(*command, {text, file, lines}, {decode, special});
  command->footer(
      "Example:\n"
      "  keyscope tokenize --model assets/demo_model --prompt \"The magic number\"");
  command->callback([arguments] { run_tokenize(*arguments); });
}

}  // namespace keyscope::commands
