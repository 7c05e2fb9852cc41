#include "app/figures/nexus.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/figures/figure.hpp"
#include "app/figures/nexus_panel.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "capture/recording/hdf5.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

namespace {

using recording::hdf5::File;
using recording::hdf5::Group;

constexpr std::int64_t kFormat = 1;
constexpr const char* kFormatAttribute = "keyscope_figures";  // of the root: what tells a figure file
constexpr const char* kFigureAttribute = "keyscope_figure";   // of a figure's group
constexpr const char* kOrder = "order";  // in that attribute: how many figures the file had before this one

// "keyspace_keydiff_layer_01_kv_head_2": unique in most files, and read by people in a file's tree.
std::string group_name(const Figure& figure) {
  const FigureView& view = figure.view;
  std::string name = nexus_name(figure.name);
  std::ranges::replace(name, '-', '_');
  const std::string run = view.runs.size() == 1 ? fmt::format("_{}", nexus_name(view.runs.front())) : "";
  const std::string layer = view.layer >= 0 ? fmt::format("_layer_{:02}", view.layer) : "";
  const std::string head = view.query_head >= 0 ? fmt::format("_query_head_{}", view.query_head)
                           : view.kv_head >= 0  ? fmt::format("_kv_head_{}", view.kv_head)
                                                : "";
  return fmt::format("{}{}{}{}", name, run, layer, head);
}

std::string unique_name(const Group& group, const std::string& wanted) {
  std::string name = wanted;
  for (int i = 2; group.has(name); ++i) name = fmt::format("{}_{}", wanted, i);
  return name;
}

std::string plot_title(const Figure& figure, const Panel& panel) {
  return panel.title.empty() ? figure.title : fmt::format("{}: {}", figure.title, panel.title);
}

// Panels' group names, in order, for a figure of several: `panel_<i>_<id>`, so that they sort as they stand.
std::string panel_name(const Figure& figure, std::size_t i) {
  return fmt::format("panel_{:02}_{}", i + 1, nexus_name(figure.panels[i].id));
}

void write_figure(Group& entry, const std::string& name, const Figure& figure, std::int64_t order) {
  const bool alone = figure.panels.size() == 1;
  Group group = entry.create_group(name, alone ? "NXdata" : "NXcollection");
  nlohmann::json json = figure_to_json(figure);
  json[kOrder] = order;
  group.set_text(kFigureAttribute, json_text(json));
  group.create_text("caption", figure.caption);
  if (alone) return write_panel(group, figure.panels.front(), plot_title(figure, figure.panels.front()));
  if (!figure.panels.empty()) group.set_text("default", panel_name(figure, 0));
  for (std::size_t i = 0; i < figure.panels.size(); ++i) {
    Group panel = group.create_group(panel_name(figure, i), "NXdata");
    write_panel(panel, figure.panels[i], plot_title(figure, figure.panels[i]));
  }
}

// A figure, its group's name, and its place among the others.
struct OrderedFigure {
  std::int64_t order = 0;
  std::string name;
  Figure figure;
};

// Files from before the order was written have their figures in alphabetical order, as groups lie in a file.
OrderedFigure read_figure(const Group& group, const std::string& name) {
  OrderedFigure read{0, name, {}};
  Figure& figure = read.figure;
  const std::string where = fmt::format("{}: attribute '{}'", group.where(), kFigureAttribute);
  const auto json = parse_json_object(group.text(kFigureAttribute), where);
  figure = figure_from_json({json, where, ""});
  if (const auto order = json.find(kOrder); order != json.end())
    read.order = json_integer<std::int64_t>(*order).value_or(0);
  if (figure.panels.size() == 1) {
    read_panel(group, figure.panels.front());
  } else {
    for (std::size_t i = 0; i < figure.panels.size(); ++i)
      read_panel(group.open_group(panel_name(figure, i)), figure.panels[i]);
  }
  return read;
}

}  // namespace

void add_figure(Group& entry, const Figure& figure, std::int64_t order) {
  const std::string name = unique_name(entry, group_name(figure));
  write_figure(entry, name, figure, order);
  if (order == 0) entry.set_text("default", name);
}

void mark_figure_file(Group& root) { root.set_integer(kFormatAttribute, kFormat); }

struct NexusWriter::State {
  State(const std::filesystem::path& path, bool replace)
      : output(path, replace), file(File::create(output.part())) {}
  ~State() {
    entry = Group();
    file.abandon();
  }

  AtomicFile output;  // outlives the file
  File file;
  Group entry;
  std::int64_t n_figures = 0;
};

NexusWriter::NexusWriter(const std::filesystem::path& path, const recording::Origin& origin, bool replace)
    : state_(std::make_unique<State>(path, replace)) {
  Group root = state_->file.root();
  root.set_text("NX_class", "NXroot");
  root.set_text("default", "entry");
  mark_figure_file(root);
  state_->entry = root.create_group("entry", "NXentry");
  state_->entry.create_text("title", "Keyscope: figures of " + origin.model.name);
  recording::write_origin(state_->entry, origin);
}

NexusWriter::~NexusWriter() = default;

void NexusWriter::add(const Figure& figure) { add_figure(state_->entry, figure, state_->n_figures++); }

void NexusWriter::finish() {
  state_->entry = Group();
  state_->file.close();
  state_->output.commit();
}

void write_nexus(const std::filesystem::path& path, const std::vector<Figure>& figures,
                 const recording::Origin& origin, bool replace) {
  NexusWriter writer(path, origin, replace);
  for (const Figure& figure : figures) writer.add(figure);
  writer.finish();
}

namespace {

// Of many models, none is the one; what stands for its name is whose figures they are.
recording::Origin origin_of(const Group& entry) {
  if (entry.has("model")) return recording::read_origin(entry);
  recording::Origin origin;
  if (entry.has_attribute("name")) origin.model.name = entry.text("name");
  return origin;
}

}  // namespace

FigureFile read_figures(const std::filesystem::path& path) {
  const recording::EntryPath place = recording::entry_path(path.string());
  const File file = File::open(place.file);
  const Group root = file.root();
  if (!root.has_attribute(kFormatAttribute))
    throw FileError(
        fmt::format("{}: no figure file: attribute '{}' of / is missing", path.string(), kFormatAttribute));
  if (const std::int64_t format = root.integer(kFormatAttribute); format != kFormat)
    throw FileError(
        fmt::format("{}: figures of format {}; this program reads {}", path.string(), format, kFormat));
  const bool by_default = place.entry.empty() && root.has_attribute("default");
  const Group entry = root.open_group(by_default            ? root.text("default")
                                      : place.entry.empty() ? std::string("entry")
                                                            : place.entry);
  std::vector<OrderedFigure> found;
  for (const std::string& name : entry.names()) {
    if (!entry.has_group(name)) continue;
    const Group group = entry.open_group(name);
    if (group.has_attribute(kFigureAttribute)) found.push_back(read_figure(group, name));
  }
  std::ranges::stable_sort(found, std::less<>(), &OrderedFigure::order);
  const std::string shown = entry.has_attribute("default") ? entry.text("default") : "";
  FigureFile figures{origin_of(entry), {}, 0};
  for (OrderedFigure& each : found) {
    if (each.name == shown) figures.default_figure = figures.figures.size();
    for (Panel& panel : each.figure.panels)
      if (panel.order) name_tokens(*panel.order, figures.origin.prompt);
    figures.figures.push_back(std::move(each.figure));
  }
  return figures;
}

bool is_nexus_path(const std::filesystem::path& path) {
  const std::string extension = lower_case(path.extension().string());
  return extension == ".h5" || extension == ".hdf5" || extension == ".nxs";
}

bool is_figure_file(const std::filesystem::path& path) {
  try {
    const recording::EntryPath place = recording::entry_path(path.string());
    const File file = File::open(place.file);
    const Group root = file.root();
    if (!root.has_attribute(kFormatAttribute)) return false;
    if (place.entry.empty()) return !root.has_attribute("keyscope_format");
    return root.has_group(place.entry) && !root.open_group(place.entry).has("runs");
  } catch (const FileError&) {
    return false;
  }
}

namespace {

std::vector<std::string> recordings_in(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  const fs::path of_results = folder / kRecordingsFolder;
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(fs::is_directory(of_results) ? of_results : folder))
    if (entry.path().extension() == ".h5" && !is_figure_file(entry.path()))
      paths.push_back(entry.path().string());
  std::ranges::sort(paths);
  if (paths.empty())
    throw FileError(
        fmt::format("{}: there is no recording in this folder; expected *.h5, such as `eval "
                    "--record N` leaves in its --out",
                    folder.string()));
  return paths;
}

}  // namespace

std::vector<std::string> documents_of(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) return recordings_in(path);
  const std::string file = recording::entry_path(path.string()).file;
  std::vector<std::string> documents;
  for (const std::string& entry : recording::recording_entries(file))
    documents.push_back(fmt::format("{}::{}", file, entry));
  const File opened = File::open(file);
  if (const Group root = opened.root(); root.has_attribute("default"))
    if (const std::string place = fmt::format("{}::{}", file, root.text("default")); is_figure_file(place))
      documents.push_back(place);
  return documents;
}

namespace {

using analysis::Merge;
using recording::hdf5::Dataset;
using recording::hdf5::ElementType;

constexpr hsize_t kColumns = 4;  // of SciPy's linkage matrix

void write_linkage(Group& group, const std::vector<Merge>& merges) {
  std::vector<double> table;
  table.reserve(merges.size() * kColumns);
  for (const Merge& merge : merges)
    for (const double value : {static_cast<double>(merge.first), static_cast<double>(merge.second),
                               static_cast<double>(merge.height), static_cast<double>(merge.n_rows)})
      table.push_back(value);
  Dataset dataset = group.create_dataset("linkage", ElementType::kFloat64, {merges.size(), kColumns}, {});
  dataset.write(std::span<const double>(table));
  dataset.set_text("long_name", "tree over rows and columns, as of scipy.cluster.hierarchy.linkage");
  dataset.set_text("units", "");
}

// Every cluster is there when it merges, and merges once.
bool is_tree(const std::vector<Merge>& merges, std::int64_t n_places) {
  std::vector<char> taken(static_cast<std::size_t>(n_places) + merges.size(), 0);
  for (std::size_t k = 0; k < merges.size(); ++k)
    for (const std::int32_t cluster : {merges[k].first, merges[k].second}) {
      if (cluster < 0 || cluster >= n_places + static_cast<std::int64_t>(k)) return false;
      if (std::exchange(taken[cluster], 1) != 0) return false;
    }
  return true;
}

std::vector<Merge> read_linkage(const Group& group, std::int64_t n_places) {
  const Dataset dataset = group.open_dataset("linkage");
  const recording::hdf5::Shape expected{static_cast<hsize_t>(n_places - 1), kColumns};
  if (n_places < 1 || dataset.shape() != expected)
    throw FileError(fmt::format("{}: shape is {}; expected ({}, {}) for a matrix of {} rows", dataset.where(),
                                recording::hdf5::format_shape(dataset.shape()), n_places - 1, kColumns,
                                n_places));
  const auto table = dataset.read<double>();
  std::vector<Merge> merges;
  for (std::size_t at = 0; at < table.size(); at += kColumns) {
    const auto whole = [&](std::size_t column) {
      const double value = table[at + column];  // what no number of a cluster can be is refused as -1
      return value >= 0 && value < 4e9 / 2 ? static_cast<std::int32_t>(value) : -1;
    };
    merges.push_back({whole(0), whole(1), static_cast<float>(table[at + 2]), whole(3)});
  }
  if (!is_tree(merges, n_places))
    throw FileError(
        fmt::format("{}: a cluster merges twice, or before it is there; expected a tree of {} rows",
                    dataset.where(), n_places));
  return merges;
}

}  // namespace

void write_order(Group& group, const TokenOrder& order) {
  write_list(group, "token", order.token, "token position of each row and column");
  if (!order.retained.empty())
    write_list(group, "retained", order.retained, "each row's and column's key: retained (1) or evicted (0)");
  if (!order.merges.empty()) write_linkage(group, order.merges);
}

TokenOrder read_order(const Group& group, std::int64_t n_places) {
  const auto n = static_cast<std::size_t>(std::max<std::int64_t>(0, n_places));
  TokenOrder order;
  order.token = read_list<std::int32_t>(group, "token", n);
  if (group.has("retained")) order.retained = read_list<std::uint8_t>(group, "retained", n);
  if (group.has("linkage")) order.merges = read_linkage(group, n_places);
  return order;
}

void name_tokens(TokenOrder& order, const recording::TokenText& prompt) {
  order.text.clear();
  for (const std::int32_t position : order.token)
    order.text.push_back(position >= 0 && position < prompt.size() ? prompt.token(position) : std::string());
}

}  // namespace keyscope::figures
