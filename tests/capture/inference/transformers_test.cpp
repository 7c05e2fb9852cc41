// Keys, queries, values, attention and logits against Hugging Face Transformers; the goldens and how they
// were made stand in goldens/.

#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "analysis/matrix_view.hpp"
#include "base/json.hpp"
#include "capture/model/safetensors.hpp"
#include "tests/capture/inference/arithmetics.hpp"
#include "tests/support/captured.hpp"

namespace keyscope::capture {
namespace {

class Golden {
 public:
  explicit Golden(const std::string& name) : file_(test::inference_golden(name + ".golden.safetensors")) {}

  template <typename T>
  std::vector<T> read(const std::string& name) const {
    const StoredTensor& tensor = file_.tensors().at(name);
    const auto* data = reinterpret_cast<const T*>(tensor.data.data());
    return {data, data + tensor.data.size() / sizeof(T)};
  }

  // Transformers' own relative errors in bfloat16, by tensor.
  nlohmann::json bfloat16_errors() const {
    const auto header = parse_json(file_.header());
    return parse_json(header["__metadata__"]["bfloat16_errors"].get<std::string>());
  }

 private:
  SafetensorsFile file_;
};

// All that was recorded of one run under the goldens' names: heads one after another.
std::map<std::string, std::vector<float>> recorded_tensors(const recording::Recording& recording) {
  std::map<std::string, std::vector<float>> tensors;
  const auto add = [&](const std::string& name, const RowMatrixF& rows) {
    tensors[name].insert(tensors[name].end(), rows.data(), rows.data() + rows.size());
  };
  const auto info = recording.info();
  for (const int layer : info->layers) {
    for (int head = 0; head < info->model.heads(layer).n_kv_heads; ++head) {
      add(fmt::format("keys.{}", layer), recording.keys(0, layer, head));
      add(fmt::format("values.{}", layer), recording.values(0, layer, head));
    }
    for (int head = 0; head < info->model.n_heads; ++head) {
      add(fmt::format("queries.{}", layer), recording.queries(0, layer, head));
      add(fmt::format("attention.{}", layer), recording.attention(0, layer, head));
    }
  }
  add("logits", recording.logits(0));
  return tensors;
}

// The goldens hold the heads' own keys, queries and values under the usual names.
std::map<std::string, std::vector<float>> named_latent(
    const std::map<std::string, std::vector<float>>& tensors) {
  std::map<std::string, std::vector<float>> renamed;
  for (const auto& [name, tensor] : tensors) {
    const bool of_heads =
        name.starts_with("keys") || name.starts_with("queries") || name.starts_with("values");
    renamed[of_heads ? "latent_" + name : name] = tensor;
  }
  return renamed;
}

std::map<std::string, std::vector<float>> run_golden(const std::string& name,
                                                     const ModelOptions& model_options,
                                                     std::int64_t block_size,
                                                     Schedule schedule = Schedule::kBlock) {
  const auto model = Model::load(test::inference_golden(name), model_options);
  CaptureOptions options;
  options.prompt_ids = Golden(name).read<std::int32_t>("prompt_ids");
  options.policies = test::policies({"none"});
  options.block_size = block_size;
  options.record_values = options.record_attention = options.record_logits = true;
  options.score_last = 1000;
  options.schedule = schedule;
  const auto tensors = recorded_tensors(*test::run_in_memory(*model, options).recording);
  return model->config().latent.rank > 0 && !model_options.expand_keys ? named_latent(tensors) : tensors;
}

void expect_close(const std::string& name, const std::vector<float>& found,
                  const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size()) << name;
  float largest = 0, difference = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    difference = std::max(difference, std::abs(found[i] - expected[i]));
  }
  EXPECT_LE(difference, 1e-5F * largest) << name;
}

double relative_error(const std::vector<float>& found, const std::vector<float>& expected) {
  double squares = 0, of_difference = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    squares += static_cast<double>(expected[i]) * expected[i];
    of_difference += std::pow(static_cast<double>(found[i]) - expected[i], 2);
  }
  return std::sqrt(of_difference / squares);
}

struct Run {
  std::string model;
  std::int64_t block_size;
  Arithmetic arithmetic;
};

void PrintTo(const Run& run, std::ostream* out) {
  *out << run.model << " in blocks of " << run.block_size << " by " << test::name_of(run.arithmetic);
}

constexpr std::array kArithmetics{Arithmetic::kKernels, Arithmetic::kAten};

// Where RoPE depends on the length seen, what is expected depends on the blocks.
std::string golden_of(const Run& run) {
  const std::string of_blocks = fmt::format("{}.blocks{}", run.model, run.block_size);
  return std::filesystem::exists(test::inference_golden(of_blocks + ".golden.safetensors")) ? of_blocks
                                                                                            : run.model;
}

class AgainstTransformers : public ::testing::TestWithParam<Run> {};

TEST_P(AgainstTransformers, Float32) {
  const Golden golden(golden_of(GetParam()));
  const auto tensors = run_golden(
      GetParam().model, test::model_options(GetParam().arithmetic, DType::kFloat32), GetParam().block_size);
  EXPECT_GE(tensors.size(), 9U);
  for (const auto& [name, found] : tensors) expect_close(name, found, golden.read<float>(name));
}

// Layer by layer, with weights that come and go.
TEST_P(AgainstTransformers, Float32ByLayers) {
  const Golden golden(golden_of(GetParam()));
  ModelOptions streamed = test::model_options(GetParam().arithmetic, DType::kFloat32);
  streamed.may_stream = true;
  streamed.residency = Residency::kStreamed;
  for (const auto& [name, found] :
       run_golden(GetParam().model, streamed, GetParam().block_size, Schedule::kLayer))
    expect_close(name, found, golden.read<float>(name));
}

std::vector<Run> runs() {
  std::vector<Run> runs;
  for (const char* model : {"tiny_llama",         "tiny_llama3",        "tiny_llama_dynamic",
                            "tiny_qwen2",         "tiny_qwen2_window",  "tiny_qwen3",
                            "tiny_qwen3_window",  "tiny_mistral",       "tiny_mistral_window",
                            "tiny_gemma2",        "tiny_gemma3",        "tiny_phi3",
                            "tiny_phi3_longrope", "tiny_phi4",          "tiny_smollm3",
                            "tiny_olmo2",         "tiny_olmo3",         "tiny_granite",
                            "tiny_granite4",      "tiny_granite4_moe",  "tiny_ministral3",
                            "tiny_glm",           "tiny_glm4",          "tiny_mixtral",
                            "tiny_qwen3_moe",     "tiny_qwen2_moe",     "tiny_gpt_oss",
                            "tiny_qwen3_next",    "tiny_qwen35",        "tiny_qwen35_moe",
                            "tiny_deepseek2",     "tiny_deepseek3",     "tiny_moonlight",
                            "tiny_gpt_oss_mxfp4", "tiny_learned_sinks", "tiny_gated",
                            "tiny_gemma4",        "tiny_gemma4_moe",    "tiny_qwen3_next_biases"})
    for (const std::int64_t block_size : {1, 16, 128})
      for (const Arithmetic arithmetic : kArithmetics) runs.push_back({model, block_size, arithmetic});
  return runs;
}

INSTANTIATE_TEST_SUITE_P(Blocks, AgainstTransformers, ::testing::ValuesIn(runs()), [](const auto& test) {
  return fmt::format("{}_B{}_{}", test.param.model, test.param.block_size,
                     test::name_of(test.param.arithmetic));
});

class AgainstTransformersRounded : public ::testing::TestWithParam<Arithmetic> {};

// No worse than 1.5 times the error that Transformers itself makes in bfloat16.
TEST_P(AgainstTransformersRounded, BFloat16) {
  for (const std::string model :
       {"tiny_llama3", "tiny_qwen2", "tiny_qwen2_window", "tiny_gemma2", "tiny_gemma3", "tiny_phi3",
        "tiny_smollm3", "tiny_olmo2", "tiny_granite4", "tiny_glm4", "tiny_mixtral", "tiny_qwen35_moe",
        "tiny_moonlight", "tiny_gemma4_moe"}) {
    const Golden golden(model);
    const auto own_errors = golden.bfloat16_errors();
    for (const std::int64_t block_size : {1, 16, 128})
      for (const auto& [name, found] : run_golden(model, test::model_options(GetParam()), block_size))
        EXPECT_LE(relative_error(found, golden.read<float>(name)), 1.5 * own_errors.at(name).get<double>())
            << model << ", " << name << " in blocks of " << block_size;
  }
}

// Latent attention with every head's own keys and values in the cache.
TEST_P(AgainstTransformersRounded, ExpandedKeys) {
  ModelOptions expanded = test::model_options(GetParam(), DType::kFloat32);
  expanded.expand_keys = true;
  for (const std::string model : {"tiny_deepseek2", "tiny_deepseek3", "tiny_moonlight"})
    for (const std::int64_t block_size : {1, 16, 128})
      for (const auto& [name, found] : run_golden(model, expanded, block_size))
        expect_close(name, found, Golden(model).read<float>(name));
}

TEST_P(AgainstTransformersRounded, Float16) {
  const Golden golden("tiny_llama");
  for (const auto& [name, found] :
       run_golden("tiny_llama", test::model_options(GetParam(), DType::kFloat16), 16))
    EXPECT_LE(relative_error(found, golden.read<float>(name)), 1e-2) << name;
}

INSTANTIATE_TEST_SUITE_P(Arithmetics, AgainstTransformersRounded, test::both_arithmetics(),
                         test::arithmetic_name);

}  // namespace
}  // namespace keyscope::capture
