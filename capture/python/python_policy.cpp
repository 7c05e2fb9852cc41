#include "capture/python/python_policy.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analysis/policies/slot_selection.hpp"
#include "analysis/policies/slots.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/program.hpp"
#include "base/sha256.hpp"
#include "base/shared_memory.hpp"

namespace keyscope::capture {

namespace {

using analysis::PolicyInput;
using analysis::PolicyNeeds;
using Json = nlohmann::json;

constexpr std::string_view kPrefix = "python:";
constexpr int kMemoryInWorker = 3;  // file descriptor

struct FunctionName {
  std::string file, function;

  std::string text() const { return fmt::format("{}{}:{}", kPrefix, file, function); }
};

FunctionName parse_name(std::string_view text) {
  const std::string_view name = text.substr(kPrefix.size());
  const auto colon = name.rfind(':');
  if (colon == name.npos || colon == 0 || colon + 1 == name.size())
    throw UsageError(fmt::format("policy {}: expected python:FILE.py:FUNCTION", shown(std::string(text))));
  return {std::string(name.substr(0, colon)), std::string(name.substr(colon + 1))};
}

// A process that scores rows, one head at a time, and is killed with its object.
class Worker {
 public:
  Worker(const FunctionName& name, const SharedMemory& memory, const std::atomic<bool>& cancelled)
      : name_(name), cancelled_(cancelled) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw Error(fmt::format("policy {}: no socket for its process: {}", name.text(), std::strerror(errno)));
    socket_ = ends[0];
    const int error = start(ends[1], memory.descriptor());
    close(ends[1]);
    if (error != 0) {
      close(socket_);
      throw UsageError(
          fmt::format("policy {}: {} cannot be started: {}; policies in Python need Python with NumPy: "
                      "install it, or name "
                      "another one in KEYSCOPE_PYTHON",
                      name.text(), python_program(), std::strerror(error)));
    }
    const std::string_view policies = policies_py, worker = policy_worker_py;
    send(json_text(Json::array({policies.size(), worker.size(), name.text()})) + "\n");
    send(policies);
    send(worker);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    close(socket_);
    kill(-process_, SIGKILL);  // with the processes that the policy has started
    waitpid(process_, nullptr, 0);
  }

  // What the function needs: the first thing that a process says.
  PolicyNeeds needs() {
    const Json said = receive_header().at("needs");
    return {.values = said.at("values").get<bool>(),
            .last_row_group = said.at("last_row").get<bool>(),
            .attention_received = said.at("attention_received").get<bool>(),
            .window = said.at("window").get<int>()};
  }

  void score(const Json& request, std::span<double> scores) {
    send(json_text(request) + "\n");
    const Json header = receive_header();
    receive(std::as_writable_bytes(scores).first(
        std::min(scores.size(), header.at("scores").get<std::size_t>()) * sizeof(double)));
  }

  // Where an array of a request lies in the memory: where it is, or copied to a place that is kept for it.
  std::int64_t place(SharedMemory& memory, const char* name, std::span<const std::byte> bytes) {
    if (const std::int64_t here = memory.offset_of(bytes.data()); here >= 0) return here;
    auto& [copy, size] = copies_[name];
    if (size < std::ssize(bytes) || copy == nullptr) {
      size = std::max<std::int64_t>(2 * size, std::ssize(bytes));
      copy = memory.take(size);
    }
    if (!bytes.empty()) std::memcpy(copy.get(), bytes.data(), bytes.size());
    return memory.offset_of(copy.get());
  }

 private:
  int start(int socket, int memory) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, memory, kMemoryInWorker);
    const SpawnAttributes attributes(POSIX_SPAWN_SETPGROUP);  // of a process group of its own
    std::string program = python_program(), option = "-c", boot = policy_boot_py;
    char* const arguments[] = {program.data(), option.data(), boot.data(), nullptr};
    const int error =
        posix_spawnp(&process_, program.c_str(), &actions, attributes.get(), arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
  }

  [[noreturn]] void fail_ended() {
    if (cancelled_) throw Cancelled("interrupted");
    siginfo_t how{};
    waitid(P_PID, static_cast<id_t>(process_), &how, WEXITED | WNOWAIT);
    throw Error(fmt::format("policy {}: its process ended, with {} {}", name_.text(),
                            how.si_code == CLD_EXITED ? "status" : "signal", how.si_status));
  }

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_ended();
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  // Whether the process has ended. Its end of the socket may still be open in one that it has started.
  bool has_ended() const {
    siginfo_t how{};
    return waitid(P_PID, static_cast<id_t>(process_), &how, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           how.si_pid != 0;
  }

  // As many bytes as fit, one at least. Looks every now and then whether the work was cancelled.
  std::size_t receive_some(std::span<std::byte> bytes) {
    constexpr int kLookEveryMs = 50;
    for (;;) {
      if (cancelled_) throw Cancelled("interrupted");
      pollfd socket{socket_, POLLIN, 0};
      const bool ended = has_ended();  // before it is seen whether there is more to read
      if (poll(&socket, 1, kLookEveryMs) <= 0) {
        if (ended) fail_ended();
        continue;
      }
      const ssize_t n = recv(socket_, bytes.data(), bytes.size(), 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail_ended();
      return static_cast<std::size_t>(n);
    }
  }

  void receive(std::span<std::byte> bytes) {
    const std::size_t n_ahead = std::min(bytes.size(), ahead_.size());
    std::memcpy(bytes.data(), ahead_.data(), n_ahead);
    ahead_.erase(0, n_ahead);
    for (bytes = bytes.subspan(n_ahead); !bytes.empty();) bytes = bytes.subspan(receive_some(bytes));
  }

  Json receive_header() {
    std::size_t end = ahead_.find('\n');
    while (end == std::string::npos) {
      std::byte piece[4096];
      const std::size_t n = receive_some(piece), seen = ahead_.size();
      ahead_.append(reinterpret_cast<const char*>(piece), n);
      end = ahead_.find('\n', seen);
    }
    Json header = parse_json(ahead_.substr(0, end));
    ahead_.erase(0, end + 1);
    if (!header.is_object()) throw Error(fmt::format("policy {}: its process said no JSON", name_.text()));
    if (header.contains("error")) throw Error(header.at("error").get<std::string>());
    return header;
  }

  const FunctionName& name_;
  const std::atomic<bool>& cancelled_;
  pid_t process_ = 0;
  int socket_ = -1;
  std::string ahead_;  // received and not read yet
  std::map<std::string, std::pair<std::shared_ptr<std::byte>, std::int64_t>> copies_;
};

// What `score` has found to be forced, for the `force` that follows it on the same thread.
struct ForcedRows {
  const void* positions = nullptr;  // whose rows they are
  std::vector<std::uint8_t> rows;
};

ForcedRows& forced_rows() {
  thread_local ForcedRows rows;
  return rows;
}

class PythonPolicy final : public analysis::Policy {
 public:
  explicit PythonPolicy(FunctionName name) : name_(std::move(name)), memory_(SharedMemory::create()) {
    try {
      idle_.push_back(std::make_unique<Worker>(name_, *memory_, cancelled_));
      needs_ = idle_.back()->needs();
    } catch (const UsageError&) {
      throw;
    } catch (const Error& error) {
      throw UsageError(error.what());
    }
  }

  PolicyNeeds needs() const override { return needs_; }
  std::shared_ptr<SharedMemory> row_memory() const override { return memory_; }
  void cancel() const override { cancelled_ = true; }

  void score(const PolicyInput& input, std::span<double> scores) const override {
    std::unique_ptr<Worker> worker = take_worker();
    worker->score(request_of(input, *worker), scores);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(worker));
    note_forced(input, scores);
  }

  void force(const PolicyInput& input, std::int64_t /*budget*/,
             std::span<std::uint8_t> forced) const override {
    if (const ForcedRows& found = forced_rows();
        found.positions == input.positions.data() && found.rows.size() == forced.size())
      std::ranges::copy(found.rows, forced.begin());
  }

 private:
  // One that is idle, or a new one: there are as many as threads that score.
  std::unique_ptr<Worker> take_worker() const {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Worker> worker = std::move(idle_.back());
        idle_.pop_back();
        return worker;
      }
    }
    auto worker = std::make_unique<Worker>(name_, *memory_, cancelled_);
    worker->needs();
    return worker;
  }

  Json request_of(const PolicyInput& input, Worker& worker) const {
    Json arrays = Json::object();
    const auto add = [&](const char* name, const auto* data, std::int64_t n_values, auto... shape) {
      const std::span bytes(reinterpret_cast<const std::byte*>(data), n_values * sizeof(*data));
      arrays[name] = {worker.place(*memory_, name, bytes), shape...};
    };
    const std::int64_t n = input.keys.rows();
    add("keys", input.keys.data(), input.keys.size(), n, input.keys.cols());
    add("positions", input.positions.data(), n, n);
    if (needs_.values) add("values", input.values.data(), input.values.size(), n, input.values.cols());
    if (needs_.last_row_group) add("last_row", input.last_row_group.data(), n, n);
    if (needs_.attention_received) {
      add("attention_received", input.attention_received.data(), n, n);
      add("attention_queries", input.attention_queries.data(), n, n);
    }
    if (needs_.window > 0) add("window_sums", input.window_sums.data(), n, n);
    return {{"layer", input.layer},
            {"kv_head", input.kv_head},
            {"n_new_rows", input.n_new_rows},
            {"budget", input.budget},
            {"arrays", std::move(arrays)}};
  }

  // Scores of +inf become the largest finite one: the rows stay whatever they score.
  static void note_forced(const PolicyInput& input, std::span<double> scores) {
    ForcedRows& forced = forced_rows();
    forced.positions = input.positions.data();
    forced.rows.assign(scores.size(), 0);
    double largest = std::numeric_limits<double>::lowest();
    for (const double score : scores)
      if (std::isfinite(score)) largest = std::max(largest, score);
    for (std::size_t row = 0; row < scores.size(); ++row) {
      if (!std::isinf(scores[row])) continue;
      forced.rows[row] = 1;
      scores[row] = largest;
    }
  }

  FunctionName name_;
  std::shared_ptr<SharedMemory> memory_;
  mutable std::atomic<bool> cancelled_ = false;
  PolicyNeeds needs_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Worker>> idle_;
};

}  // namespace

std::string python_program() {
  const char* chosen = std::getenv("KEYSCOPE_PYTHON");
  return chosen != nullptr && *chosen != '\0' ? chosen : "python3";
}

bool is_python_policy(std::string_view text) { return text.starts_with(kPrefix); }

namespace {

// What stands after FUNCTION: the options that every scorer takes.
std::map<std::string, std::string> slots_after(std::string_view text) {
  std::map<std::string, std::string> options;
  while (!text.empty()) {
    const auto end = std::min(text.find(','), text.size());
    const std::string piece(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto equals = std::min(piece.find('='), piece.size());
    const std::string key = piece.substr(0, equals);
    const bool known =
        std::ranges::count(analysis::slot_options(), key, &analysis::OptionDefinition::key) > 0;
    if (!known || equals == piece.size())
      throw UsageError(
          fmt::format("policy python: {} is not an option of it; expected protect=, granularity=, "
                      "split= or critical=, after python:FILE.py:FUNCTION and a comma",
                      shown(piece)));
    if (!options.emplace(key, piece.substr(equals + 1)).second)
      throw UsageError(fmt::format("policy python: option {} is given twice", key));
  }
  return options;
}

// Where the name ends and options begin: at a comma after the function, since a file's name may hold some.
std::size_t end_of_name(std::string_view text) {
  const auto file = text.find(".py:");
  return std::min(file == text.npos ? file : text.find(',', file), text.size());
}

}  // namespace

analysis::Slots python_slots(std::string_view text) {
  return analysis::read_slots(
      {.name = "python", .options = slots_after(text.substr(std::min(end_of_name(text) + 1, text.size())))});
}

analysis::PolicySpec python_policy(std::string_view text) {
  const std::size_t end = end_of_name(text);
  const FunctionName name = parse_name(text.substr(0, end));
  analysis::PolicySpec spec{.name = "python",
                            .options = slots_after(text.substr(std::min(end + 1, text.size())))};
  analysis::read_slots(spec);  // refuses what is not accepted
  spec.options.insert({{"file", name.file}, {"function", name.function}});
  spec.label = name.function;
  spec.own = std::make_shared<const PythonPolicy>(name);
  Sha256 hash;
  hash.add(read_file(name.file));
  spec.options["sha256"] = hash.hex();
  return spec;
}

}  // namespace keyscope::capture
