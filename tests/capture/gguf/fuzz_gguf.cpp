// libFuzzer: whatever the bytes are, a file is read or refused with a FileError, every tensor lies inside the
// bytes, and every value can be gone through. Seeds: tests/capture/model/goldens/*.gguf.
//   cmake --preset fuzz && cmake --build --preset fuzz --target fuzz_gguf
//   build/fuzz/fuzz_gguf -max_len=16384 CORPUS tests/capture/model/goldens

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "base/errors.hpp"
#include "capture/gguf/gguf.hpp"

namespace {

using keyscope::gguf::Value;

std::size_t go_through(const Value& value) {
  if (!value.is_array()) return 1;
  std::size_t n = 0;
  value.for_each([&](const Value& element) { n += go_through(element); });
  return n;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const auto contents = keyscope::gguf::parse_gguf(bytes, "fuzzed");
    std::size_t n_values = 0, n_bytes = 0;
    for (const auto& [key, value] : contents.metadata) n_values += go_through(value);
    if (n_values > size) std::abort();
    for (const auto& [name, tensor] : contents.tensors) {
      n_bytes += tensor.data.size();
      if (tensor.data.data() < bytes.data() ||
          tensor.data.data() + tensor.data.size() > bytes.data() + size || n_bytes > size ||
          tensor.n_elements() < 1)
        std::abort();
      if (tensor.format->unpack == nullptr) continue;
      std::vector<float> values(static_cast<std::size_t>(tensor.n_elements()));
      tensor.format->unpack(tensor.data.data(), tensor.n_elements() / tensor.format->n_values, values.data());
    }
  } catch (const keyscope::FileError&) {
  }
  return 0;
}
