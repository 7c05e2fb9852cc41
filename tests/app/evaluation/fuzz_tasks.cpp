// libFuzzer target: rows of tasks, prompts and answers. The input's first byte says what the rest is. Rows
// become examples, and these are scored as if the model had answered with its prompt.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/evaluation/example.hpp"
#include "app/evaluation/longbench.hpp"
#include "app/evaluation/math500.hpp"
#include "app/evaluation/math_answer.hpp"
#include "app/evaluation/ruler_questions.hpp"
#include "app/evaluation/ruler_rows.hpp"
#include "app/results/prompts.hpp"
#include "base/json.hpp"
#include "capture/model/config.hpp"
#include "capture/model/model.hpp"
#include "tests/support/fuzzed.hpp"

namespace {

using namespace keyscope;

// The embedded model as far as prompts need it.
class TextModel : public capture::Model {
 public:
  const capture::ModelConfig& config() const override { return config_; }
  const std::filesystem::path& folder() const override { return folder_; }
  const tokenizer::FolderTokenizer& folder_tokenizer() const override { return tokenizer_; }
  const capture::Transformer& transformer() const override { std::abort(); }
  std::string model_sha256() const override { return {}; }
  std::string device_name() const override { return {}; }
  std::int64_t available_memory() const override { return 0; }
  std::string dtype_name() const override { return {}; }
  std::string quantisation() const override { return {}; }
  std::int64_t weight_bytes() const override { return 0; }
  std::int64_t element_bytes() const override { return 0; }
  std::int64_t peak_memory() const override { return 0; }
  std::string library() const override { return {}; }
  std::string arithmetic_name() const override { return {}; }
  capture::Residency residency() const override { return {}; }
  int threads() const override { return 1; }
  bool has_head() const override { return true; }
  std::vector<std::string> notes() const override { return {}; }

 private:
  std::filesystem::path folder_ = KEYSCOPE_SOURCE_DIR "/assets/demo_model";
  capture::ModelConfig config_ = capture::read_config(folder_);
  tokenizer::FolderTokenizer tokenizer_{folder_};
};

const TextModel& model() {
  static const TextModel model;
  return model;
}

void score(const std::vector<evaluation::Example>& examples, const evaluation::Scorer& scorer) {
  for (const evaluation::Example& example : examples) {
    capture::Completion completion;
    completion.generated = example.prompt_ids;
    completion.text = model().tokenizer()->decode(example.prompt_ids);
    scorer(example, completion);
  }
  evaluation::examples_sha256(examples);
}

void read_longbench(const test::MemoryFile& file) {
  evaluation::LongBenchOptions options;
  options.data = {file.path()};
  options.task = "hotpotqa";
  options.skip_bad = true;
  const auto set = evaluation::read_longbench(options, model());
  score(set.examples, evaluation::longbench_scorer(set, *model().tokenizer()));
}

void read_math(const test::MemoryFile& file) {
  evaluation::MathOptions options;
  options.data = {file.path()};
  options.skip_bad = true;
  const auto set = evaluation::read_math(options, model());
  score(set.examples, evaluation::math_scorer(*model().tokenizer()));
}

void read_ruler(const test::MemoryFile& file) {
  evaluation::RulerOptions options;
  options.data = {file.path()};
  options.skip_bad = true;
  score(evaluation::read_ruler_rows(options, model()).examples,
        evaluation::ruler_scorer(*model().tokenizer()));
}

void ask(const evaluation::Questions& questions) {
  evaluation::ruler_question({1, 4096, *model().tokenizer()}, questions, 0).made(1);
}

void read_result(std::string_view line) {
  const auto result = evaluation::parse_result(line, "a line");
  evaluation::parse_result(evaluation::result_line(result, {}), "its line");
}

void match(std::string_view texts) {
  const auto [solution, answer] = test::first_line(texts);
  evaluation::exact_match(solution, answer);
  evaluation::flexible_match(solution, answer);
  evaluation::same_answer(solution, answer);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return test::by_first_byte(data, size, [](char kind, std::string_view rest) {
    switch (kind) {
      case 'l':
        return read_longbench(test::MemoryFile(rest));
      case 'm':
        return read_math(test::MemoryFile(rest));
      case 'r':
        return read_ruler(test::MemoryFile(rest));
      case 's':
        return ask(evaluation::read_squad(test::MemoryFile(rest).path()));
      case 'h':
        return ask(evaluation::read_hotpotqa(test::MemoryFile(rest).path()));
      case 'e':
        return read_result(rest);
      case 'a':
        return match(rest);
      case 'i':
        model().tokenizer()->decode(
            tokenizer::ids_from_json(parse_json(rest), "ids", model().tokenizer()->vocab_size() - 1));
        return;
      case 'p': {
        const auto prompts = results::read_prompts(test::MemoryFile(rest).path(), model().config(),
                                                   model().folder_tokenizer(), 64);
        results::prompts_origin(model(), "model", prompts, {});
        return;
      }
      default:
        return;
    }
  });
}
