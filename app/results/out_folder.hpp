#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/files.hpp"

namespace keyscope::results {

// A folder of results in which a run that was interrupted goes on: OUT/settings.json says what they depend
// on, so that results of other settings are never mixed with them. Every file that is written appears under
// its name when it is complete and on the disk.
class OutFolder {
 public:
  static constexpr const char* kSettings = "settings.json";

  // Opens OUT, or what will be it. Writes nothing.
  //   settings: an object, what the results depend on
  //   kind: of run, for messages: "evaluation"
  //   discard: whether results of other settings may be thrown away
  //   throws FileError where the folder holds something else, its settings are damaged, or it holds results
  //   of other settings that may not be discarded, saying what differs
  OutFolder(std::filesystem::path out, const nlohmann::ordered_json& settings, std::string_view kind,
            bool discard);

  // Whether results of these very settings may be there.
  bool goes_on() const { return goes_on_; }
  // The settings of other results, which are to be removed before `write_settings`; null: there are no such.
  const std::shared_ptr<const nlohmann::ordered_json>& discarded() const { return discarded_; }

  // Where results of other settings are to be discarded, they must be of this command: what another one has
  // made, possibly over days, is nobody's to remove here.
  //   is_own: by the "task" of those settings, which is null where they have none
  //   throws FileError
  void require_own(const std::function<bool(const nlohmann::ordered_json& task)>& is_own) const;

  // Before anything is written: makes OUT and holds it, so that no other run writes there for as long as this
  // lives. Some file systems have no locks of folders (NFS), and nothing keeps runs apart there.
  //   throws FileError where it cannot be made, another run holds it, or has written settings there since
  //   this was opened
  void begin();

  // Makes OUT, or a folder in it.
  //   throws FileError where it cannot be made
  void make(const std::filesystem::path& name = {}) const;

  // Writes the settings. Once what was discarded is gone: a kill leaves no results beside settings of others.
  void write_settings();

  // Writes a file of the folder as a whole, over an earlier one.
  //   throws FileError where it cannot be written
  void write(const std::filesystem::path& name, std::string_view bytes) const;

  const std::filesystem::path& path() const { return out_; }
  std::filesystem::path file(const std::filesystem::path& name) const { return out_ / name; }
  std::filesystem::path settings_file() const;

 private:
  std::filesystem::path out_;
  std::string settings_;   // as they are written
  std::string opened_on_;  // what settings.json held; empty where it was not there
  std::shared_ptr<const nlohmann::ordered_json> discarded_;
  bool goes_on_ = false;
  std::shared_ptr<const Descriptor> held_;
};

// What differs, a sentence each: "block is 64 there and 128 here".
//   there, here: objects; what `here` does not name is not looked at
std::vector<std::string> setting_differences(const nlohmann::ordered_json& there,
                                             const nlohmann::ordered_json& here);

}  // namespace keyscope::results
