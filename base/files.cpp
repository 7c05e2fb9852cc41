#include "base/files.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/errors.hpp"
#include "base/inputs.hpp"
#include "base/outputs_together.hpp"
#include "base/program.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"

namespace keyscope {

namespace fs = std::filesystem;

std::filesystem::path full_path(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path full = std::filesystem::absolute(path, error);
  return error ? path : full.lexically_normal();
}

fs::path place_of(const fs::path& path) {
  std::error_code error;
  // From the root: of a path that is still to be made, the canonical one may be relative.
  const fs::path place = fs::weakly_canonical(full_path(path), error);
  return error ? full_path(path) : place;
}

std::filesystem::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

namespace {

// Of 255 that file systems have: while it is written, a file is called more than that (see own_part).
constexpr std::size_t kMostNameBytes = 200;

}  // namespace

fs::path output_path(const fs::path& path, bool replace) {
  std::error_code error;
  if (!fs::is_directory(folder_of(path), error))
    throw FileError(fmt::format("{}: its folder does not exist; make it first", path.string()));
  if (::faccessat(AT_FDCWD, folder_of(path).c_str(), W_OK, AT_EACCESS) != 0)
    throw FileError(
        fmt::format("{}: its folder cannot be written to: {}", path.string(), std::strerror(errno)));
  if (path.filename().native().size() > kMostNameBytes)
    throw FileError(fmt::format("{}: a name of {} bytes, expected {} at most", path.string(),
                                path.filename().native().size(), kMostNameBytes));
  const fs::file_status named = fs::symlink_status(path, error);
  if (!fs::exists(named)) return path;
  if (fs::is_directory(path, error))
    throw FileError(fmt::format("{}: is a folder, expected the name of a file to write", path.string()));
  if (!fs::is_regular_file(path, error))
    throw FileError(fmt::format("{}: is there and no regular file; choose another name", path.string()));
  if (is_input(path))
    throw UsageError(fmt::format("{}: that is a file that is read; choose another name", path.string()));
  if (!replace)
    throw FileError(
        fmt::format("{}: exists already; choose another name, or replace it with --force", path.string()));
  return fs::is_symlink(named) ? fs::canonical(path) : path;
}

namespace {

constexpr std::string_view kPart = ".part";
constexpr std::size_t kMachineDigits = 12;
constexpr std::chrono::hours kLease{24};  // after which what other machines left is nobody's

// "8c1f03ab42de-4711-98345": of this process and no other, now or later.
std::string owner_name(std::int64_t process, std::uint64_t began) {
  static const std::string machine = [] {
    Sha256 hash;
    hash.add(machine_identity());
    return hash.hex().substr(0, kMachineDigits);
  }();
  return fmt::format("{}-{}-{}", machine, process, began);
}

// Takes a decimal number from the front of a text.
template <typename Number>
bool take_number(std::string_view& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || text.front() == '-') return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

// Whether a part belongs to a process that has ended, of this machine, or of another one that is long silent.
bool is_left_over(const fs::directory_entry& file, std::string_view owner) {
  const std::string_view machine = owner.substr(0, kMachineDigits);
  std::string_view rest = owner.substr(machine.size());
  std::int64_t process = 0;
  std::uint64_t began = 0;
  const auto skip_dash = [&] {
    const bool dash = rest.starts_with('-') && rest.size() > 1;
    if (dash) rest.remove_prefix(1);
    return dash;
  };
  std::error_code error;
  if (!is_digest(machine, kMachineDigits) || !skip_dash() || !take_number(rest, process) || !skip_dash() ||
      !take_number(rest, began) || !rest.empty() || !file.is_regular_file(error) || file.is_symlink(error))
    return false;
  if (owner_name(process, began) == owner) {  // of this machine; /proc may hide a process that lives
    const std::uint64_t here = beginning_of_process(process);
    return here != began && (here != 0 || (::kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH));
  }
  const auto written = file.last_write_time(error);
  return !error && fs::file_time_type::clock::now() - written > kLease;
}

// Takes away what killed processes left of files in this folder, the first time that something is written
// there.
void clear_left_over(const fs::path& folder) {
  static std::mutex guard;
  static std::set<fs::path> cleared;
  {
    const std::lock_guard lock(guard);
    if (!cleared.insert(full_path(folder)).second) return;
  }
  std::error_code error;
  for (fs::directory_iterator file(folder, error), end; !error && file != end; file.increment(error)) {
    const std::string path = file->path().string();
    std::string_view name = path;
    if (!name.ends_with(kPart)) continue;
    while (name.ends_with(kPart)) name.remove_suffix(kPart.size());  // a recording's part has one of its own
    const auto dot = name.rfind('.');
    std::error_code ignored;
    if (dot != name.npos && is_left_over(*file, name.substr(dot + 1))) fs::remove(path, ignored);
  }
}

// Onto the disk, so that the rename cannot overtake the bytes.
void sync_part(const fs::path& part, const fs::path& path) {
  const Descriptor opened(part, O_RDONLY);
  if (opened.id() < 0 || ::fsync(opened.id()) != 0)
    throw FileError(fmt::format("{}: could not be written: {}", path.string(), std::strerror(errno)));
}

}  // namespace

fs::path own_part(const fs::path& path) {
  clear_left_over(folder_of(path));
  return fmt::format("{}.{}{}", path.string(), owner_name(::getpid(), beginning_of_process(::getpid())),
                     kPart);
}

AtomicFile::AtomicFile(const fs::path& path, bool replace)
    : path_(output_path(path, replace)), part_(own_part(path_)), replace_(replace) {}

AtomicFile::~AtomicFile() {
  std::error_code error;
  if (!committed_) fs::remove(part_, error);
}

void AtomicFile::commit() {
  sync_part(part_, path_);
  output_path(path_, replace_);
  NewFile file{part_, path_, replace_};
  try {
    complete_file(file);
  } catch (...) {
    committed_ = file.keeps_part;  // what it replaced lies there, and nowhere else
    throw;
  }
  committed_ = true;
}

void write_file(const fs::path& path, std::string_view bytes, bool replace) {
  AtomicFile output(path, replace);
  std::ofstream file(output.part(), std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file)
    throw FileError(fmt::format("{}: could not be written: {}", path.string(), std::strerror(errno)));
  output.commit();
}

Descriptor::Descriptor(const fs::path& path, int flags)
    : id_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}

Descriptor::~Descriptor() {
  if (id_ >= 0) ::close(id_);
}

namespace {

// Where files are mapped, for the handler of the signal that tells that one has been cut since.
struct Mapping {
  std::atomic<const std::byte*> first = nullptr;  // null: nothing is mapped here
  std::atomic<std::size_t> size = 0;
  std::array<char, 1024> path{};
};
std::array<Mapping, 1024> mappings;  // more files than that end as others do

void say(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    if (n <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

// The bytes are gone, and there is no place to go back to: the process ends, with a sentence.
void end_at_cut(int signal, siginfo_t* about, void* /*context*/) {
  const auto* const at = static_cast<const std::byte*>(about->si_addr);
  for (const Mapping& mapping : mappings) {
    const std::byte* const first = mapping.first;
    if (first == nullptr || at < first || at >= first + mapping.size) continue;
    say("keyscope: ");
    say(mapping.path.data());
    say(": has been cut, or its disk has failed, while it was read; expected it to stay as it was when it "
        "was "
        "opened, so copy it anew and run this again\n");
    _exit(1);
  }
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void note_mapping(const fs::path& path, std::span<const std::byte> bytes) {
  static const bool handled = [] {
    struct sigaction action {};
    action.sa_sigaction = end_at_cut;
    action.sa_flags = SA_SIGINFO;
    return sigaction(SIGBUS, &action, nullptr) == 0;
  }();
  if (!handled) return;
  static std::mutex guard;
  const std::lock_guard lock(guard);
  const auto free = std::ranges::find_if(mappings, [](const Mapping& each) { return each.first == nullptr; });
  if (free == mappings.end()) return;
  const std::string name = terminal_text(path.string()).substr(0, free->path.size() - 1);
  std::memcpy(free->path.data(), name.c_str(), name.size() + 1);
  free->size = bytes.size();
  free->first = bytes.data();
}

void forget_mapping(std::span<const std::byte> bytes) {
  for (Mapping& mapping : mappings)
    if (mapping.first == bytes.data()) mapping.first = nullptr;
}

}  // namespace

MappedFile::MappedFile(const fs::path& path) {
  const Descriptor file(path, O_RDONLY | O_NONBLOCK);  // a pipe without a writer would never open
  if (file.id() < 0)
    throw FileError(fmt::format("{}: cannot be opened: {}", path.string(), std::strerror(errno)));
  struct stat status {};
  if (fstat(file.id(), &status) != 0 || !S_ISREG(status.st_mode))
    throw FileError(path.string() + ": is no regular file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;
  void* mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.id(), 0);
  if (mapped == MAP_FAILED) throw FileError(fmt::format("{}: cannot be mapped into memory", path.string()));
  bytes_ = {static_cast<const std::byte*>(mapped), size};
  note_mapping(path, bytes_);
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  forget_mapping(bytes_);
  munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void fail_to(std::string_view action, const std::string& where, int error) {
  throw FileError(fmt::format("{}: cannot {}: {}", where, action, std::generic_category().message(error)));
}

FileLock try_lock(int descriptor) {
  while (flock(descriptor, LOCK_EX | LOCK_NB) != 0)
    if (errno != EINTR) return errno == EWOULDBLOCK ? FileLock::kBusy : FileLock::kNone;
  return FileLock::kHeld;
}

bool same_file(int descriptor, const fs::path& path) {
  struct stat opened, named;
  return fstat(descriptor, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

int try_write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor, bytes.data(), bytes.size());
    if (n >= 0)
      bytes.remove_prefix(static_cast<std::size_t>(n));
    else if (errno != EINTR)
      return errno;
  }
  return 0;
}

void write_all(int descriptor, std::string_view bytes, const std::string& where) {
  if (const int error = try_write_all(descriptor, bytes); error != 0) fail_to("be written", where, error);
}

void sync_data(int descriptor, const std::string& where) {
  if (::fdatasync(descriptor) != 0) fail_to("write to the disk", where, errno);
}

void sync_path(const fs::path& file_or_folder) {
  const Descriptor opened(file_or_folder, O_RDONLY);
  if (opened.id() < 0) fail_to("open", file_or_folder.string(), errno);
  // Some file systems cannot sync a folder and say EINVAL; there is nothing more to be done there.
  if (::fsync(opened.id()) != 0 && errno != EINVAL)
    fail_to("write to the disk", file_or_folder.string(), errno);
}

std::ifstream open_file(const fs::path& path, std::string_view expected) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    throw FileError(fmt::format("{}: found a folder, expected {}", path.string(), expected));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FileError(fmt::format("{}: cannot be read; is the path right?", path.string()));
  return file;
}

void require_read(const std::istream& stream, const std::string& name) {
  // A stream over C's tells a failure as an end.
  if (stream.bad() || (&stream == &std::cin && std::ferror(stdin) != 0))
    throw FileError(fmt::format("{}: could not be read to its end", name));
}

std::string read_to_end(std::istream& stream, const std::string& name) {
  constexpr std::size_t kPiece = 1 << 16;
  std::string text;
  std::size_t size = 0;
  do {
    text.resize(size + kPiece);
    stream.read(&text[size], kPiece);
    size += static_cast<std::size_t>(stream.gcount());
  } while (stream);
  require_read(stream, name);
  text.resize(size);
  return text;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FileError(fmt::format("{}: cannot be read", path.string()));
  return read_to_end(file, path.string());
}

std::string read_file(const fs::path& path, std::size_t n_bytes) {
  std::ifstream file(path, std::ios::binary);
  std::string text(n_bytes, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(n_bytes)))
    throw FileError(fmt::format("{}: could not be read to its end", path.string()));
  return text;
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

std::string read_text_file(const fs::path& path) {
  std::ifstream file = open_file(path, "a text file");
  const std::string text = read_to_end(file, path.string());
  if (!is_utf8(text)) throw FileError(fmt::format("{}: is no UTF-8; expected text in UTF-8", path.string()));
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
  file_ = open_file(path, "a text file");
}

std::string TextInput::read_all() {
  std::string text = read_to_end(stream(), name_);
  require_utf8(text, name_);
  return text;
}

void TextInput::check() { require_read(stream(), name_); }

void require_utf8(const std::string& text, const std::string& name) {
  std::string buffer;
  const std::string_view valid = replace_invalid_utf8(text, buffer);
  if (valid.data() == text.data()) return;
  const auto at = std::mismatch(text.begin(), text.end(), valid.begin(), valid.end()).first - text.begin();
  throw FileError(
      fmt::format("{}: byte {} is no UTF-8 (found 0x{:02X}); expected a UTF-8 text, so convert it first",
                  name, at, static_cast<unsigned char>(text[at])));
}

std::istream& TextInput::standard_input() { return std::cin; }

std::filesystem::path assets_folder() {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path built_from = KEYSCOPE_ASSETS_DIR;
  if (fs::is_directory(built_from, error)) return built_from;
  const fs::path beside = program_path().parent_path() / "../../assets";
  if (fs::is_directory(beside, error)) return fs::canonical(beside, error);
  throw FileError(fmt::format("{}: the project's assets are not there; run the demo from a checkout",
                              built_from.string()));
}

std::filesystem::path free_name(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path name = path;
  for (int n = 2; std::filesystem::exists(name, error); ++n)
    name = path.parent_path() / fmt::format("{}-{}{}", path.stem().string(), n, path.extension().string());
  return name;
}

std::vector<std::string> suggested_paths(const std::string& typed, bool folders_only) {
  constexpr std::size_t kMost = 6;
  std::vector<std::string> paths;
  std::error_code error;
  const std::filesystem::path path(typed),
      folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  if (typed.empty() || std::filesystem::is_regular_file(path, error)) return paths;
  const std::string part = path.filename().string();
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_folder = entry->is_directory(error);
    if (name.starts_with(part) && (!name.starts_with('.') || part.starts_with('.')) &&
        (is_folder || !folders_only))
      paths.push_back((path.has_parent_path() ? folder / name : std::filesystem::path(name)).string() +
                      (is_folder ? "/" : ""));
  }
  std::ranges::sort(paths);
  if (paths.size() > kMost) paths.resize(kMost);
  return paths;
}

}  // namespace keyscope
