// libFuzzer: whatever the bytes are, a header is read or refused with a FileError, and every tensor it names
// lies inside the bytes. Run with a folder of seeds:
//   cmake --preset fuzz && cmake --build --preset fuzz --target fuzz_safetensors
//   build/fuzz/fuzz_safetensors -max_len=4096 CORPUS

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/errors.hpp"
#include "capture/model/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    std::size_t n_bytes = 0;
    for (const auto& [name, tensor] : keyscope::capture::parse_safetensors(bytes, "fuzzed")) {
      if (tensor.data.empty()) continue;
      n_bytes += tensor.data.size();
      if (tensor.data.data() < bytes.data() || tensor.data.size() > size || n_bytes > size ||
          tensor.data.data() + tensor.data.size() > bytes.data() + size || tensor.n_elements() < 1)
        std::abort();
    }
  } catch (const keyscope::FileError&) {
  }
  return 0;
}
