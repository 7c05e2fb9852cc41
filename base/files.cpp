#include "base/files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

fs::path output_path(const fs::path& path, bool replace) {
  std::error_code error;
  if (!fs::is_directory(folder_of(path), error))
    throw FileError(fmt::format("{}: its folder does not exist; make it first", path.string()));
  const fs::file_status named = fs::symlink_status(path, error);
  if (!fs::exists(named)) return path;
  if (fs::is_directory(path, error))
    throw FileError(fmt::format("{}: is a folder, expected the name of a file to write", path.string()));
  if (!fs::is_regular_file(path, error))
    throw FileError(fmt::format("{}: is there and no regular file; choose another name", path.string()));
  if (!replace)
    throw FileError(
        fmt::format("{}: exists already; choose another name, or replace it with --force", path.string()));
  return fs::is_symlink(named) ? fs::canonical(path) : path;
}

namespace {

// Onto the disk, so that the rename cannot overtake the bytes.
void sync_file(const fs::path& part, const fs::path& path) {
  const int descriptor = ::open(part.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
  const int reason = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!synced)
    throw FileError(fmt::format("{}: could not be written: {}", path.string(), std::strerror(reason)));
}

}  // namespace

OutputFile::OutputFile(const fs::path& path, bool replace)
    : path_(output_path(path, replace)),
      part_(fmt::format("{}.{}.part", path_.string(), ::getpid())),
      replace_(replace) {}

OutputFile::~OutputFile() {
  std::error_code error;
  if (!committed_) fs::remove(part_, error);
}

void OutputFile::commit() {
  sync_file(part_, path_);
  output_path(path_, replace_);
  std::error_code error;
  fs::rename(part_, path_, error);
  if (error)
    throw FileError(
        fmt::format("{}: could not be renamed from {}: {}", path_.string(), part_.string(), error.message()));
  committed_ = true;
}

void refuse_same_file(const fs::path& source, const fs::path& out, std::string_view option) {
  std::error_code error;
  if (fs::equivalent(source, out, error))
    throw UsageError(
        fmt::format("{} {}: that is the file that is read; choose another name", option, out.string()));
}

void write_file(const fs::path& path, std::string_view bytes, bool replace) {
  OutputFile output(path, replace);
  std::ofstream file(output.part(), std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file)
    throw FileError(fmt::format("{}: could not be written: {}", path.string(), std::strerror(errno)));
  output.commit();
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

std::string read_text_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw FileError(fmt::format("{}: found a folder, expected a text file", path.string()));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FileError(fmt::format("{}: cannot be read; is the path right?", path.string()));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) throw FileError(fmt::format("{}: could not be read to its end", path.string()));
  std::string buffer;
  if (replace_invalid_utf8(text, buffer).data() != text.data())
    throw FileError(fmt::format("{}: is no UTF-8; expected text in UTF-8", path.string()));
  return std::string(without_byte_order_mark(text));
}

void check_utf8(std::string_view value, std::string_view option) {
  std::string buffer;
  const std::string_view valid = replace_invalid_utf8(value, buffer);
  if (valid.data() != value.data())
    throw UsageError(fmt::format(
        "{}: {} is no UTF-8; expected a name or text in UTF-8, since results, which hold it, are JSON",
        option, valid));
}

TextInput::TextInput(const std::string& path) {
  if (path == "-") return;
  name_ = path;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw FileError(fmt::format("{}: found a folder, expected a text file", path));
  file_.open(path, std::ios::binary);
  if (!file_) throw FileError(fmt::format("{}: cannot be read; is the path right?", path));
}

std::string TextInput::read_all() {
  std::string text{std::istreambuf_iterator<char>(stream()), {}};
  check();
  require_utf8(text, name_);
  return text;
}

void TextInput::check() {
  if (stream().bad()) throw FileError(fmt::format("{}: could not be read to its end", name_));
}

void require_utf8(const std::string& text, const std::string& name) {
  std::string buffer;
  const std::string_view valid = replace_invalid_utf8(text, buffer);
  if (valid.data() == text.data()) return;
  const auto at = std::mismatch(text.begin(), text.end(), valid.begin(), valid.end()).first - text.begin();
  throw FileError(
      fmt::format("{}: byte {} is no UTF-8 (found 0x{:02X}); expected a UTF-8 text, so convert it first",
                  name, at, static_cast<unsigned char>(text[static_cast<std::size_t>(at)])));
}

std::istream& TextInput::standard_input() { return std::cin; }

}  // namespace keyscope
