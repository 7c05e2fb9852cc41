#include "base/program.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.hpp"

namespace keyscope {

std::filesystem::path program_path() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

namespace {

std::string first_line(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

}  // namespace

// Field 22 of /proc/PID/stat.
std::uint64_t beginning_of_process(std::int64_t process) {
  const std::string line = first_line(fmt::format("/proc/{}/stat", process));
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  constexpr int kAfterName = 20;  // fields 3 to 22
  for (int i = 0; i < kAfterName && fields >> field; ++i)
    if (i == 0 && (field == "Z" || field == "X")) return 0;  // it has ended
  return fields ? std::stoull(field) : 0;
}

std::string machine_identity() {
  std::error_code error;
  const std::filesystem::path names = std::filesystem::read_symlink("/proc/self/ns/pid", error);
  return first_line("/proc/sys/kernel/random/boot_id") + " " + names.string();
}

SpawnAttributes::SpawnAttributes(int flags) {
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_init(&attributes_);
  posix_spawnattr_setsigmask(&attributes_, &none);
  posix_spawnattr_setflags(&attributes_, static_cast<short>(flags | POSIX_SPAWN_SETSIGMASK));
}

SpawnAttributes::~SpawnAttributes() { posix_spawnattr_destroy(&attributes_); }

ChildProgram::ChildProgram(const std::vector<std::string>& words, Output output) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::array<int, 2> ends{-1, -1};
  if (output == Output::kRead && pipe2(ends.data(), O_CLOEXEC) != 0)
    fail_to("be started", words.front(), errno);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (output == Output::kRead)
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  else
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  const SpawnAttributes attributes;
  const int error =
      posix_spawnp(&process_, arguments[0], &actions, attributes.get(), arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (ends[1] >= 0) close(ends[1]);
  out_ = ends[0];
  if (error == 0) return;
  if (out_ >= 0) close(out_);
  fail_to("be started", words.front(), error);
}

ChildProgram::~ChildProgram() {
  if (out_ >= 0) close(out_);
  if (has_ended()) return;
  end();
  wait();
}

void ChildProgram::end() {
  if (!ended_) kill(process_, SIGTERM);
}

bool ChildProgram::has_ended() {
  ended_ = ended_ || waitpid(process_, &status_, WNOHANG) == process_;
  return ended_;
}

bool ChildProgram::was_killed() const { return ended_ && WIFSIGNALED(status_); }

std::string ChildProgram::read() {
  std::string text;
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t n = ::read(out_, part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(n));
  }
}

int ChildProgram::wait() {
  while (!ended_ && (waitpid(process_, &status_, 0) == process_ || errno != EINTR)) ended_ = true;
  return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
}

}  // namespace keyscope
