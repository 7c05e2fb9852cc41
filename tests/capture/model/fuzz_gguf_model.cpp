// libFuzzer: whatever a GGUF file holds, its configuration, its weights by Hugging Face's names and its
// tokenizer are read or refused with a FileError, and what is taken of a tensor lies inside it. Seeds:
// tests/capture/model/goldens/*.gguf.
//   cmake --preset fuzz && cmake --build --preset fuzz --target fuzz_gguf_model
//   build/fuzz/fuzz_gguf_model -max_len=65536 CORPUS tests/capture/model/goldens

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "capture/model/config.hpp"
#include "capture/model/gguf_config.hpp"
#include "capture/model/gguf_weights.hpp"
#include "capture/tokenizer/gguf_tokenizer.hpp"
#include "capture/tokenizer/tokenizer.hpp"
#include "tests/support/fuzzed.hpp"

namespace {

using namespace keyscope;

void unpack_ends(const capture::StoredWeight& weight) {
  const std::int64_t n = weight.shape().front(), entry = weight.n_elements() / n;
  std::vector<float> values(static_cast<std::size_t>(entry));
  for (const std::int64_t row : {std::int64_t{0}, n / 2, n - 1}) {
    weight.unpack(row, 1, values.data());
    if (weight.bytes(row, 1).front().empty()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using test::read_or_refuse;
  const test::MemoryFile memory(test::as_text(data, size));
  read_or_refuse([&] {
    const gguf::Container file(memory.path());
    read_or_refuse([&] { capture::parse_config(capture::gguf_config(file), "fuzzed"); });
    read_or_refuse([&] {
      for (const auto& [name, weight] : capture::gguf_weights(file))
        read_or_refuse([&] {
          weight->check_form(name);
          unpack_ends(*weight);
        });
    });
    read_or_refuse([&] { tokenizer::gguf_tokenizer_config(file); });
    read_or_refuse([&] { tokenizer::Tokenizer::parse(tokenizer::gguf_tokenizer_json(file), "fuzzed"); });
  });
  return 0;
}
