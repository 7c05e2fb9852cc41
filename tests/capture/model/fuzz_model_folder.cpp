// libFuzzer target: the small files of a model's folder. The input's first byte says which of them the rest
// is; the others are sound. They are read or refused as those who load a model do.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "base/files.hpp"
#include "capture/model/config.hpp"
#include "capture/model/safetensors.hpp"
#include "capture/tokenizer/chat_template.hpp"
#include "capture/tokenizer/tokenizer.hpp"
#include "tests/support/fuzzed.hpp"
#include "tests/support/scratch_folder.hpp"

namespace {

namespace fs = std::filesystem;
using namespace keyscope;

struct SmallFile {
  char letter;
  const char* name;
  void (*read)(const fs::path& folder);
};

void read_checkpoint(const fs::path& folder) {
  const capture::Checkpoint checkpoint(folder);
  for (const auto& [name, tensor] : checkpoint.tensors())
    if (checkpoint.find(name) != tensor) std::abort();
  checkpoint.why_missing("model.norm.weight");
  checkpoint.data_bytes();
  checkpoint.files();
}

void read_configuration(const fs::path& folder) { capture::read_config(folder).quantisation.description(); }

void read_tokens(const fs::path& folder) {
  test::read_or_refuse([&] {
    if (const auto chat = tokenizer::ChatTemplate::load_if_there(folder))
      chat->render("user", std::nullopt, std::tm{});
  });
  const tokenizer::FolderTokenizer tokenizer(folder);
  if (tokenizer.get() != nullptr) tokenizer.get()->decode(tokenizer.get()->encode("a <s> text", true));
}

constexpr std::array<SmallFile, 7> kFiles{{{'i', "model.safetensors.index.json", read_checkpoint},
                                           {'g', "generation_config.json", read_configuration},
                                           {'q', "quantize_config.json", read_configuration},
                                           {'w', "quant_config.json", read_configuration},
                                           {'t', "tokenizer_config.json", read_tokens},
                                           {'s', "special_tokens_map.json", read_tokens},
                                           {'a', "added_tokens.json", read_tokens}}};

void write(const fs::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush()) std::abort();
}

// A folder with what all of them ask for.
fs::path made_folder() {
  static const test::ScratchFolder scratch;
  write(scratch.file("config.json"),
        R"({"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
            "intermediate_size": 8, "vocab_size": 8, "max_position_embeddings": 64, "rms_norm_eps": 1e-5})");
  constexpr std::string_view kHeader = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  std::string tensors(8, '\0');
  tensors.front() = static_cast<char>(kHeader.size());
  write(scratch.file("part.safetensors"), tensors.append(kHeader).append("xy"));
  write(scratch.file("tokenizer.json"),
        R"({"added_tokens": [{"id": 4, "content": "<s>", "special": true}], "normalizer": null,
            "pre_tokenizer": null, "post_processor": null, "decoder": null,
            "model": {"type": "Unigram", "vocab": [["a", -2], ["b", -2], ["ab", -1], [" ", -2]], "unk_id": 1}})");
  return scratch.path();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fs::path folder = made_folder();
  const std::string_view input = test::as_text(data, size);
  for (const SmallFile& file : kFiles) {
    if (!input.starts_with(file.letter)) continue;
    write(folder / file.name, input.substr(1));
    test::read_or_refuse([&] { file.read(folder); });
    fs::remove(folder / file.name);
  }
  return 0;
}
