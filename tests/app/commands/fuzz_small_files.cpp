// libFuzzer target: the small files of JSON that this program writes and reads again, and that anyone may
// have written: experiments, settings, results of earlier runs, claims of other workers, and what recordings
// and figure files hold as text. The input's first byte says which of them the rest is.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "app/figures/figure.hpp"
#include "app/figures/labels.hpp"
#include "app/grid/experiment.hpp"
#include "app/measures/answer.hpp"
#include "app/measures/evidence_loss.hpp"
#include "app/results/out_folder.hpp"
#include "app/session/live_request.hpp"
#include "app/session/recent_files.hpp"
#include "app/session/remembered.hpp"
#include "app/sweep/work_claims.hpp"
#include "app/validation/prompt_record.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "tests/support/fuzzed.hpp"
#include "tests/support/scratch_folder.hpp"

namespace {

namespace fs = std::filesystem;
using namespace keyscope;

void write(const fs::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush()) std::abort();
}

void read_figure(std::string_view text) {
  const nlohmann::json json = parse_json_object(text, "a figure");
  const nlohmann::json again = figures::figure_to_json(figures::figure_from_json({json, "a figure", ""}));
  try {
    if (figures::figure_to_json(figures::figure_from_json({again, "a figure", ""})) != again) std::abort();
  } catch (const FileError&) {
    std::abort();  // what was written can be read
  }
}

void read_record(std::string_view text) {
  const auto record = validation::parse_prompt_record(text, "a record");
  if (!is_digest(record.key, 64)) std::abort();  // a file is named by it
  const std::string again = json_text(validation::prompt_record_json(record));
  if (json_text(validation::prompt_record_json(validation::parse_prompt_record(again, "a record"))) != again)
    std::abort();
}

// What the window remembers: of a recording, an arrangement by name, and which files were opened.
void read_settings(std::string_view text) {
  static const test::ScratchFolder folder;
  static const fs::path view = [] {
    session::remember_view(folder.path(), "/recording.h5", {});
    return fs::directory_iterator(folder.path())->path();
  }();
  write(view, text);
  if (const auto recalled = session::recall_view(folder.path(), "/recording.h5"))
    session::remember_view(folder.path(), "/recording.h5", *recalled);
  write(folder.file("mine.json"), text);
  if (const auto arrangement = session::read_arrangement(folder.path(), "mine"))
    if (arrangement->views.empty()) std::abort();
  if (session::read_recent(view).size() > session::kMostRecent) std::abort();
  write(folder.file("prompts.json"), text);
  session::known_answer(folder.file("needle.txt"));
}

void read_out_folder(std::string_view text) {
  static const test::ScratchFolder folder;
  write(folder.file("settings.json"), text);
  const nlohmann::ordered_json settings{{"format", 3}, {"task", "niah"}, {"blocks", {64}}};
  test::read_or_refuse([&] { results::OutFolder(folder.path(), settings, "evaluation", false); });
  results::OutFolder(folder.path(), settings, "evaluation", true).goes_on();
}

void read_claim(std::string_view text) {
  static const test::ScratchFolder folder;
  write(folder.file("batch"), text);
  sweep::Claims claims(folder.path(), sweep::WorkerIdentity::of_this_process(), std::chrono::hours(1));
  claims.claim("batch");
  claims.claim("batch");
}

// As `configuration` and `parameters` of a recording.
void read_recorded(std::string_view text) {
  recording::RecordingInfo info;
  info.provenance.configuration = text;
  info.prompt = {{1, 2, 3, 4}, "abcd", {0, 1, 2, 3, 4}};
  measures::right_answer(info);
  for (const std::int32_t token : measures::evidence_tokens(info))
    if (token < 0 || token >= info.n_prompt()) std::abort();
  for (const char* parameters : {"{}", "{\"first\": 4}", ""}) {
    recording::RunInfo run;
    run.plan.policy = "sink";
    run.plan.parameters = *parameters == 0 ? std::string(text) : parameters;
    info.runs.push_back(run);
  }
  figures::name_runs(info, {0, 1, 2});
  recording::policy_options(info.runs.back().plan);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return test::by_first_byte(data, size, [](char kind, std::string_view rest) {
    switch (kind) {
      case 'x':
        grid::read_experiment(test::MemoryFile(rest).path());
        return;
      case 'f':
        return read_figure(rest);
      case 'v':
        return read_record(rest);
      case 's':
        return read_settings(rest);
      case 'o':
        return read_out_folder(rest);
      case 'c':
        return read_claim(rest);
      case 'e':
        return read_recorded(rest);
      default:
        return;
    }
  });
}
