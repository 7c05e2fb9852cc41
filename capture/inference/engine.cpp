#include "capture/inference/engine.hpp"

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include "base/errors.hpp"
#include "base/program.hpp"

// Where the program is linked with the engine: tests and benchmarks are.
extern "C" [[gnu::weak]] const keyscope::capture::Engine* keyscope_engine();

namespace keyscope::capture {

namespace {

// What LibTorch's libraries take of the address space. Where that is limited to less, an exception within
// their loading ends the process.
constexpr std::size_t kAddressBytes = std::size_t{768} << 20;

void require_address_space() {
  void* const space =
      mmap(nullptr, kAddressBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED)
    throw Error(
        fmt::format("what computes models cannot be opened: {}; expected {} MiB of addresses for its "
                    "libraries, so raise `ulimit -v`",
                    std::strerror(errno), kAddressBytes >> 20));
  munmap(space, kAddressBytes);
}

const Engine& find_engine() {
  if (&keyscope_engine != nullptr) return *keyscope_engine();
  require_address_space();
  const std::filesystem::path library = program_path().parent_path() / "libkeyscope_engine.so";
  // What it needs is found by the libraries that LibTorch opens later, as if the program was linked with it.
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* const entry = handle == nullptr ? nullptr : dlsym(handle, "keyscope_engine");
  if (entry == nullptr) {
    const char* reason = dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps one for each thread
    throw Error(
        fmt::format("what computes models cannot be opened: {}; expected {}, which `./run build` makes "
                    "beside the program",
                    reason == nullptr ? "no reason given" : reason, library.string()));
  }
  return *reinterpret_cast<const Engine* (*)()>(entry)();
}

// Whether some thread beside this one has something to do at this moment.
bool others_run() {
  std::ifstream file("/proc/stat");
  std::string name;
  for (int n_running = 0; file >> name; std::getline(file, name))
    if (name == "procs_running") return file >> n_running && n_running > 1;
  return false;
}

}  // namespace

// NOLINTBEGIN(concurrency-mt-unsafe): before there are threads
void let_threads_sleep_on_busy_machines() {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  constexpr int kLooks = 3;  // what runs for a moment only is no load
  for (int look = 0; look < kLooks; ++look) {
    if (!others_run()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  setenv("OMP_WAIT_POLICY", "passive", 0);
}
// NOLINTEND(concurrency-mt-unsafe)

const Engine& engine() {
  static const Engine& found = find_engine();
  return found;
}

std::shared_ptr<const Model> Model::load(const std::filesystem::path& named, const ModelOptions& options) {
  return engine().load_model(named, options);
}

RotaryAngles rotary_angles(const ModelConfig& config, std::int64_t n) {
  return engine().rotary_angles(config, n);
}

std::vector<RunOutcome> run_capture(const Model& model, const CaptureOptions& options,
                                    std::span<recording::RecordSink* const> sinks, CaptureControl& control) {
  return engine().run_capture(model, options, sinks, control);
}

CaptureEstimate estimate_capture(const Model& model, const recording::RecordPlan& plan) {
  return engine().estimate_capture(model, plan);
}

CompletionCost complete_prompts(const Model& model, const CompletionSettings& settings,
                                std::span<const CompletionRequest> requests, const CompletionWatch& watch) {
  return engine().complete_prompts(model, settings, requests, watch);
}

}  // namespace keyscope::capture
