#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "capture/model/config.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::test {

// A file or a model's folder of tests/capture/inference/goldens/.
std::filesystem::path inference_golden(const std::string& name);

// What Transformers' configuration classes write as config.json, by name: one JSON object of all.
std::filesystem::path family_configs();

// A tensor as a safetensors file stores it.
struct TensorBytes {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

using TensorMap = std::map<std::string, TensorBytes>;

// A safetensors file of raw parts: `header` is written as it is, sound or not.
std::string safetensors_of(const std::string& header, const std::string& data);

// A sound safetensors file, tensors in order of name, the header padded to a multiple of `alignment`.
std::string safetensors_of(const TensorMap& tensors, std::size_t alignment = 8);

struct RandomModelShape {
  int n_layers = 2;
  int n_heads = 4;
  int n_kv_heads = 2;
  int head_dim = 8;
  int hidden_size = 24;
  int intermediate_size = 40;
  int vocab_size = 50;
  int max_positions = 512;
  bool tied = true;
};

// A Llama folder of random weights, in a temporary place that goes with the object. A test may change
// `config` and `tensors` before `save`, or the files after it.
class RandomModel {
 public:
  explicit RandomModel(const RandomModelShape& shape = {}, unsigned seed = 1);

  nlohmann::ordered_json config;
  TensorMap tensors;

  const std::filesystem::path& folder() const { return folder_.path(); }
  const std::filesystem::path& save() const;  // config.json and model.safetensors
  void write(const std::string& name, const std::string& bytes) const;

 private:
  void add(const std::string& name, std::vector<std::int64_t> shape, float scale, float offset = 0);

  ScratchFolder folder_;
  std::uint64_t state_;
};

// A folder that holds a sound configuration but for what a test changes.
class ConfigFolder {
 public:
  nlohmann::ordered_json& config() { return model_.config; }
  void write(const std::string& name, const std::string& text) const { model_.write(name, text); }

  capture::ModelConfig read() const {
    model_.write("config.json", json_text(model_.config));
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
