#include "tests/support/cli.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

namespace keyscope::test {

CliProcess::CliProcess(const std::vector<std::string>& arguments, const std::filesystem::path& folder)
    : child_(fork()) {
  if (child_ < 0) throw std::runtime_error("no process could be started");
  if (child_ > 0) return;
  std::vector<char*> words{const_cast<char*>(KEYSCOPE_EXECUTABLE)};
  for (const auto& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  if (chdir(folder.c_str()) == 0) execv(KEYSCOPE_EXECUTABLE, words.data());
  _exit(127);
}

namespace {

int signal_and_wait(pid_t child, int signal) {
  int status = 0;
  kill(child, signal);
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

CliProcess::~CliProcess() {
  if (child_ > 0) signal_and_wait(child_, SIGKILL);
}

int CliProcess::end_by(int signal) {
  if (child_ <= 0) throw std::logic_error("the process was ended before");
  const int status = signal_and_wait(child_, signal);
  child_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void wait_for_file(const std::filesystem::path& file) {
  for (int i = 0; i < 6000 && !std::filesystem::exists(file); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

namespace {

// For a POSIX shell; no `+` on strings here, about which GCC 12 warns falsely (bug 105651).
std::string quote(const std::string& word) {
  std::string quoted(1, '\'');
  for (const char c : word) {
    if (c == '\'') quoted.append("'\\'");
    quoted.push_back(c);
  }
  quoted.push_back('\'');
  return quoted;
}

std::string slurp(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

CliResult run_cli(const std::vector<std::string>& arguments, const std::string& input,
                  const std::filesystem::path& folder) {
  const ScratchFolder files;
  std::ofstream(files.path() / "in", std::ios::binary) << input;
  std::string command =
      fmt::format("cd {} && env -u DISPLAY {}", quote(folder.string()), quote(KEYSCOPE_EXECUTABLE));
  for (const auto& argument : arguments) command += fmt::format(" {}", quote(argument));
  command += fmt::format(" <{} >{} 2>{}", quote((files.path() / "in").string()),
                         quote((files.path() / "out").string()), quote((files.path() / "err").string()));
  const int raw = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe): tests are single-threaded
  CliResult result;
  result.status = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
  result.out = slurp(files.path() / "out");
  result.err = slurp(files.path() / "err");
  return result;
}

bool use_python_with_numpy() {
  if (std::getenv("KEYSCOPE_PYTHON") != nullptr) return true;
  for (const std::string python : {"python3", "/usr/bin/python3"})
    if (std::system((python + " -c 'import numpy' >/dev/null 2>&1").c_str()) == 0) {
      setenv("KEYSCOPE_PYTHON", python.c_str(), 1);
      return true;
    }
  return false;
}

}  // namespace keyscope::test
