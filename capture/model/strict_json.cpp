#include "capture/model/strict_json.hpp"

#include <fstream>
#include <iterator>
#include <set>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::capture {
namespace {

using Json = nlohmann::json;

constexpr int kDeepest = 64;
constexpr std::uintmax_t kLargestSmallFile = 256U << 20U;  // an index of 10^6 tensors has 100 MB

}  // namespace

Json parse_json_object(std::string_view text, const std::string& where) {
  // The parser would pass over a byte order mark, which JSON does not allow.
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{')
    throw FileError(fmt::format("{}: is no JSON object, which begins with {{; the file is damaged", where));
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > kDeepest) throw FileError(fmt::format("{}: its JSON is nested too deeply", where));
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      throw FileError(fmt::format("{}: has {} twice, expected every name once", where,
                                  shown(value.get_ref<const std::string&>())));
    return true;
  };
  Json json = Json::parse(text, watch, false);
  if (!json.is_object())
    throw FileError(fmt::format("{}: is no JSON object in UTF-8; the file is damaged or cut short", where));
  return json;
}

std::string read_small_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) throw FileError(fmt::format("{}: is not there", path.string()));
  const auto size = std::filesystem::file_size(path, error);
  if (error) throw FileError(fmt::format("{}: cannot be read: {}", path.string(), error.message()));
  if (size > kLargestSmallFile)
    throw FileError(
        fmt::format("{}: has {} bytes, expected a configuration, which has few", path.string(), size));
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw FileError(fmt::format("{}: cannot be read; may this user?", path.string()));
  return text;
}

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 80;
  const Json json = std::string(text.substr(0, kMost));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + (text.size() > kMost ? "…" : "");
}

}  // namespace keyscope::capture
