#include "capture/recording/info_reader.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "capture/recording/checked_read.hpp"
#include "capture/recording/layer_rows.hpp"
#include "capture/recording/layout.hpp"
#include "capture/recording/origin.hpp"
#include "capture/recording/run_reader.hpp"

namespace keyscope::recording {
namespace {

using hdf5::ElementType;
using hdf5::Group;

// The layers that a run has recorded, ascending.
std::vector<int> find_layers(const Group& run, int n_layers) {
  constexpr std::string_view kPrefix = "layer_";
  std::vector<int> layers;
  for (const std::string& name : run.names()) {
    if (!name.starts_with(kPrefix)) continue;
    int layer = -1;
    const char* end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + kPrefix.size(), end, layer);
    if (parsed.ec != std::errc() || parsed.ptr != end || layer < 0 || layer >= n_layers ||
        layer_group_name(layer) != name)
      throw FileError(fmt::format("{}: '{}' is no layer of a model of {}", run.where(), name, n_layers));
    layers.push_back(layer);
  }
  std::sort(layers.begin(), layers.end());
  if (layers.empty()) throw FileError(run.where() + ": holds no layer");
  return layers;
}

// Of a recording that grew layer by layer and was cut short: the layers that all runs have been through, or
// the first one as far as it came.
std::vector<int> layers_to_show(const Group& runs, const std::vector<std::string>& names,
                                const std::vector<int>& layers) {
  std::vector<int> shown = layers;
  for (const std::string& name : names) {
    const Group run = runs.open_group(name);
    if (!run.has("layers_complete")) return layers;
    const auto complete = open_list(run, "layers_complete", ElementType::kInt32).read<std::int32_t>();
    std::erase_if(shown, [&](int layer) { return std::ranges::find(complete, layer) == complete.end(); });
  }
  if (shown.empty()) shown.push_back(layers.front());
  return shown;
}

// What was recorded: the first layer of the first run tells, every other one is held to it.
void find_contents(RecordingInfo& info, const Group& run) {
  info.layers = find_layers(run, info.model.n_layers);
  const Group layer = run.open_group(layer_group_name(info.layers.front()));
  info.heads = read_recorded_heads(layer, info.model.n_kv_heads);
  info.store = read_store(layer);
  info.keys = layer.has("keys");
  info.queries = layer.has("queries");
  info.values = layer.has("values");
  info.attention = layer.has("attention");
}

// The runs' names in the order in which they were recorded; where a file does not say, `none` first.
std::vector<std::string> ordered_runs(const Group& runs) {
  std::vector<std::pair<std::int64_t, std::string>> order;
  for (const std::string& name : runs.names()) {
    const Group run = runs.open_group(name);
    order.emplace_back(run.has_attribute("index") ? run.integer("index") : (name == "none" ? -1 : 0), name);
  }
  if (order.empty()) throw FileError(runs.where() + ": holds no run");
  std::sort(order.begin(), order.end());
  std::vector<std::string> names;
  for (auto& [index, name] : order) names.push_back(std::move(name));
  return names;
}

void read_runs(const Group& runs, const std::vector<std::string>& names, const OpenProgress& progress,
               RecordingInfo& info) {
  const std::int64_t n_layers = std::ssize(names) * std::ssize(info.layers);
  std::int64_t n_checked = 0;
  const auto tell = [&] {
    if (progress) progress(n_checked, n_layers);
  };
  tell();
  for (const std::string& name : names) {
    const Group run = runs.open_group(name);
    info.runs.push_back(read_run(run, name, info, [&] {
      ++n_checked;
      tell();
    }));
  }
}

}  // namespace

RecordingInfo read_info(const hdf5::File& file, const std::string& source, const OpenProgress& progress) {
  const Group root = file.root();
  root.names();
  if (!root.has_attribute("keyscope_format") || !root.has("entry"))
    throw FileError(source +
                    ": not a Keyscope recording (no attribute 'keyscope_format', or no group 'entry')");
  if (root.integer("keyscope_format") != kFormat)
    throw FileError(fmt::format("{}: keyscope_format is {}; this version reads {}", source,
                                root.integer("keyscope_format"), kFormat));
  const Group entry = root.open_group("entry");
  entry.names();
  if (!entry.has("runs")) throw FileError(source + ": holds no runs; a figure file is not a recording");
  RecordingInfo info;
  info.source = source;
  const Group provenance = entry.open_group("provenance");
  info.complete = integer_in(provenance, "complete", 0, 1) == 1;
  Origin origin = read_origin(entry);
  info.provenance = std::move(origin.provenance);
  info.model = std::move(origin.model);
  info.prompt = std::move(origin.prompt);
  if (info.n_prompt() == 0)
    throw FileError(entry.open_group("tokens").where() +
                    ": attribute 'n_prompt' is 0; a recording has at least 1");
  const Group runs = entry.open_group("runs");
  const std::vector<std::string> names = ordered_runs(runs);
  find_contents(info, runs.open_group(names.front()));
  for (const std::string& name : names) {
    const Group run = runs.open_group(name);
    if (find_layers(run, info.model.n_layers) != info.layers)
      throw FileError(run.where() + ": holds other layers than run " + names.front());
  }
  if (!info.complete) info.layers = layers_to_show(runs, names, info.layers);
  read_runs(runs, names, progress, info);
  return info;
}

}  // namespace keyscope::recording
