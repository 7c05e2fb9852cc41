#include "capture/recording/hdf5_walk.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <hdf5.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "capture/recording/hdf5_drivers.hpp"
#include "capture/recording/hdf5_node.hpp"

namespace keyscope::recording::hdf5 {
namespace {

constexpr rlim_t kMostMemory = rlim_t{256} << 20U;  // beyond what the process has when it begins
constexpr rlim_t kMostSeconds = 20;                 // of the processor
constexpr unsigned kMostWaitSeconds = 120;          // a disk may be slow
constexpr int kDeepest = 64;                        // groups within each other

// What the walking process leaves behind, in memory that both have.
struct Footprint {
  enum class End : int { kCrashed, kSound, kTooLarge };
  std::atomic<End> end = End::kCrashed;
  std::atomic<bool> all = false;  // of the file was walked, and not the part alone
  std::array<char, 512> place{};  // that it was at last

  void be_at(const std::string& where) {
    const std::size_t n = std::min(where.size(), place.size() - 1);
    std::memcpy(place.data(), where.data(), n);
    place[n] = '\0';
  }
};

// Thrown where the limit of memory was reached, which HDF5 says in its own way.
struct TooLarge {};

// An identifier that is released with it; what HDF5 refuses has none.
Handle held(hid_t id, Handle::Release release) {
  if (id >= 0) return {id, release};
  bool no_memory = false;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned, const H5E_error2_t* error, void* found) {
        const bool allocates = error->min_num == H5E_NOSPACE || error->min_num == H5E_CANTALLOC;
        if (allocates) *static_cast<bool*>(found) = true;
        return herr_t{0};
      },
      &no_memory);
  if (no_memory) throw TooLarge();
  return {};
}

// A result of a call that releases nothing.
bool went(herr_t result) {
  if (result >= 0) return true;
  held(-1, nullptr);  // throws where it was memory
  return false;
}

// The end of a pipe at which the walking process hands over texts: of each attribute its object's address,
// its name, and how many texts follow. Numbers take eight bytes, and a text comes after its length.
class TextSender {
 public:
  explicit TextSender(int descriptor) : descriptor_(descriptor) {}

  void send(haddr_t object, const std::string& attribute, const std::vector<std::string_view>& texts) {
    put(object);
    put(attribute);
    put(texts.size());
    for (const std::string_view text : texts) put(text);
    if (waiting_.size() >= kMostWaiting) flush();
  }

  void flush() {
    for (std::size_t done = 0; done < waiting_.size();) {
      const ssize_t n = write(descriptor_, waiting_.data() + done, waiting_.size() - done);
      if (n < 0 && errno != EINTR) _exit(1);
      done += static_cast<std::size_t>(std::max<ssize_t>(n, 0));
    }
    waiting_.clear();
  }

 private:
  static constexpr std::size_t kMostWaiting = std::size_t{1} << 16U;

  void put(std::uint64_t number) {
    waiting_.append(reinterpret_cast<const char*>(&number), sizeof number);
    n_bytes_ += sizeof number;
  }
  void put(std::string_view text) {
    put(std::uint64_t{text.size()});
    n_bytes_ += text.size();
    if (n_bytes_ > kMostMemory) throw TooLarge();  // of the other process as well
    waiting_ += text;
  }

  int descriptor_;
  std::string waiting_;
  std::uint64_t n_bytes_ = 0;
};

// The other end: what was sent, up to its end.
class TextReceiver {
 public:
  explicit TextReceiver(int descriptor) {
    std::array<char, 1 << 16> bytes;
    for (;;) {
      const ssize_t n = ::read(descriptor, bytes.data(), bytes.size());
      if (n == 0 || (n < 0 && errno != EINTR)) break;
      sent_.append(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    }
    rest_ = sent_;
  }
  TextReceiver(const TextReceiver&) = delete;
  TextReceiver& operator=(const TextReceiver&) = delete;

  std::shared_ptr<const Texts> texts() {
    auto texts = std::make_shared<Texts>();
    while (!rest_.empty()) {
      const haddr_t object = number();
      std::string attribute = text();
      std::vector<std::string> found;
      for (std::uint64_t left = number(); left > 0 && !rest_.empty(); --left) found.push_back(text());
      texts->add(object, std::move(attribute), std::move(found));
    }
    return texts;
  }

 private:
  std::uint64_t number() {
    std::uint64_t number = 0;
    std::memcpy(&number, rest_.data(), std::min(rest_.size(), sizeof number));
    rest_.remove_prefix(std::min(rest_.size(), sizeof number));
    return number;
  }
  std::string text() {
    const std::uint64_t size = number();
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(text.size());
    return text;
  }

  std::string sent_;
  std::string_view rest_;
};

class Walk {
 public:
  Walk(const std::string& file, Footprint& footprint, TextSender& texts)
      : footprint_(footprint), texts_(texts) {
    footprint_.be_at("/");
    const Handle access = held(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    use_input_driver(access.id(), file);
    file_ = held(H5Fopen(file.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose);
  }

  void go(const std::string& part) {
    if (!file_) return;
    const Handle root = held(H5Gopen2(file_.id(), "/", H5P_DEFAULT), H5Gclose);
    if (!root) return;
    look_at_attributes(root.id(), "/");
    H5G_info_t info;
    if (!went(H5Gget_info(root.id(), &info))) return;
    const bool all = info.nlinks <= kMostParts;
    footprint_.all = all;
    each_member(root.id(), "/", [&](const Handle& object, const std::string& name, const std::string& path) {
      look_at(object, path, all || name == part ? 1 : kDeepest - 1);
    });
  }

 private:
  // Members by hard links: all others lead elsewhere, and are refused.
  template <typename Visit>
  void each_member(hid_t group, const std::string& path, const Visit& visit) {
    H5G_info_t info;
    if (!went(H5Gget_info(group, &info))) return;
    for (hsize_t i = 0; i < info.nlinks; ++i) {
      const std::string name = member_name(group, i);
      if (!is_member_name(name)) continue;
      const std::string at = fmt::format("{}{}{}", path, path == "/" ? "" : "/", name);
      footprint_.be_at(at);
      H5L_info_t link;
      if (!went(H5Lget_info(group, name.c_str(), &link, H5P_DEFAULT)) || link.type != H5L_TYPE_HARD) continue;
      if (const Handle object = held(H5Oopen(group, name.c_str(), H5P_DEFAULT), H5Oclose); object)
        visit(object, name, at);
    }
  }

  // Of any length, as those who read it have it. Empty: HDF5 gives none.
  static std::string member_name(hid_t group, hsize_t i) {
    const auto get = [&](char* name, std::size_t size) {
      const ssize_t length =
          H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, size, H5P_DEFAULT);
      return went(length < 0 ? -1 : 0) ? static_cast<std::size_t>(length) : 0;
    };
    std::string name(get(nullptr, 0), '\0');
    if (!name.empty() && get(name.data(), name.size() + 1) != name.size()) name.clear();
    return name.substr(0, name.find('\0'));
  }

  void look_at(const Handle& object, const std::string& path, int depth) {
    H5O_info_t info;
    if (!went(H5Oget_info2(object.id(), &info, H5O_INFO_BASIC)) || !seen_.insert(info.addr).second) return;
    look_at_attributes(object.id(), path);
    if (info.type == H5O_TYPE_DATASET) look_at_dataset(object.id());
    if (info.type == H5O_TYPE_GROUP && depth < kDeepest)
      each_member(object.id(), path, [&](const Handle& member, const std::string&, const std::string& at) {
        look_at(member, at, depth + 1);
      });
  }

  void look_at_attributes(hid_t object, const std::string& path) {
    H5O_info_t info;
    if (!went(H5Oget_info2(object, &info, H5O_INFO_BASIC | H5O_INFO_NUM_ATTRS))) return;
    went(H5Aexists(object, "\n"));  // looks at every name on another way than those by number do
    for (hsize_t i = 0; i < info.num_attrs; ++i) {
      footprint_.be_at(fmt::format("{}, attribute {}", path, i));
      const Handle attribute = held(
          H5Aopen_by_idx(object, ".", H5_INDEX_NAME, H5_ITER_INC, i, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
      if (!attribute) continue;
      const std::string name = attribute_name(attribute.id());
      if (!name.empty()) footprint_.be_at(fmt::format("{}, attribute '{}'", path, name));
      read(attribute.id(), info.addr, name);
    }
  }

  static std::string attribute_name(hid_t attribute) {
    const ssize_t length = H5Aget_name(attribute, 0, nullptr);
    if (!went(length < 0 ? -1 : 0)) return {};
    std::string name(static_cast<std::size_t>(length), '\0');
    return went(H5Aget_name(attribute, name.size() + 1, name.data()) < 0 ? -1 : 0) ? name : std::string();
  }

  //   object: that has it
  void read(hid_t attribute, haddr_t object, const std::string& name) {
    const Handle type = held(H5Aget_type(attribute), H5Tclose),
                 space = held(H5Aget_space(attribute), H5Sclose);
    if (!type || !space) return;
    const hssize_t n = H5Sget_simple_extent_npoints(space.id());
    const std::size_t size = H5Tget_size(type.id());
    if (n <= 0 || size == 0) return;
    if (static_cast<std::uint64_t>(n) > kMostMemory / size) throw TooLarge();
    std::vector<std::byte> values(static_cast<std::size_t>(n) * size);
    if (!went(H5Aread(attribute, type.id(), values.data()))) return;
    if (H5Tis_variable_str(type.id()) > 0 && size == sizeof(const char*)) {
      std::vector<const char*> raw(static_cast<std::size_t>(n));
      std::memcpy(raw.data(), values.data(), raw.size() * sizeof(const char*));
      std::vector<std::string_view> texts;
      texts.reserve(raw.size());
      for (const char* text : raw) texts.emplace_back(text == nullptr ? "" : text);
      texts_.send(object, name, texts);
    }
    if (H5Tdetect_class(type.id(), H5T_VLEN) > 0 || H5Tis_variable_str(type.id()) > 0)
      H5Dvlen_reclaim(type.id(), space.id(), H5P_DEFAULT, values.data());
  }

  // Of a chunked dataset all chunks are found, and none is read.
  static void look_at_dataset(hid_t dataset) {
    const Handle type = held(H5Dget_type(dataset), H5Tclose), space = held(H5Dget_space(dataset), H5Sclose);
    const Handle properties = held(H5Dget_create_plist(dataset), H5Pclose);
    if (!type || !space || !properties || H5Pget_layout(properties.id()) != H5D_CHUNKED) return;
    hsize_t n_chunks = 0;
    if (!went(H5Dget_num_chunks(dataset, space.id(), &n_chunks)) || n_chunks == 0) return;
    std::vector<hsize_t> offset(H5S_MAX_RANK);
    unsigned filters = 0;
    haddr_t address = 0;
    hsize_t bytes = 0;
    went(H5Dget_chunk_info(dataset, space.id(), n_chunks - 1, offset.data(), &filters, &address, &bytes));
  }

  Footprint& footprint_;
  TextSender& texts_;
  Handle file_;
  std::set<haddr_t> seen_;
};

// Address space of this process, in bytes.
[[maybe_unused]] rlim_t own_memory() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// What is allocated from now on, and what lies beyond it, is filled with what could not pass for sound:
// memory that was never used is zero, and whoever reads beyond an array sees nothing wrong there.
void fill_memory() {
  mallopt(M_PERTURB, 0x5A);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  constexpr std::size_t kBlock = 1 << 14, kFilled = 1 << 22;
  std::vector<std::unique_ptr<std::byte[]>> blocks;
  blocks.reserve(kFilled / kBlock);
  for (std::size_t i = 0; i < kFilled / kBlock; ++i)
    blocks.push_back(std::make_unique_for_overwrite<std::byte[]>(kBlock));
}

void limit(int resource, rlim_t most) {
  const rlimit limits{most, most};
  setrlimit(static_cast<__rlimit_resource>(resource), &limits);
}

// Never returns, whatever is thrown: no destructor, no buffer and no file of this process is the copy's to
// end.
//   pipe: where texts are handed over
[[noreturn]] void walk_and_exit(const std::string& file, const std::string& part, int pipe,
                                Footprint& footprint) {
  constexpr int kPipe = STDERR_FILENO + 1;
  if (pipe != kPipe && dup2(pipe, kPipe) < 0) _exit(1);
  close_range(kPipe + 1, ~0U, 0);  // locks of the process that this one is a copy of
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM, SIGXCPU})
    std::signal(signal, SIG_DFL);
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_IGN);  // which it ends soon enough for
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, kMostSeconds);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which reserve all there is
  limit(RLIMIT_AS, own_memory() + kMostMemory);
#endif
  fill_memory();
  alarm(kMostWaitSeconds);
  try {
    TextSender texts(kPipe);
    Walk(file, footprint, texts).go(part);
    texts.flush();
    footprint.end = Footprint::End::kSound;
  } catch (const TooLarge&) {
    footprint.end = Footprint::End::kTooLarge;
  } catch (const std::bad_alloc&) {
    footprint.end = Footprint::End::kTooLarge;
  } catch (const FileError&) {
    footprint.end = Footprint::End::kSound;  // whoever reads it says it again
  } catch (...) {
    _exit(1);
  }
  _exit(0);
}

// Memory that a process made by `fork` writes to for this one.
class SharedFootprint {
 public:
  SharedFootprint()
      : memory_(mmap(nullptr, sizeof(Footprint), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED)
      throw FileError(fmt::format("no memory to check a file in: {}", std::strerror(errno)));
    new (memory_) Footprint;
  }
  SharedFootprint(const SharedFootprint&) = delete;
  SharedFootprint& operator=(const SharedFootprint&) = delete;
  ~SharedFootprint() { munmap(memory_, sizeof(Footprint)); }

  Footprint& operator*() const { return *static_cast<Footprint*>(memory_); }
  Footprint* operator->() const { return static_cast<Footprint*>(memory_); }

 private:
  void* memory_;
};

// "it crashes HDF5 1.10.8 (Segmentation fault)"
std::string what_happened(int status, const rusage& used, Footprint::End end) {
  const std::string library = fmt::format("HDF5 {}.{}.{}", H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE);
  if (end == Footprint::End::kTooLarge)
    return fmt::format("{} asks for more than {} MiB to read it", library, kMostMemory >> 20U);
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  const bool out_of_time =
      static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1 >= kMostSeconds;
  if (signal == SIGXCPU || (signal == SIGKILL && out_of_time))
    return fmt::format("{} does not come to an end within {} seconds", library, kMostSeconds);
  if (signal == SIGALRM)
    return fmt::format("{} does not come to an end within {} seconds", library, kMostWaitSeconds);
  return fmt::format("it crashes {} ({})", library, signal == 0 ? "an exit" : strsignal(signal));
}

// What a walk has found.
struct WalkResult {
  bool all = false;  // the file was walked, and not the part alone
  std::shared_ptr<const Texts> texts;
};

WalkResult walk_apart(const std::string& file, const std::string& part) {
  const SharedFootprint footprint;
  std::array<int, 2> ends{-1, -1};
  pid_t child = -1;
  if (pipe2(ends.data(), O_CLOEXEC) == 0) {
    const Lock lock;  // so that the copy's HDF5 is at rest
    child = fork();
    if (child == 0) walk_and_exit(file, part, ends[1], *footprint);
  }
  const int error = errno;
  const Descriptor receiving(ends[0]);
  if (ends[1] >= 0) close(ends[1]);
  if (child < 0)
    throw FileError(fmt::format("{}: no process to check it in: {}", file, std::strerror(error)));
  TextReceiver received(receiving.id());
  int status = 0;
  rusage used{};
  while (wait4(child, &status, 0, &used) < 0)
    if (errno != EINTR) break;  // where children that end are ignored, the footprint alone tells
  if (footprint->end == Footprint::End::kSound) return {footprint->all, received.texts()};
  throw FileError(fmt::format("{}: damaged at {}: {}; {}", file, footprint->place.data(),
                              what_happened(status, used, footprint->end), kAsWritten));
}

constexpr const char* kAllParts = "/";  // no part is called so

// A file as it was when it was walked, and which part.
using Walked = std::tuple<dev_t, ino_t, off_t, std::int64_t, std::int64_t, std::string>;

std::atomic<bool>& walks() {
  static std::atomic<bool> walk = true;
  return walk;
}

constexpr std::array kCrashes{SIGSEGV, SIGABRT, SIGFPE};
std::array<struct sigaction, kCrashes.size()> other_actions;

void say(std::string_view text) {
  [[maybe_unused]] const ssize_t n = write(STDERR_FILENO, text.data(), text.size());
}

// Of a thread that reads by HDF5 the process ends with a sentence; any other crash is what it was.
void end_with_sentence(int signal) {
  if (const std::string* place = Lock::place(); place != nullptr) {
    say("keyscope: ");
    for (const char c : *place) say(c < ' ' || c > '~' ? std::string_view("?") : std::string_view(&c, 1));
    say(": damaged: it crashes HDF5; ");
    say(kAsWritten);
    say("\n");
    _exit(1);
  }
  for (std::size_t i = 0; i < kCrashes.size(); ++i)
    if (kCrashes[i] == signal) sigaction(signal, &other_actions[i], nullptr);
  raise(signal);
}

// What was walked can crash HDF5 here all the same: what lies beyond an array is another thing in every
// process.
void tell_of_crashes() {
  static std::once_flag told;
  std::call_once(told, [] {
    struct sigaction action {};
    action.sa_handler = end_with_sentence;
    for (std::size_t i = 0; i < kCrashes.size(); ++i) sigaction(kCrashes[i], &action, &other_actions[i]);
  });
}

}  // namespace

void walk_files(bool walk) { walks() = walk; }

std::shared_ptr<const Texts> require_sound(const std::filesystem::path& file, const std::string& part) {
  static std::mutex guard;
  static std::map<Walked, std::shared_ptr<const Texts>> sound;
  struct stat about {};
  if (!walks() || stat(file.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) return nullptr;
  tell_of_crashes();
  const auto now = [&](const std::string& what) {
    return Walked{about.st_dev,         about.st_ino,          about.st_size,
                  about.st_mtim.tv_sec, about.st_mtim.tv_nsec, what};
  };
  const Walked this_part = now(part), all = now(kAllParts);
  {
    const std::lock_guard lock(guard);
    for (const Walked& walked : {this_part, all})
      if (const auto found = sound.find(walked); found != sound.end()) return found->second;
  }
  WalkResult found = walk_apart(file.string(), part);
  const std::lock_guard lock(guard);
  return sound[found.all ? all : this_part] = std::move(found.texts);
}

}  // namespace keyscope::recording::hdf5
