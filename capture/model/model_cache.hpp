#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace keyscope::capture {

// A model that lies in the Hugging Face cache: `models--ORG--NAME/snapshots/COMMIT`, whose files are links
// into `models--ORG--NAME/blobs`. Layout: https://huggingface.co/docs/huggingface_hub/guides/manage-cache
struct CachedModel {
  std::string repository;  // ORG/NAME
  std::string commit;
};

// Where that cache is: $HF_HUB_CACHE, else $HF_HOME/hub, else ~/.cache/huggingface/hub.
std::filesystem::path model_cache();

// The folder of a model that is named by its path, or by ORG/NAME[@REVISION] and is in the cache. A path that
// is there comes first. REVISION is a branch, a tag or a whole commit, `main` by default. Needs no network.
// Where the folder holds one GGUF file and no config.json, that file.
//   throws FileError on a name that is neither, with the command that fetches it, and on a folder of several
//   GGUF files, naming them
std::filesystem::path find_model(const std::string& name);

// ORG/NAME of every model in the cache, ascending.
std::vector<std::string> cached_models();

// What the cache's layout says of a folder, or of a GGUF file in it; nothing where it is another one.
std::optional<CachedModel> cached_model(const std::filesystem::path& folder);

// What a model is called: ORG/NAME where its folder is the cache's, else the folder's name. Of a GGUF file
// ORG/NAME/FILE.gguf, else the file's name without its ending.
std::string model_name(const std::filesystem::path& folder);

// The end of a complaint about a file that a model's folder lacks: how to fetch it into the cache. Empty
// where the folder is not the cache's.
std::string fetch_advice(const std::filesystem::path& folder);

}  // namespace keyscope::capture
