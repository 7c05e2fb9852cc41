#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/policies/qfilters.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "app/measures/head_data.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::commands {
namespace {

struct FilterArguments {
  std::vector<std::string> files;
  JsonTarget out{.path = {}, .option = "--out"};
  bool quiet = false;
};

// A recording whose queries count, and its run that kept everything.
struct QuerySource {
  std::shared_ptr<const recording::Recording> recording;
  std::shared_ptr<const recording::RecordingInfo> info;
  int run = -1;

  std::int64_t n_queries() const { return info->runs[run].n_tokens; }
};

void check_source(const QuerySource& source) {
  const recording::RecordingInfo& info = *source.info;
  if (source.run < 0)
    throw FileError(fmt::format(
        "{}: there is no finished run that kept everything; queries are those of the run none: capture with "
        "--policy none",
        info.source));
  if (!info.queries)
    throw FileError(info.source +
                    ": queries were not recorded, and filters are made of them; capture with --record "
                    "keys,queries");
  if (!info.heads.all())
    throw FileError(
        fmt::format("{}: only the queries of KV heads {} were recorded, and every head has a filter; capture "
                    "without --heads",
                    info.source, shown_list(info.heads.kv_heads)));
  std::vector<int> missing;
  const std::vector<int> recorded = info.all_layers();
  for (int layer = 0; layer < info.model.n_layers; ++layer)
    if (!std::ranges::binary_search(recorded, layer)) missing.push_back(layer);
  if (!missing.empty())
    throw FileError(fmt::format(
        "{}: layer{} {} of the model's {} {} not recorded, and every layer has filters; capture without "
        "--layers",
        info.source, missing.size() == 1 ? "" : "s", shown_list(missing), info.model.n_layers,
        missing.size() == 1 ? "was" : "were"));
}

std::vector<QuerySource> open_sources(const std::vector<std::string>& files) {
  std::vector<QuerySource> sources;
  for (const std::string& file : files) {
    const auto recording = recording::open_recording(file);
    const auto info = recording->info();
    sources.push_back({recording, info, measures::full_cache_run(*info)});
    check_source(sources.back());
    const recording::RecordingInfo& first = *sources.front().info;
    if (info->model.config != first.model.config ||
        info->provenance.model_sha256 != first.provenance.model_sha256)
      throw FileError(
          fmt::format("{}: is of the model {}, and {} of {}, or of other weights; filters are of "
                      "one model",
                      info->source, info->model.name, first.source, first.model.name));
  }
  return sources;
}

// Adds up what all sources hold of each KV head.
class FilterMaker {
 public:
  FilterMaker(const std::vector<QuerySource>& sources, bool quiet)
      : sources_(sources), info_(*sources.front().info), progress_("heads", quiet) {
    for (const int layer : info_.layers) n_heads_ += info_.model.heads(layer).n_kv_heads;
  }

  // As policy qfilters reads them; a layer without keys has none.
  std::string json() {
    std::vector<std::string> layers;
    for (int layer = 0; layer < info_.model.n_layers; ++layer) {
      std::vector<std::string> heads;
      for (int head = 0; info_.has_keys(layer) && head < info_.model.heads(layer).n_kv_heads; ++head) {
        heads.push_back(fmt::format("[{}]", fmt::join(filter(layer, head), ", ")));
        progress_.update(++n_done_, n_heads_, fmt::format("layer {}", layer));
      }
      layers.push_back(fmt::format("[{}]", fmt::join(heads, ",\n ")));
    }
    progress_.clear();
    return fmt::format("[{}]\n", fmt::join(layers, ",\n"));
  }

  // Of what `json` went through: the share of the queries that their direction makes out, mean over KV heads.
  double share() const { return shares_ / static_cast<double>(n_heads_); }
  std::int64_t n_heads() const { return n_heads_; }

 private:
  std::vector<float> filter(int layer, int kv_head) {
    const int group = info_.model.group_size(layer);
    analysis::QueryDirections directions(group, info_.model.heads(layer).head_dim);
    for (const QuerySource& source : sources_)
      for (int head = 0; head < group; ++head) {
        if (cancelled_) throw Cancelled("interrupted; nothing was written");
        add(source, layer, kv_head * group + head, head, directions);
      }
    try {
      const Eigen::VectorXf filter = directions.filter().cast<float>();
      shares_ += directions.share();
      return {filter.begin(), filter.end()};
    } catch (const InvalidInput& error) {
      throw FileError(
          fmt::format("{}: layer {}, KV head {}: {}", info_.source, layer, kv_head, error.what()));
    }
  }

  static void add(const QuerySource& source, int layer, int query_head, int head_of_group,
                  analysis::QueryDirections& directions) {
    try {
      directions.add(head_of_group, source.recording->queries(source.run, layer, query_head));
    } catch (const InvalidInput& error) {
      throw FileError(fmt::format("{}: layer {}, query head {}: {}", source.info->source, layer, query_head,
                                  error.what()));
    }
  }

  const std::vector<QuerySource>& sources_;
  const recording::RecordingInfo& info_;
  Progress progress_;
  std::atomic<bool> cancelled_ = false;
  OnInterrupt on_interrupt_{[this] { cancelled_ = true; }};
  std::int64_t n_heads_ = 0, n_done_ = 0;
  double shares_ = 0;
};

void run_filters(const FilterArguments& arguments) {
  if (!arguments.out.is_stdout()) output_path(arguments.out.path, arguments.out.replace);
  for (const std::string& file : arguments.files)
    if (!arguments.out.is_stdout()) refuse_same_file(recording::entry_path(file).file, arguments.out.path);
  const std::vector<QuerySource> sources = open_sources(arguments.files);
  FilterMaker maker(sources, arguments.quiet);
  write_text(arguments.out, maker.json());
  if (arguments.out.is_stdout()) return;
  std::int64_t n_queries = 0;
  for (const QuerySource& source : sources) n_queries += source.n_queries();
  say("{}: filters of {}, from {} of each query head in {}; {:.0f} % of the queries' squared lengths "
      "lie along their head's direction\n",
      arguments.out.path, counted(maker.n_heads(), "KV head"),
      n_queries == 1 ? "1 query" : format_count(n_queries) + " queries",
      counted(std::ssize(sources), "recording"), 100 * maker.share());
}

void add_filters(CLI::App& calibrate) {
  auto arguments = std::make_shared<FilterArguments>();
  CLI::App* command = calibrate.add_subcommand(
      "qfilters", "The filters of policy qfilters: the direction that each head's queries have in common");
  command
      ->add_option(
          "FILES", arguments->files,
          "Recordings of one model, whose queries count together: those of the run none, of all layers")
      ->required();
  command->add_option("--out", arguments->out.path, "Write the filters as JSON; - for stdout")->required();
  command->add_flag("--force", arguments->out.replace, "Replace an existing file");
  add_quiet(*command, arguments->quiet);
  command->footer("Example:\n  keyscope calibrate qfilters needle.h5 --out filters.json");
  command->callback([arguments] { run_filters(*arguments); });
}

}  // namespace

void add_calibrate(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("calibrate", "What policies need that is found out of recordings beforehand");
  command->require_subcommand(1);
  add_filters(*command);
}

}  // namespace keyscope::commands
