#include "app/session/live_request.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <exception>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/inputs.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "capture/gguf/gguf.hpp"
#include "capture/model/model_cache.hpp"

namespace keyscope::session {

namespace fs = std::filesystem;

namespace {

//   throws FileError where it cannot be read or is no UTF-8
std::string read_prompt(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    throw FileError(fmt::format("{}: this is no file; expected a text", path.string()));
  std::string text = read_file(path);
  if (!is_utf8(text))
    throw FileError(fmt::format("{}: found bytes that are no UTF-8; expected a UTF-8 text", path.string()));
  return text;
}

std::vector<std::int32_t> prompt_ids(const capture::Model& model, const LiveRequest& request) {
  std::vector<std::int32_t> ids = request.options.prompt_ids;
  if (ids.empty()) {
    const tokenizer::Tokenizer& tokenizer =
        model.folder_tokenizer().require("give the prompt as --prompt-ids");
    const std::string text = request.prompt_file.empty() ? request.prompt : read_prompt(request.prompt_file);
    ids = tokenizer::encode_prompt(tokenizer, model.folder(), text, request.form);
  }
  if (request.max_tokens && static_cast<std::int64_t>(ids.size()) > *request.max_tokens)
    ids.resize(*request.max_tokens);
  return ids;
}

}  // namespace

LiveCapture make_live_capture(LiveRequest request) {
  return [request = std::move(request)](std::span<recording::RecordSink* const> sinks,
                                        capture::CaptureControl& control) {
    note_input(request.prompt_file);
    const fs::path folder = capture::find_model(request.model_folder);
    note_named_input(folder);
    std::unique_ptr<recording::RecordSink> file;  // made first: an existing file is refused before any work
    if (!request.out.empty()) file = recording::make_recording_writer(request.out, request.replace);
    const auto model = capture::Model::load(folder, request.model);
    capture::CaptureOptions options = request.options;
    options.prompt_ids = prompt_ids(*model, request);
    std::vector<recording::RecordSink*> all(sinks.begin(), sinks.end());
    if (file) all.push_back(file.get());
    capture::run_capture(*model, options, all, control);
  };
}

namespace {

std::string model_problem(const fs::path& named) {
  std::error_code error;
  if (named.empty()) return "name a model folder, or drop one on the window";
  fs::path folder;
  try {
    folder = capture::find_model(named.string());
  } catch (const FileError& missing) {
    const std::string_view what = missing.what(), name = named.native();
    if (named.is_absolute() || name.starts_with('.')) return "there is no such folder";
    return std::string(what.starts_with(name) ? what.substr(std::min(name.size() + 2, what.size())) : what);
  }
  if (gguf::is_gguf(folder)) return {};
  if (!fs::is_directory(folder, error)) return "there is no such folder";
  if (!fs::is_regular_file(folder / "config.json", error)) return "no model: there is no config.json in it";
  return {};
}

std::string prompt_problem(const LiveRequest& request) {
  std::error_code error;
  if (!request.options.prompt_ids.empty()) return {};
  if (!request.prompt_file.empty()) {
    if (fs::is_regular_file(request.prompt_file, error)) return {};
    return fs::exists(request.prompt_file, error) ? "this is no file" : "there is no such file";
  }
  return request.prompt.empty() ? "write a prompt, or drop a text file on the window" : std::string();
}

// Text as editors write it has no zero bytes; HDF5, safetensors and pictures have some at once.
bool looks_like_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 4096> start{};
  file.read(start.data(), start.size());
  const auto n = static_cast<std::size_t>(file.gcount());
  return n > 0 && std::find(start.begin(), start.begin() + static_cast<std::ptrdiff_t>(n), '\0') ==
                      start.begin() + static_cast<std::ptrdiff_t>(n);
}

}  // namespace

std::string LiveProblems::first() const {
  for (const std::string* problem : {&model, &prompt, &policies, &budget, &block, &generate, &out})
    if (!problem->empty()) return *problem;
  return {};
}

std::string known_answer(const fs::path& prompt_file) {
  if (prompt_file.empty()) return {};
  try {
    for (const auto& prompt : parse_json(read_small_file(prompt_file.parent_path() / "prompts.json")))
      if (prompt.at("file") == prompt_file.filename().string()) return prompt.at("expected");
  } catch (const std::exception&) {
    // There is no such list: most prompts have none.
  }
  return {};
}

LiveRequest demo_request() {
  const fs::path model = assets_folder() / "demo_model";
  LiveRequest request;
  request.model_folder = model;
  request.prompt_file = model / "prompts/needle.txt";
  for (const char* policy : {"none", "keydiff", "snapkv", "sink"})
    request.options.policies.push_back({policy, {}});
  request.options.budget = analysis::Budget::of_share(0.25);
  request.options.block_size = 64;
  request.options.generate = 10;
  request.options.record_values = true;
  request.options.schedule = capture::Schedule::kTogether;
  request.options.answer = known_answer(request.prompt_file);
  return request;
}

// The command is quoted as quote_word does it.
std::string model_of(const recording::RecordingInfo& info) {
  constexpr std::string_view kOption = " --model ";
  const std::string& command = info.provenance.command;
  std::size_t at = command.find(kOption);
  if (at == std::string::npos) return {};
  std::string word;
  bool quoted = false;
  for (at += kOption.size(); at < command.size() && (quoted || command[at] != ' '); ++at) {
    if (command[at] == '\'')
      quoted = !quoted;
    else if (command[at] == '\\' && !quoted && at + 1 < command.size())
      word += command[++at];
    else
      word += command[at];
  }
  return word;
}

std::vector<std::string> suggested_models(std::string_view typed) {
  constexpr std::size_t kMost = 4;
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  std::vector<std::string> suggested;
  if (typed.empty() || model_problem(std::string(typed)).empty()) return suggested;
  for (const std::string& name : capture::cached_models())
    if (suggested.size() < kMost && !std::ranges::search(name, typed, same).empty())
      suggested.push_back(name);
  return suggested;
}

LiveProblems check_live(const LiveRequest& request) {
  LiveProblems problems;
  std::error_code error;
  const auto& options = request.options;
  problems.model = model_problem(request.model_folder);
  problems.prompt = prompt_problem(request);
  if (options.policies.empty()) problems.policies = "choose at least one";
  const bool evicts =
      std::ranges::any_of(options.policies, [](const auto& policy) { return policy.name != "none"; });
  if (evicts && !options.budget.is_given() && options.budgets.empty())
    problems.budget = "rows such as 256, or a share such as 25%";
  if (options.block_size < 1) problems.block = "at least 1";
  if (options.generate < 0) problems.generate = "0 or more";
  if (!request.out.empty() && !request.replace && fs::exists(request.out, error))
    problems.out =
        fmt::format("exists already; free: {}, or tick Replace", free_name(request.out).filename().string());
  if (!request.out.empty() && fs::is_directory(request.out, error))
    problems.out = "this is a folder; name a file";
  return problems;
}

PromptCounter::PromptCounter(std::function<void()> wake)
    : wake_(std::move(wake)), thread_([this] { run(); }) {}

PromptCounter::~PromptCounter() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  asked_.notify_one();
  thread_.join();
}

std::optional<std::int64_t> PromptCounter::count(const LiveRequest& request) {
  if (const auto n = std::ssize(request.options.prompt_ids); n > 0)
    return std::min<std::int64_t>(n, request.max_tokens.value_or(n));
  Prompt prompt{request.model_folder, request.prompt_file, request.prompt, request.form, request.max_tokens};
  const std::scoped_lock lock(mutex_);
  if (counted_ == prompt) return n_tokens_;
  if (wanted_ != prompt) {
    wanted_ = std::move(prompt);
    asked_.notify_one();
  }
  return std::nullopt;
}

std::int64_t PromptCounter::count_tokens(const Prompt& prompt, const tokenizer::FolderTokenizer& tokenizer) {
  const std::string text = prompt.file.empty() ? prompt.text : read_prompt(prompt.file);
  const auto n = std::ssize(tokenizer::encode_prompt(
      tokenizer.require("text is counted"), capture::find_model(prompt.model.string()), text, prompt.form));
  return std::min<std::int64_t>(n, prompt.most.value_or(n));
}

void PromptCounter::run() {
  fs::path model;
  tokenizer::FolderTokenizer tokenizer;  // of `model`: loading one takes longer than most prompts
  std::unique_lock lock(mutex_);
  while (true) {
    asked_.wait(lock, [this] { return ends_ || (wanted_ && wanted_ != counted_); });
    if (ends_) return;
    const Prompt prompt = *wanted_;
    lock.unlock();
    std::optional<std::int64_t> n_tokens;
    try {
      if (prompt.model != model)
        tokenizer = tokenizer::FolderTokenizer(capture::find_model(prompt.model.string()));
      model = prompt.model;
      n_tokens = count_tokens(prompt, tokenizer);
    } catch (const std::exception&) {
      // Not to be counted: no such model yet, a prompt that is no text. What is wrong is said elsewhere.
    }
    lock.lock();
    counted_ = prompt;
    n_tokens_ = n_tokens;
    lock.unlock();
    wake_();
    lock.lock();
  }
}

DroppedKind kind_of_dropped(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    return fs::is_regular_file(path / "config.json", error) ? DroppedKind::kModel : DroppedKind::kRecording;
  if (!fs::is_regular_file(path, error)) return DroppedKind::kRecording;
  const std::string extension = path.extension().string();
  for (const char* recording : {".h5", ".hdf5", ".nxs", ".part"})
    if (extension == recording) return DroppedKind::kRecording;
  return looks_like_text(path) ? DroppedKind::kPrompt : DroppedKind::kRecording;
}

}  // namespace keyscope::session
