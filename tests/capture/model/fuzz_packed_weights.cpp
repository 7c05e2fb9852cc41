// libFuzzer: whatever a configuration says of a file's packed weights, they are refused with a FileError or
// unpacked within their bytes. The input is a configuration's length in four bytes, lowest first, the
// configuration, and a safetensors file. With seeds from the goldens:
//   cmake --preset fuzz && cmake --build --preset fuzz --target fuzz_packed_weights
//   tests/capture/model/fuzz_packed_weights_seeds.py CORPUS && build/fuzz/fuzz_packed_weights CORPUS

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "capture/model/packed_weight.hpp"

namespace {

using namespace keyscope::capture;

constexpr std::int64_t kMostElements = 1 << 20;

void unpack_all(const StoredWeight& weight, std::span<const std::byte> file) {
  const std::int64_t n = weight.shape().empty() ? 0 : weight.shape().front();
  if (weight.is_plain() || n < 1 || weight.form() == "I64") return;
  if (weight.n_elements() < 1) return;
  for (const auto span : weight.bytes(0, n))
    if (!span.empty() && (span.data() < file.data() || span.data() + span.size() > file.data() + file.size()))
      std::abort();
  const std::int64_t entry = weight.n_elements() / n;
  const std::int64_t n_read = entry > kMostElements ? 0 : std::min(n, kMostElements / entry);
  std::vector<float> values(static_cast<std::size_t>(n_read * entry));
  weight.unpack(0, n_read, values.data());
  if (n_read > 0) weight.unpack(n - 1, 1, values.data());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::uint32_t length = 0;
  if (size < sizeof length) return 0;
  std::memcpy(&length, data, sizeof length);
  if (length > size - sizeof length) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + sizeof length, length);
  const auto file = std::as_bytes(std::span(data, size)).subspan(sizeof length + length);
  try {
    const Quantisation quantisation =
        read_quantisation({{"quantization_config", keyscope::parse_json_object(text, "config")}}, "config");
    if (quantisation.description().empty()) std::abort();
    const TensorTable table = parse_safetensors(file, "fuzzed");
    RawTensors raw;
    for (const auto& [name, tensor] : table) raw.emplace(name, &tensor);
    for (const auto& [name, weight] : weights_of(raw, quantisation))
      if (!table.contains(name) || table.find(name)->second.dtype != weight->form())
        unpack_all(*weight, file);
  } catch (const keyscope::FileError&) {
  }
  return 0;
}
