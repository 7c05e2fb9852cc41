#include "app/results/run_identity.hpp"

#include <filesystem>
#include <map>
#include <mutex>
#include <string>

#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/slots.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "capture/model/model.hpp"
#include "capture/model/model_cache.hpp"

namespace keyscope::results {

ModelIdentity identity_of(const capture::Model& model, const capture::HashProgress& progress) {
  // A GGUF file in the cache is a link to one that is called by its hash.
  const auto& folder = model.folder();
  const std::string name = capture::model_name(
      std::filesystem::is_directory(folder) ? std::filesystem::canonical(folder) : folder);
  std::string buffer;  // results are JSON, which is UTF-8, and a folder may be called anything
  return {std::string(replace_invalid_utf8(name, buffer)), model.model_sha256(),
          capture::sha256_with_weights(model, progress), model.dtype_name(), model.device_name()};
}

void add_identity(nlohmann::ordered_json& settings, const ModelIdentity& model) {
  settings["model"] = model.name;
  settings["model_sha256"] = model.sha256;
  settings["weights_sha256"] = model.weights_sha256;
  settings["dtype"] = model.dtype;
  settings["device"] = model.device;
}

namespace {

// As it was when this process first asked: what is said of a run at its end is what it began with.
std::string sha256_of_file(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = known.try_emplace(path);
  if (!is_new) return found->second;
  try {
    Sha256 hash;
    hash.add(read_text_file(path));
    return found->second = hash.hex();
  } catch (...) {
    known.erase(found);
    throw;
  }
}

}  // namespace

// The files that its options name count by what is in them, too.
nlohmann::ordered_json policy_json(const analysis::PolicySpec& policy, std::uint64_t seed) {
  const auto options = analysis::with_defaults(policy, seed).options;
  nlohmann::ordered_json json{{"name", policy.name}, {"options", options}};
  if (policy.name == "none" || policy.own != nullptr) return json;
  const auto made = analysis::make_policy(policy, seed);
  if (made->head_file() != analysis::HeadFile::kNone)
    json["file_sha256"] = sha256_of_file(options.at("file"));
  if (const std::string& split = made->slots().split_file; !split.empty())
    json["split_sha256"] = sha256_of_file(split);
  return json;
}

}  // namespace keyscope::results
