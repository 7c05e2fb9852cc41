#include "tests/app/commands/cli_process.hpp"

#include <chrono>
#include <csignal>
#include <stdexcept>
#include <thread>

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

CliProcess::~CliProcess() {
  if (child_ > 0) end_by(SIGKILL);
}

int CliProcess::end_by(int signal) {
  if (child_ <= 0) throw std::logic_error("the process was ended before");
  int status = 0;
  kill(child_, signal);
  waitpid(child_, &status, 0);
  child_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void wait_for_file(const std::filesystem::path& file) {
  for (int i = 0; i < 6000 && !std::filesystem::exists(file); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace keyscope::test
