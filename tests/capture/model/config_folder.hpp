#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "capture/model/config.hpp"
#include "tests/capture/model/random_model.hpp"

namespace keyscope::test {

// A folder that holds a sound configuration but for what a test changes.
class ConfigFolder {
 public:
  nlohmann::ordered_json& config() { return model_.config; }
  void write(const std::string& name, const std::string& text) const { model_.write(name, text); }

  capture::ModelConfig read() const {
    model_.write("config.json", model_.config.dump());
    return capture::read_config(model_.folder());
  }

  // What reading it is refused with; empty where it is not.
  std::string complaint() const {
    try {
      read();
      return "";
    } catch (const FileError& error) {
      return error.what();
    }
  }

  const std::filesystem::path& path() const { return model_.folder(); }

 private:
  RandomModel model_;
};

}  // namespace keyscope::test
