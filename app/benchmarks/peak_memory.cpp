#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/benchmarks/benchmark.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "capture/model/model.hpp"

namespace keyscope::benchmarks {
namespace {

nlohmann::json setting_json(const Setting& setting) {
  return {{"model", setting.model},     {"dtype", setting.dtype},     {"device", setting.device},
          {"kernels", setting.kernels}, {"threads", setting.threads}, {"weight_bytes", setting.weight_bytes}};
}

Setting setting_from(const nlohmann::json& from) {
  return {from.at("model"),   from.at("dtype"),   from.at("device"),
          from.at("kernels"), from.at("threads"), from.at("weight_bytes")};
}

// A pipe's two ends, closed with it.
class Pipe {
 public:
  Pipe() {
    if (::pipe(ends_.data()) != 0)
      throw Error(fmt::format("a pipe could not be made: {}", std::strerror(errno)));
  }
  ~Pipe() { close_read(), close_write(); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  void close_read() { close(ends_[0]); }
  void close_write() { close(ends_[1]); }

 private:
  static void close(int& end) {
    if (end >= 0) ::close(end);
    end = -1;
  }
  std::array<int, 2> ends_{-1, -1};
};

// The result of one combination, or what went wrong, as the parent will read it.
std::string run_and_describe(const std::filesystem::path& folder, const capture::ModelOptions& model_options,
                             const capture::CaptureOptions& options) {
  nlohmann::json json;
  try {
    const auto model = capture::Model::load(folder, model_options);
    capture::CaptureControl control;
    const auto outcomes = capture::run_capture(*model, options, {}, control);
    json["setting"] = setting_json(setting_of(*model));
    json["rows"] = outcomes.front().peak_cache_rows;
    json["cache_bytes"] = outcomes.front().peak_cache_bytes;
    json["peak_bytes"] = model->peak_memory();
  } catch (const UsageError& error) {
    json = {{"error", error.what()}, {"usage", true}};
  } catch (const std::bad_alloc&) {
    json = {{"error", "memory ran out; try fewer tokens or a smaller --block"}, {"usage", false}};
  } catch (const std::exception& error) {
    json = {{"error", error.what()}, {"usage", false}};
  }
  return json_text(json);
}

[[noreturn]] void end_child(Pipe& pipe, const std::string& text) {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = ::write(pipe.write_end(), text.data() + written, text.size() - written);
    if (n < 0 && errno != EINTR) _exit(1);
    if (n > 0) written += n;
  }
  _exit(0);  // what the parent has to write at its end is not written twice
}

// All that the child says; it is killed where the benchmark is cancelled meanwhile.
std::string read_all(const Pipe& pipe, pid_t child, const Monitor& monitor) {
  constexpr int kWaitMilliseconds = 100;
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    pollfd ready{pipe.read_end(), POLLIN, 0};
    const int n_ready = ::poll(&ready, 1, kWaitMilliseconds);
    if (monitor.control.cancelled()) ::kill(child, SIGKILL);
    if (n_ready <= 0) continue;
    const ssize_t n = ::read(pipe.read_end(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(buffer.data(), n);
  }
}

nlohmann::json run_apart(const std::filesystem::path& folder, const capture::ModelOptions& model_options,
                         const capture::CaptureOptions& options, const std::string& label, Monitor& monitor) {
  Pipe pipe;
  const pid_t child = ::fork();
  if (child < 0) throw Error(fmt::format("a process could not be started: {}", std::strerror(errno)));
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    pipe.close_read();
    end_child(pipe, run_and_describe(folder, model_options, options));
  }
  pipe.close_write();
  const std::string text = read_all(pipe, child, monitor);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  monitor.control.wait_for_turn();  // throws where it was cancelled
  if (WIFSIGNALED(status))
    throw Error(fmt::format("{}: the process that ran it was ended by signal {}; memory may have run out",
                            label, WTERMSIG(status)));
  nlohmann::json json = parse_json(text);
  if (!json.is_object()) throw Error(fmt::format("{}: the process that ran it said nothing", label));
  if (!json.contains("error")) return json;
  if (json.at("usage")) throw UsageError(json.at("error").get<std::string>());
  throw Error(json.at("error").get<std::string>());
}

}  // namespace

Benchmark measure_peak_memory(const std::filesystem::path& model_folder,
                              const capture::ModelOptions& model_options, const Sweep& sweep,
                              const std::vector<std::int32_t>& prompt, Monitor& monitor) {
  Benchmark benchmark{.name = "memory", .setting = {}, .repeat = sweep.repeat, .seed = sweep.seed};
  benchmark.load_before = load_average();
  const std::vector<Case> cases = cases_of(sweep);
  const std::int64_t n_runs = sweep.repeat * static_cast<std::int64_t>(cases.size());
  std::int64_t done = 0;
  for (const Case& each : cases) {
    Row row = row_of(each);
    std::vector<double> peaks;
    for (std::int64_t i = 0; i < sweep.repeat; ++i) {
      monitor.report(done++, n_runs, each.label());
      const nlohmann::json json =
          run_apart(model_folder, model_options, capture_options(each, prompt, sweep), each.label(), monitor);
      benchmark.setting = setting_from(json.at("setting"));
      row.peak_cache_rows = json.at("rows").get<std::int64_t>();
      row.peak_cache_bytes = json.at("cache_bytes").get<std::int64_t>();
      peaks.push_back(json.at("peak_bytes").get<double>());
    }
    row.peak_bytes = spread_of(std::move(peaks));
    benchmark.rows.push_back(std::move(row));
  }
  benchmark.load_after = load_average();
  return benchmark;
}

}  // namespace keyscope::benchmarks
