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

#include "analysis/matrix_view.hpp"
#include "analysis/policies/qfilters.hpp"
#include "analysis/policies/unrotated.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "app/measures/head_data.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "capture/model/recorded_attention.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::commands {
namespace {

using recording::RecordingInfo;

struct CalibrateArguments {
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

//   what: is made of queries, for messages: "filters"
void check_source(const QuerySource& source, const char* what) {
  const recording::RecordingInfo& info = *source.info;
  if (source.run < 0)
    throw FileError(fmt::format(
        "{}: there is no finished run that kept everything; queries are those of the run none: capture with "
        "--policy none",
        info.source));
  if (!info.queries)
    throw FileError(fmt::format(
        "{}: queries were not recorded, and {} are made of them; capture with --record keys,queries",
        info.source, what));
  if (!info.heads.all())
    throw FileError(
        fmt::format("{}: only the queries of KV heads {} were recorded, and {} are of every head; capture "
                    "without --heads",
                    info.source, shown_list(info.heads.kv_heads), what));
  std::vector<int> missing;
  const std::vector<int> recorded = info.all_layers();
  for (int layer = 0; layer < info.model.n_layers; ++layer)
    if (!std::ranges::binary_search(recorded, layer)) missing.push_back(layer);
  if (!missing.empty())
    throw FileError(fmt::format(
        "{}: layer{} {} of the model's {} {} not recorded, and {} are of every layer; capture without "
        "--layers",
        info.source, missing.size() == 1 ? "" : "s", shown_list(missing), info.model.n_layers,
        missing.size() == 1 ? "was" : "were", what));
}

std::vector<QuerySource> open_sources(const std::vector<std::string>& files, const char* what) {
  std::vector<QuerySource> sources;
  for (const std::string& file : files) {
    const auto recording = recording::open_recording(file);
    const auto info = recording->info();
    sources.push_back({recording, info, measures::full_cache_run(*info)});
    check_source(sources.back(), what);
    const recording::RecordingInfo& first = *sources.front().info;
    if (info->model.config != first.model.config ||
        info->provenance.model_sha256 != first.provenance.model_sha256)
      throw FileError(
          fmt::format("{}: is of the model {}, and {} of {}, or of other weights; {} are of one model",
                      info->source, info->model.name, first.source, first.model.name, what));
  }
  return sources;
}

// Goes through what all sources hold of each KV head.
class Calibration {
 public:
  Calibration(const std::vector<QuerySource>& sources, bool quiet)
      : sources_(sources), info_(*sources.front().info), progress_("heads", quiet) {
    for (const int layer : info_.layers) n_heads_ += info_.model.heads(layer).n_kv_heads;
  }
  Calibration(const Calibration&) = delete;
  Calibration& operator=(const Calibration&) = delete;
  virtual ~Calibration() = default;

  // As the policy reads it; a layer without keys has an empty list.
  std::string json() {
    std::vector<std::string> layers;
    for (int layer = 0; layer < info_.model.n_layers; ++layer) {
      std::vector<std::string> heads;
      for (int head = 0; info_.has_keys(layer) && head < info_.model.heads(layer).n_kv_heads; ++head) {
        heads.push_back(entry(layer, head));
        progress_.update(++n_done_, n_heads_, fmt::format("layer {}", layer));
      }
      layers.push_back(fmt::format("[{}]", fmt::join(heads, ",\n ")));
    }
    progress_.clear();
    return fmt::format("[{}]\n", fmt::join(layers, ",\n"));
  }

  std::int64_t n_heads() const { return n_heads_; }

 protected:
  // What the file says of a KV head, as JSON.
  virtual std::string entry(int layer, int kv_head) = 0;

  const RecordingInfo& info() const { return info_; }

  // Calls `add` for every source. What it refuses is told with its place.
  template <typename Add>
  void for_each_source(int layer, int query_head, const Add& add) {
    for (const QuerySource& source : sources_) {
      if (cancelled_) throw Cancelled("interrupted; nothing was written");
      try {
        add(source);
      } catch (const InvalidInput& error) {
        throw FileError(fmt::format("{}: layer {}, query head {}: {}", source.info->source, layer, query_head,
                                    error.what()));
      }
    }
  }

 private:
  const std::vector<QuerySource>& sources_;
  const RecordingInfo& info_;
  Progress progress_;
  std::atomic<bool> cancelled_ = false;
  OnInterrupt on_interrupt_{[this] { cancelled_ = true; }};
  std::int64_t n_heads_ = 0, n_done_ = 0;
};

class FilterMaker final : public Calibration {
 public:
  using Calibration::Calibration;

  // Of what `json` went through: the share of the queries that their direction makes out, mean over KV heads.
  double share() const { return shares_ / static_cast<double>(n_heads()); }

 private:
  std::string entry(int layer, int kv_head) override {
    const int group = info().model.group_size(layer);
    analysis::QueryDirections directions(group, info().model.heads(layer).head_dim);
    for (int head = 0; head < group; ++head) {
      const int query_head = kv_head * group + head;
      for_each_source(layer, query_head, [&](const QuerySource& source) {
        directions.add(head, source.recording->queries(source.run, layer, query_head));
      });
    }
    try {
      const Eigen::VectorXf filter = directions.filter().cast<float>();
      shares_ += directions.share();
      return fmt::format("[{}]", fmt::join(filter, ", "));
    } catch (const InvalidInput& error) {
      throw FileError(
          fmt::format("{}: layer {}, KV head {}: {}", info().source, layer, kv_head, error.what()));
    }
  }

  double shares_ = 0;
};

// Queries of the prompt, as they were before they turned.
class MeansMaker final : public Calibration {
 public:
  using Calibration::Calibration;

 private:
  std::string entry(int layer, int kv_head) override {
    const int group = info().model.group_size(layer);
    std::vector<std::string> heads;
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      analysis::QueryMoments moments;
      for_each_source(layer, head, [&](const QuerySource& source) {
        const capture::RecordedRope rope(*source.info, source.run, layer);
        const RowMatrixF queries =
            source.recording->queries(source.run, layer, head, 0, source.info->n_prompt());
        analysis::require_finite(queries, "queries");
        moments.add(rope.unrotated(queries, 0), rope.rotation());
      });
      const Eigen::VectorXf mean = moments.mean().cast<float>(), moduli = moments.mean_moduli().cast<float>();
      heads.push_back(fmt::format(R"({{"mean": [{}],
    "moduli": [{}]}})",
                                  fmt::join(mean, ", "), fmt::join(moduli, ", ")));
    }
    return fmt::format("[{}]", fmt::join(heads, ",\n  "));
  }
};

void check_output(const CalibrateArguments& arguments) {
  if (arguments.out.is_stdout()) return;
  output_path(arguments.out.path, arguments.out.replace);
}

// "81 queries of each query head in 2 recordings".
std::string queries_text(const std::vector<QuerySource>& sources, std::int64_t n_queries) {
  return fmt::format("{} of each query head in {}",
                     n_queries == 1 ? "1 query" : format_count(n_queries) + " queries",
                     counted(std::ssize(sources), "recording"));
}

void run_filters(const CalibrateArguments& arguments) {
  check_output(arguments);
  const std::vector<QuerySource> sources = open_sources(arguments.files, "filters");
  FilterMaker maker(sources, arguments.quiet);
  write_text(arguments.out, maker.json());
  if (arguments.out.is_stdout()) return;
  std::int64_t n_queries = 0;
  for (const QuerySource& source : sources) n_queries += source.n_queries();
  say("{}: filters of {}, from {}; {:.0f} % of the queries' squared lengths lie along their head's "
      "direction\n",
      arguments.out.path, counted(maker.n_heads(), "KV head"), queries_text(sources, n_queries),
      100 * maker.share());
}

void run_means(const CalibrateArguments& arguments) {
  check_output(arguments);
  const std::vector<QuerySource> sources = open_sources(arguments.files, "means");
  MeansMaker maker(sources, arguments.quiet);
  write_text(arguments.out, maker.json());
  if (arguments.out.is_stdout()) return;
  std::int64_t n_queries = 0;
  for (const QuerySource& source : sources) n_queries += source.info->n_prompt();
  say("{}: means of queries for {}, from {}\n", arguments.out.path, counted(maker.n_heads(), "KV head"),
      queries_text(sources, n_queries));
}

using Run = void (*)(const CalibrateArguments&);

void add_one(CLI::App& calibrate, const char* policy, const char* about, const char* out, Run run) {
  auto arguments = std::make_shared<CalibrateArguments>();
  CLI::App* command = calibrate.add_subcommand(policy, about);
  command
      ->add_option(
          "FILES", arguments->files,
          "Recordings of one model, whose queries count together: those of the run none, of all layers")
      ->required();
  command->add_option("--out", arguments->out.path, fmt::format("Write the {} as JSON; - for stdout", out))
      ->required();
  command->add_flag("--force", arguments->out.replace, "Replace an existing file");
  add_quiet(*command, arguments->quiet);
  command->footer(fmt::format("Example:\n  keyscope calibrate {} needle.h5 --out {}.json", policy, out));
  command->callback([arguments, run] { run(*arguments); });
}

}  // namespace

void add_calibrate(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("calibrate", "What policies need that is found out of recordings beforehand");
  command->require_subcommand(1);
  add_one(*command, "qfilters",
          "The filters of policy qfilters: the direction that each head's queries have in common", "filters",
          run_filters);
  add_one(*command, "triattention",
          "The means of policy triattention: of each query head's queries before RoPE, and of their lengths",
          "means", run_means);
}

}  // namespace keyscope::commands
