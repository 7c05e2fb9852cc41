#include "app/session/live_capture.hpp"

#include <fstream>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "capture/recording/writer.hpp"
#include "base/text.hpp"

namespace keyscope::session {
namespace {

//   throws FileError where it cannot be read or is no UTF-8
std::string read_prompt(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw FileError(fmt::format("{}: this is no file; expected a text", path.string()));
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) throw FileError(fmt::format("{}: cannot be read", path.string()));
  std::string buffer;
  if (tokenizer::replace_invalid_utf8(text, buffer).data() != text.data())
    throw FileError(fmt::format("{}: found bytes that are no UTF-8; expected a UTF-8 text", path.string()));
  return text;
}

std::vector<std::int32_t> prompt_ids(const capture::Model& model, const LiveRequest& request) {
  std::vector<std::int32_t> ids = request.options.prompt_ids;
  if (ids.empty()) {
    if (model.tokenizer() == nullptr)
      throw FileError(fmt::format("{}: there is no tokenizer.json, so text cannot be read; give --prompt-ids",
                                  model.folder().string()));
    const std::string text = request.prompt_file.empty() ? request.prompt : read_prompt(request.prompt_file);
    ids = tokenizer::encode_prompt(*model.tokenizer(), model.folder(), text, request.form);
  }
  if (request.max_tokens && static_cast<std::int64_t>(ids.size()) > *request.max_tokens)
    ids.resize(static_cast<std::size_t>(*request.max_tokens));
  return ids;
}

}  // namespace

LiveCapture make_live_capture(LiveRequest request) {
  return [request = std::move(request)](std::span<recording::RecordSink* const> sinks,
                                        capture::CaptureControl& control) {
    std::unique_ptr<recording::RecordSink> file;  // made first: an existing file is refused before any work
    if (!request.out.empty()) file = recording::make_recording_writer(request.out, request.replace);
    const auto model = capture::Model::load(request.model_folder, request.model);
    capture::CaptureOptions options = request.options;
    options.prompt_ids = prompt_ids(*model, request);
    std::vector<recording::RecordSink*> all(sinks.begin(), sinks.end());
    if (file) all.push_back(file.get());
    capture::run_capture(*model, options, all, control);
  };
}

}  // namespace keyscope::session
