#include "app/sweep/work_claims.hpp"

#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <limits>
#include <mutex>
#include <random>
#include <sstream>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/program.hpp"

namespace keyscope::sweep {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string drawn_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

// What a claim's file says: the worker on its first line; behind it a count of renewals.
std::string first_content(const WorkerIdentity& worker, std::chrono::milliseconds lease) {
  const Json json = {{"host", worker.host},   {"pid", worker.process}, {"machine", worker.machine},
                     {"began", worker.began}, {"token", worker.token}, {"lease_ms", lease.count()}};
  return json_text(json) + "\n";
}

// As files of others are read: whatever is in them. Opened anew, which is what network file systems need to
// fetch it from where it lies.
std::string content_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream content;
  content << stream.rdbuf();
  return std::move(content).str();
}

nlohmann::json claimant(std::string_view content) {
  nlohmann::json json = parse_json(content.substr(0, content.find('\n')));
  return json.is_object() ? json : nlohmann::json::object();
}

std::string text_in(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::int64_t count_in(const nlohmann::json& json, const char* name, std::int64_t most,
                      std::int64_t otherwise) {
  const auto found = json.find(name);
  return found == json.end() ? otherwise : json_integer(*found, 0, most).value_or(otherwise);
}

}  // namespace

WorkerIdentity WorkerIdentity::of_this_process() {
  const std::int64_t process = getpid();
  return {host_name(), machine_identity(), process, beginning_of_process(process), drawn_token()};
}

std::string WorkerIdentity::name() const { return fmt::format("{}:{}", host, process); }

Claims::Claims(fs::path folder, WorkerIdentity worker, std::chrono::milliseconds lease)
    : folder_(std::move(folder)), worker_(std::move(worker)), lease_(lease) {
  if (!fs::is_directory(folder_)) throw FileError(fmt::format("{}: no such folder", folder_.string()));
}

Claims::~Claims() { give_up(); }

bool Claims::claim(const std::string& name) {
  // What was held when it was looked at last is looked at first: that changes nothing in the folder.
  if (!seen_.contains(name) && hold(name)) return true;
  const std::string content = content_of(folder_ / name);
  return content.empty() ? hold(name) : is_over(name, content) && take_over(name, content);
}

// A file of this worker under a name that no other file has; null where one has it.
std::unique_ptr<Descriptor> Claims::make(const std::string& name) const {
  const fs::path own = folder_ / fmt::format(".{}.{}", name, worker_.token), claim = folder_ / name;
  auto file = std::make_unique<Descriptor>(own, O_WRONLY | O_CREAT | O_EXCL);
  const std::string content = first_content(worker_, lease_);
  const ssize_t written = file->id() < 0 ? -1 : ::write(file->id(), content.data(), content.size());
  if (written != std::ssize(content) || fdatasync(file->id()) != 0) {
    const int error = written >= 0 && written < std::ssize(content) ? ENOSPC : errno;
    ::unlink(own.c_str());
    fail_to("be written", own.string(), error);
  }
  const int error = ::link(own.c_str(), claim.c_str()) == 0 ? 0 : errno;
  // After a lost answer of the file system, the number of the file's names says whether it was done.
  struct stat status {};
  const bool linked = error == 0 || (fstat(file->id(), &status) == 0 && status.st_nlink == 2);
  ::unlink(own.c_str());
  if (!linked && error != EEXIST) fail_to("be claimed", claim.string(), error);
  if (!linked) return nullptr;
  return file;
}

bool Claims::hold(const std::string& name) {
  auto file = make(name);
  if (file == nullptr) return false;
  held_ = name;
  taken_over_ = false;
  file_ = std::move(file);
  seen_.erase(name);
  renewal_ = std::jthread([this](const std::stop_token& stop) { renew(stop); });
  return true;
}

// Whether a claim of another is over: its process has gone, or it has not changed for its lease.
bool Claims::is_over(const std::string& name, const std::string& content) {
  const nlohmann::json holder = claimant(content);
  if (text_in(holder, "machine") == worker_.machine) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    const auto began = static_cast<std::uint64_t>(count_in(holder, "began", kMost, 0));
    if (began != 0 && beginning_of_process(count_in(holder, "pid", kMost, 0)) != began) return true;
  }
  const auto now = Clock::now();
  const auto [seen, is_new] = seen_.try_emplace(name, Seen{content, now});
  if (is_new) return false;
  if (seen->second.content != content) {
    seen->second = {content, now};
    return false;
  }
  constexpr std::int64_t kLongestLease = std::int64_t{1} << 40;  // ms, 35 years: the clock counts nanoseconds
  const std::chrono::milliseconds lease(count_in(holder, "lease_ms", kLongestLease, lease_.count()));
  return now - seen->second.since > lease;
}

// Puts a claim of this worker in the place of one that is over. One worker at a time does so, who has made a
// claim of its own on that, and looks once more: or it could take away what another has just put there.
bool Claims::take_over(const std::string& name, const std::string& content) {
  const std::string taking = fmt::format(".{}.taking", name);
  const auto remove = [&](const std::string& file) { ::unlink((folder_ / file).c_str()); };
  if (make(taking) == nullptr) {
    const std::string other = content_of(folder_ / taking);
    if (!other.empty() && is_over(taking, other)) remove(taking);  // whoever made it has died over it
    return false;
  }
  const bool same = content_of(folder_ / name) == content;
  if (same) remove(name);
  const bool held = same && hold(name);
  taken_over_ = held;
  remove(taking);
  seen_.erase(taking);
  return held;
}

// Four changes a lease, so that late ones do no harm. They are made to the file that was linked: whoever took
// the claim over has another one.
void Claims::renew(const std::stop_token& stop) const {
  const auto head = std::ssize(first_content(worker_, lease_));
  std::mutex mutex;
  std::condition_variable_any wake;
  for (std::int64_t renewals = 1;; ++renewals) {
    std::unique_lock lock(mutex);
    if (wake.wait_for(lock, stop, lease_ / 4, [&] { return stop.stop_requested(); })) return;
    const std::string count = fmt::format("{}\n", renewals);
    if (::pwrite(file_->id(), count.data(), count.size(), head) == std::ssize(count)) fdatasync(file_->id());
  }
}

bool Claims::is_held() const { return !held_.empty() && same_file(file_->id(), folder_ / held_); }

void Claims::give_up() {
  if (held_.empty()) return;
  renewal_ = {};
  if (is_held()) ::unlink((folder_ / held_).c_str());
  held_.clear();
  file_.reset();
}

}  // namespace keyscope::sweep
