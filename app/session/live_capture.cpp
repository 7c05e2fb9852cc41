#include "app/session/live_capture.hpp"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "analysis/errors.hpp"
#include "capture/recording/writer.hpp"

namespace keyscope::session {
namespace {

std::vector<std::int32_t> prompt_ids(const capture::Model& model, const LiveRequest& request) {
  std::vector<std::int32_t> ids = request.options.prompt_ids;
  if (ids.empty()) {
    if (model.tokenizer() == nullptr)
      throw FileError(fmt::format("{}: there is no tokenizer.json, so text cannot be read; give --prompt-ids",
                                  model.folder().string()));
    ids = tokenizer::encode_prompt(*model.tokenizer(), model.folder(), request.prompt, request.form);
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
