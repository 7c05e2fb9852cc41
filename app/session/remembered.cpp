#include "app/session/remembered.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "app/session/made_figures.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"

namespace keyscope::session {

namespace {

namespace fs = std::filesystem;

// FNV-1a (Fowler, Noll, Vo), 64 bits: names a file; whose it is stands inside.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

fs::path file_for(const fs::path& folder, const std::string& full_path) {
  return folder / fmt::format("{:016x}.json", hash_of(full_path));
}

std::string text_in(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

template <typename Int>
std::optional<Int> count_in(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  const auto count =
      found == json.end() ? std::nullopt : json_integer(*found, 0, std::numeric_limits<std::int32_t>::max());
  return count ? std::optional(static_cast<Int>(*count)) : std::nullopt;
}

bool flag_in(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_boolean() && found->get<bool>();
}

// A name that `parse` knows, else `otherwise`.
template <typename Choice>
Choice choice_in(const nlohmann::json& json, const char* name, Choice (*parse)(std::string_view),
                 Choice otherwise) {
  try {
    return parse(text_in(json, name));
  } catch (const UsageError&) {
    return otherwise;
  }
}

nlohmann::json look_to_json(const figures::KeyspaceLook& look) {
  return {{"projection", figures::id_of(look.projection)},
          {"colour", figures::id_of(look.colour)},
          {"queries", look.queries},
          {"density", figures::id_of(look.density)}};
}

figures::KeyspaceLook look_in(const nlohmann::json& json) {
  const figures::KeyspaceLook usual;
  return {choice_in(json, "projection", figures::parse_projection, usual.projection),
          choice_in(json, "colour", figures::parse_key_colour, usual.colour), flag_in(json, "queries"), -1,
          choice_in(json, "density", figures::parse_density, usual.density)};
}

nlohmann::json settings_to_json(const FigureSettings& settings) {
  nlohmann::json json{{"ranks", settings.ranks},
                      {"linear", settings.linear},
                      {"retained", settings.retained_only},
                      {"order", figures::order_name(settings.order)}};
  if (settings.reduction) json["reduce"] = figures::reduction_name(*settings.reduction);
  return json;
}

FigureSettings settings_in(const nlohmann::json& json) {
  FigureSettings settings{flag_in(json, "ranks"), flag_in(json, "linear"), flag_in(json, "retained"),
                          choice_in(json, "order", figures::parse_order, figures::MatrixOrder::kPosition),
                          std::nullopt};
  try {
    settings.reduction = figures::parse_reduction(text_in(json, "reduce"));
  } catch (const UsageError&) {  // the figure's own
  }
  return settings;
}

constexpr std::size_t kMostDocking = 1 << 16;

std::vector<std::string> names_in(const nlohmann::json& json, const char* name) {
  std::vector<std::string> names;
  const auto found = json.find(name);
  if (found == json.end() || !found->is_array()) return names;
  for (const auto& entry : *found)
    if (entry.is_string()) names.push_back(entry.get<std::string>());
  return names;
}

nlohmann::json arrangement_to_json(const Arrangement& arrangement) {
  return {{"docking", arrangement.docking},
          {"layout", arrangement.layout},
          {"views", arrangement.views},
          {"closed", arrangement.closed}};
}

// Views that there are, each once; without any there is no arrangement.
Arrangement arrangement_in(const nlohmann::json& json) {
  Arrangement arrangement{text_in(json, "docking"), text_in(json, "layout"), {}, names_in(json, "closed")};
  if (arrangement.docking.size() > kMostDocking) arrangement.docking.clear();
  for (std::string& view : names_in(json, "views"))
    if (is_view(view) && std::ranges::find(arrangement.views, view) == arrangement.views.end())
      arrangement.views.push_back(std::move(view));
  return arrangement;
}

void prune(const fs::path& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code unreadable;
    const auto written = entry->last_write_time(unreadable);
    if (!unreadable && entry->path().extension() == ".json") files.emplace_back(written, entry->path());
  }
  if (files.size() <= kMostViews) return;
  std::ranges::sort(files, std::ranges::greater());
  for (std::size_t i = kMostViews; i < files.size(); ++i) fs::remove(files[i].second, error);
}

}  // namespace

std::optional<RememberedView> recall_view(const fs::path& folder, const std::string& recording) {
  if (folder.empty()) return std::nullopt;
  const std::string full = full_path(recording).string();
  const nlohmann::json json = read_settings(file_for(folder, full));
  if (text_in(json, "recording") != full) return std::nullopt;
  RememberedView view;
  const std::string run = text_in(json, "run");
  if (!run.empty()) view.selection.run = run;
  view.selection.layer = count_in<int>(json, "layer");
  view.selection.kv_head = count_in<int>(json, "kv_head");
  view.selection.block = count_in<std::int64_t>(json, "block");
  if (const auto beside = json.find("beside"); beside != json.end() && beside->is_array())
    for (const auto& name : *beside)
      if (name.is_string()) view.selection.beside.push_back(name.get<std::string>());
  view.view = text_in(json, "view");
  view.measure = text_in(json, "measure");
  if (const auto look = json.find("look"); look != json.end() && look->is_object())
    view.look = look_in(*look);
  if (const auto arrangement = json.find("arrangement");
      arrangement != json.end() && arrangement->is_object())
    view.arrangement = arrangement_in(*arrangement);
  if (const auto settings = json.find("settings"); settings != json.end() && settings->is_object())
    view.settings = settings_in(*settings);
  return view;
}

void remember_view(const fs::path& folder, const std::string& recording, const RememberedView& view) {
  if (folder.empty()) return;
  const std::string full = full_path(recording).string();
  nlohmann::json json{{"recording", full},
                      {"view", view.view},
                      {"measure", view.measure},
                      {"look", look_to_json(view.look)},
                      {"settings", settings_to_json(view.settings)}};
  if (!view.arrangement.views.empty()) json["arrangement"] = arrangement_to_json(view.arrangement);
  if (view.selection.run) json["run"] = *view.selection.run;
  if (view.selection.layer) json["layer"] = *view.selection.layer;
  if (view.selection.kv_head) json["kv_head"] = *view.selection.kv_head;
  if (view.selection.block) json["block"] = *view.selection.block;
  if (!view.selection.beside.empty()) json["beside"] = view.selection.beside;
  write_settings(file_for(folder, full), json);
  prune(folder);
}

Arrangement usual_arrangement() {
  Arrangement arrangement;
  constexpr std::size_t kAtFirst = 7;  // tabs that have room; all others are in a menu
  for (std::size_t i = 0; i < std::min(kAtFirst, n_view_tabs()); ++i)
    arrangement.views.push_back(view_choices()[i].name);
  return arrangement;
}

bool is_arrangement_name(std::string_view name) {
  constexpr std::size_t kMostLetters = 40;
  const auto is_fit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == ' ' ||
           c == '-' || c == '_';
  };
  return !name.empty() && name.size() <= kMostLetters && std::ranges::all_of(name, is_fit) &&
         name.front() != ' ' && name.back() != ' ';
}

std::vector<std::string> arrangement_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == ".json" && is_arrangement_name(entry->path().stem().string()))
      names.push_back(entry->path().stem().string());
  std::ranges::sort(names);
  return names;
}

std::optional<Arrangement> read_arrangement(const fs::path& folder, const std::string& name) {
  if (folder.empty() || !is_arrangement_name(name)) return std::nullopt;
  Arrangement arrangement = arrangement_in(read_settings(folder / (name + ".json")));
  return arrangement.views.empty() ? std::nullopt : std::optional(std::move(arrangement));
}

void write_arrangement(const fs::path& folder, const std::string& name, const Arrangement& arrangement) {
  if (!folder.empty() && is_arrangement_name(name))
    write_settings(folder / (name + ".json"), arrangement_to_json(arrangement));
}

Selection remembered_selection(const recording::RecordingInfo& info, const RememberedView& remembered) {
  SelectionRequest request;
  const auto& wanted = remembered.selection;
  const bool has_run = wanted.run && info.run_index(*wanted.run) >= 0;
  if (has_run) request.run = wanted.run;
  Selection selection = resolve_selection(info, request);
  selection.layer = wanted.layer.value_or(selection.layer);
  selection.kv_head = wanted.kv_head.value_or(selection.kv_head);
  if (has_run) selection.block = wanted.block.value_or(selection.block);
  return clamp_selection(info, selection);
}

std::vector<RunId> remembered_beside(const recording::RecordingInfo& info, int selected,
                                     const RememberedView& remembered) {
  std::vector<RunId> beside;
  for (const std::string& name : remembered.selection.beside) {
    const RunId id{0, info.run_index(name)};
    if (id.run < 0 || id.run == selected || beside.size() == kMostBeside) continue;
    if (std::ranges::find(beside, id) == beside.end()) beside.push_back(id);
  }
  std::ranges::sort(beside);
  return beside;
}

fs::path settings_folder() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  // The specification has relative paths ignored.
  if (config != nullptr && *config == '/') return fs::path(config) / "keyscope";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return {};
  return fs::path(home) / ".config" / "keyscope";
}

nlohmann::json read_settings(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return nlohmann::json::object();  // a pipe would never end
  if (fs::file_size(path, error) > kMostSettingsBytes || error) return nlohmann::json::object();
  try {
    auto json = parse_json(read_file(path));
    return json.is_object() ? json : nlohmann::json::object();
  } catch (const FileError&) {  // the window opens without them
    return nlohmann::json::object();
  }
}

void write_settings(const fs::path& path, const nlohmann::json& settings) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  // Two windows may write at the same moment, each its own part.
  const fs::path part = fmt::format("{}.{}.part", path.string(), getpid());
  bool written = false;
  {
    std::ofstream file(part);
    // Paths need not be UTF-8.
    file << json_text(settings, 2) << "\n";
    written = !file.flush().fail();
  }
  if (written) fs::rename(part, path, error);
  if (!written || error) fs::remove(part, error);
}

}  // namespace keyscope::session
