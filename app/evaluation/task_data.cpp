#include "app/evaluation/task_data.hpp"

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"

namespace keyscope::evaluation {

namespace {

// Of the lines that a message lists.
constexpr std::size_t kShownLines = 10;

// Where a row stands.
struct Place {
  std::size_t file;
  std::int64_t line;
};

// "lines 3, 8", or with several files "a.jsonl: lines 3, 8; b.jsonl: line 2"; of many the first ones.
std::string places_text(Paths paths, const std::vector<Place>& places) {
  std::string text;
  for (std::size_t i = 0; i < std::min(places.size(), kShownLines); ++i) {
    const auto [file, line] = places[i];
    const bool same_file = i > 0 && places[i - 1].file == file;
    if (!same_file) {
      const auto n = std::ranges::count(places, file, &Place::file);
      text += i > 0 ? "; " : "";
      if (paths.size() > 1) text += paths[file].filename().string() + ": ";
      text += n > 1 ? "lines " : "line ";
    }
    text += fmt::format("{}{}", same_file ? ", " : "", line);
  }
  return text + (places.size() > kShownLines ? ", …" : "");
}

void refuse(Paths paths, const std::vector<std::string>& bad, const std::vector<Place>& places) {
  if (bad.size() == 1) throw FileError(bad.front() + "; --skip-bad goes on without it");
  throw FileError(fmt::format("{}; {} rows are bad ({}); --skip-bad goes on without them", bad.front(),
                              bad.size(), places_text(paths, places)));
}

void read_rows(const std::filesystem::path& path, const TakeLine& take, ReadRows& rows,
               std::vector<std::int64_t>& bad_lines) {
  std::ifstream file = open_file(path, "a file");
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    if (number == 1) line = without_byte_order_mark(line);
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    try {
      if (take(line, fmt::format("{}, line {}", path.string(), number))) ++rows.n_rows;
    } catch (const FileError& error) {
      rows.bad.push_back(error.what());
      bad_lines.push_back(number);
    } catch (const InvalidInput& error) {
      rows.bad.push_back(fmt::format("{}, line {}: {}", path.string(), number, error.what()));
      bad_lines.push_back(number);
    }
  }
  require_read(file, path.string());
}

}  // namespace

ReadRows read_lines(Paths paths, bool skip_bad, const TakeLine& take) {
  ReadRows rows;
  std::vector<Place> places;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::size_t n_before = rows.n_rows + rows.bad.size();
    std::vector<std::int64_t> bad_lines;
    read_rows(paths[i], take, rows, bad_lines);
    for (const std::int64_t line : bad_lines) places.push_back({i, line});
    if (rows.n_rows + rows.bad.size() == n_before)
      throw FileError(fmt::format("{}: there is no row; expected at least one", paths[i].string()));
  }
  if (!rows.bad.empty() && !skip_bad) refuse(paths, rows.bad, places);
  if (rows.n_rows == 0)
    throw FileError(fmt::format(
        "{}: there is no row that can be used; expected at least one; the first is bad: {}",
        paths.size() == 1 ? paths[0].string() : fmt::format("{} files", paths.size()), rows.bad.front()));
  return rows;
}

ReadRows read_json_rows(Paths paths, bool skip_bad, const TakeJson& take) {
  return read_lines(paths, skip_bad, [&](const std::string& line, const std::string& where) {
    if (line.find_first_not_of(" \t\r") == line.npos) return false;
    take(parse_json_object(line, where), where);
    return true;
  });
}

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_of(const fs::path& folder, bool below) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (!below) at.disable_recursion_pending();
    if (at->path().extension() == ".jsonl") files.push_back(at->path());
  }
  if (error) throw FileError(fmt::format("{}: cannot be read: {}", folder.string(), error.message()));
  if (files.empty())
    throw FileError(
        fmt::format("{}: the folder has no *.jsonl; expected files of JSON lines", folder.string()));
  std::ranges::sort(files);
  return files;
}

}  // namespace

std::vector<fs::path> data_files(std::span<const fs::path> given, bool below) {
  std::vector<fs::path> files;
  for (const fs::path& path : given) {
    std::error_code ignored;
    if (!fs::exists(path, ignored))
      throw FileError(
          fmt::format("{}: is not there; expected a file of JSON lines, or a folder", path.string()));
    if (fs::is_directory(path, ignored))
      std::ranges::copy(files_of(path, below), std::back_inserter(files));
    else
      files.push_back(path);
  }
  return files;
}

namespace {

const nlohmann::json& field_of(const nlohmann::json& row, const char* field, const char* expected,
                               const std::string& where) {
  const auto found = row.find(field);
  if (found == row.end())
    throw FileError(fmt::format("{}: \"{}\" is not there; expected {}", where, field, expected));
  return *found;
}

}  // namespace

std::string text_field(const nlohmann::json& row, const char* field, const std::string& where) {
  const nlohmann::json& value = field_of(row, field, "a text", where);
  if (!value.is_string())
    throw FileError(fmt::format("{}: \"{}\" is {}; expected a text", where, field, shown_value(value)));
  return value.get<std::string>();
}

std::vector<std::string> texts_field(const nlohmann::json& row, const char* field, const std::string& where) {
  const nlohmann::json& value = field_of(row, field, "an array of texts", where);
  if (!value.is_array() ||
      !std::ranges::all_of(value, [](const nlohmann::json& entry) { return entry.is_string(); }))
    throw FileError(
        fmt::format("{}: \"{}\" is {}; expected an array of texts", where, field, shown_value(value)));
  return value.get<std::vector<std::string>>();
}

namespace {

std::tm scored_day() {
  std::tm day{};
  strptime("2024-07-26", "%Y-%m-%d", &day);
  return day;
}

std::optional<tokenizer::ChatTemplate> chat_template(const std::filesystem::path& model_folder, ChatUse use) {
  switch (use) {
    case ChatUse::kNever:
      return std::nullopt;
    case ChatUse::kAlways:
      return tokenizer::ChatTemplate::load(model_folder);
    case ChatUse::kIfThere:
      break;
  }
  return tokenizer::ChatTemplate::load_if_there(model_folder);
}

}  // namespace

const char* chat_word(ChatUse use) {
  switch (use) {
    case ChatUse::kAlways:
      return "always";
    case ChatUse::kNever:
      return "never";
    case ChatUse::kIfThere:
      break;
  }
  return "if there";
}

PromptEncoder::PromptEncoder(const tokenizer::Tokenizer& tokenizer, const std::filesystem::path& model_folder,
                             ChatUse use)
    : tokenizer_(tokenizer), template_(chat_template(model_folder, use)) {}

std::vector<std::int32_t> PromptEncoder::plain(const std::string& text) const {
  return tokenizer_.encode(text, true);
}

std::vector<std::int32_t> PromptEncoder::turn(const std::string& text,
                                              const std::string& answer_begin) const {
  if (!template_) return plain(text + answer_begin);
  return tokenizer_.encode(template_->render(text, std::nullopt, scored_day()) + answer_begin, false);
}

}  // namespace keyscope::evaluation
