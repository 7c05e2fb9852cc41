#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace keyscope::sweep {

// One command of a study, as its options are called on the command line: {"command": "eval niah", "policy":
// ["keydiff", "snapkv"], "budget": ["10%", "25%"], "length": [512, 1024]}.
struct StudyJob {
  std::string command;             // "eval niah"
  nlohmann::ordered_json options;  // an object of texts, numbers, true, and lists of these

  // The options as words of a command line: "--policy=keydiff", "--skip-bad"; a list gives a word for each of
  // its values.
  std::vector<std::string> words() const;
};

// What is to be found out: every job with every model and every seed.
struct Study {
  std::string name;
  std::filesystem::path folder;  // that relative paths start from: the study file's
  std::vector<std::string> models;
  std::vector<std::uint64_t> seeds;
  std::vector<StudyJob> jobs;

  nlohmann::ordered_json json() const;  // without the folder
};

//   where: for messages: the file, and in it the study's place, if it is not all of it
//   throws FileError naming file and field
Study study_of(const nlohmann::ordered_json& json, const std::string& where);

// Reads {"name", "models": […], "seeds": […] (default [0]), "jobs": […]}.
//   throws FileError naming file and field
Study read_study(const std::filesystem::path& file);

}  // namespace keyscope::sweep
