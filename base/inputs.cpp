#include "base/inputs.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include <sys/stat.h>

#include "base/files.hpp"

namespace keyscope {

namespace {

namespace fs = std::filesystem;

using FileIdentity = std::pair<dev_t, ino_t>;  // whatever it is called

std::optional<FileIdentity> identity_of_file(const fs::path& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return std::nullopt;
  return FileIdentity(found.st_dev, found.st_ino);
}

struct Inputs {
  std::mutex mutex;
  std::map<FileIdentity, fs::path> files;
};

Inputs& inputs() {
  static Inputs all;
  return all;
}

bool is_read_of_folder(const fs::path& file) {
  static const std::set<std::string> extensions{".safetensors", ".gguf",  ".model",
                                                ".jinja",       ".jsonl", ".txt"};
  static const std::set<std::string> names{"config.json",
                                           "generation_config.json",
                                           "tokenizer.json",
                                           "tokenizer_config.json",
                                           "added_tokens.json",
                                           "vocab.json",
                                           "quantize_config.json",
                                           "quant_config.json",
                                           "chat_template.json",
                                           "special_tokens_map.json",
                                           "plan.json",
                                           "model.safetensors.index.json"};
  return extensions.contains(file.extension()) || names.contains(file.filename());
}

}  // namespace

void note_input(const fs::path& file) {
  const auto found = identity_of_file(file);
  const std::lock_guard lock(inputs().mutex);
  if (found) inputs().files.insert_or_assign(*found, full_path(file));
}

void note_named_input(const fs::path& path) {
  std::error_code none;
  note_input(path);
  for (const auto& entry : fs::directory_iterator(path, none))
    if (is_read_of_folder(entry.path())) note_input(entry.path());
}

// One that has gone may have left its number to another file.
bool is_input(const fs::path& path) {
  const auto file = identity_of_file(path);
  const std::lock_guard lock(inputs().mutex);
  if (!file || !inputs().files.contains(*file)) return false;
  return identity_of_file(inputs().files.at(*file)) == file;
}

}  // namespace keyscope
