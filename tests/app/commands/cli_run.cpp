#include "tests/app/commands/cli_run.hpp"

#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <sys/wait.h>

namespace keyscope::test {
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

}  // namespace keyscope::test
