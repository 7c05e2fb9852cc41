#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "app/results/out_folder.hpp"
#include "app/validation/prompt_record.hpp"

namespace keyscope::validation {

// Where a validation writes: an OutFolder, of which OUT/prompts/KEY.json holds a finished prompt. Every file
// appears under its name when it is complete and on the disk, so that a killed validation leaves whole
// prompts and nothing else that counts.
class ResultFolder {
 public:
  // Opens OUT, or what will be it. Writes nothing before `begin`.
  //   discard: whether results of other settings may be thrown away
  //   throws FileError as OutFolder does
  ResultFolder(std::filesystem::path out, nlohmann::ordered_json settings, bool discard);

  // Makes the folder ready: settings written, results of other settings gone.
  void begin();

  // A finished prompt; none where it is still to be measured.
  //   throws FileError where its file is damaged
  std::optional<PromptRecord> find(const std::string& key) const;
  void save(const PromptRecord& record) const;

  // Writes a file of the folder as a whole, over an earlier one.
  void write(const std::filesystem::path& name, std::string_view bytes) const { out_.write(name, bytes); }

  std::filesystem::path file(const std::filesystem::path& name) const { return out_.file(name); }
  std::filesystem::path recording(const std::string& key) const;

 private:
  results::OutFolder out_;
};

}  // namespace keyscope::validation
