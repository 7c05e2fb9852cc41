#include "app/validation/validation.hpp"

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/validation/measure_prompt.hpp"

namespace keyscope::validation {
namespace {

// Tokens that pass through the model for one prompt.
std::int64_t work_of(const Settings& settings, const Prompt& prompt) {
  return std::ssize(prompt.ids) * std::ssize(settings.policies);
}

// A prompt whose result is still missing.
struct Task {
  const Prompt* prompt;
  std::string key;
};

PromptRecord read_back(const ResultFolder& folder, const std::string& key) {
  auto record = folder.find(key);
  if (!record)
    throw FileError(fmt::format("{}: a prompt's result has gone", folder.file("prompts").string()));
  return *std::move(record);
}

}  // namespace

std::vector<PromptRecord> measure_prompts(const capture::Model& model, const Settings& settings,
                                          std::span<const Prompt> prompts, const ResultFolder& folder,
                                          bool keep_recordings, const ValidationWatch& watch) {
  const auto json = settings_json(settings);
  std::vector<std::string> keys;
  std::vector<Task> tasks;
  std::int64_t total = 0, done = 0;
  for (const Prompt& prompt : prompts) {
    keys.push_back(prompt_key(json, prompt.ids));
    if (folder.find(keys.back())) continue;
    tasks.push_back({&prompt, keys.back()});
    total += work_of(settings, prompt);
  }
  std::size_t n_measured = prompts.size() - tasks.size();
  watch.control.on_progress = [&](const capture::CaptureProgress& now) {
    watch.on_progress(done + now.tokens_done, total,
                      fmt::format("prompt {} of {}, {}", n_measured + 1, prompts.size(), now.run));
  };
  try {
    for (const Task& task : tasks) {
      const auto file = keep_recordings ? folder.recording(task.key) : std::filesystem::path();
      folder.save(measure_prompt(model, settings, *task.prompt, file, watch.control, watch.cancelled));
      done += work_of(settings, *task.prompt);
      ++n_measured;
    }
  } catch (const Cancelled&) {
    throw Cancelled(fmt::format("interrupted; {} of {} prompts are measured, and the same command goes on",
                                n_measured, prompts.size()));
  }
  std::vector<PromptRecord> records;
  for (const std::string& key : keys) records.push_back(read_back(folder, key));
  return records;
}

}  // namespace keyscope::validation
