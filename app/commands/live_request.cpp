#include "app/commands/view.hpp"

#include "base/errors.hpp"
#include "app/commands/capture.hpp"
#include "capture/recording/output_path.hpp"

namespace keyscope::commands {

session::LiveRequest live_request(const CaptureCommandOptions& options, const std::string& out,
                                  bool replace) {
  session::LiveRequest live;
  live.model_folder = options.model_folder();
  live.model = options.model_options();
  live.options = options.capture_options();
  live.options.command = command_line();
  live.out = out;
  live.replace = replace;
  if (!out.empty()) recording::output_path(out, replace);
  if (live.options.block_size <= 0) throw UsageError("--block: expected 1 or more prompt tokens per block");
  live.form = options.prompt.form();
  tokenizer::check_prompt_form(live.model_folder, live.form);
  if (!options.prompt.given()) return live;
  capture::check_options(live.options);
  live.max_tokens = options.prompt.max_tokens();
  if (const auto text = options.prompt.text())
    live.prompt = *text;
  else
    live.options.prompt_ids = options.prompt.read(nullptr, live.model_folder);
  return live;
}

}  // namespace keyscope::commands
