#include "app/evaluation/longbench_prompt.hpp"

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/app/evaluation/evaluation_goldens.hpp"

namespace keyscope::evaluation {
namespace {

std::unique_ptr<tokenizer::Tokenizer> demo_tokenizer() {
  return tokenizer::Tokenizer::load(KEYSCOPE_SOURCE_DIR "/assets/demo_model");
}

TEST(LongBenchPrompt, IsCutAsTransformersCutsIt) {
  const auto tokenizer = demo_tokenizer();
  const auto text = read_goldens("longbench_goldens.json", "text").get<std::string>();
  int n_cut = 0;
  for (const auto& golden : read_goldens("longbench_goldens.json", "cuts")) {
    const auto max_tokens = golden["max_tokens"].get<std::int64_t>();
    SCOPED_TRACE(max_tokens);
    std::string seen;
    const auto encode = [&](const std::string& left) {
      seen = left;
      return tokenizer->encode(left, true);
    };
    const LongBenchPrompt prompt = longbench_prompt(*tokenizer, text, {max_tokens, 100'000}, encode);
    EXPECT_EQ(seen, golden["text"].get<std::string>());
    EXPECT_EQ(prompt.ids, golden["ids"].get<std::vector<std::int32_t>>());
    EXPECT_EQ(prompt.n_whole, golden["n_whole"].get<std::int64_t>());
    EXPECT_EQ(prompt.cut, prompt.n_whole > max_tokens);
    n_cut += prompt.cut ? 1 : 0;
  }
  EXPECT_GT(n_cut, 5);
}

TEST(LongBenchPrompt, FitsWhateverItsChatTemplateAdds) {
  const auto tokenizer = demo_tokenizer();
  std::string text;
  for (int i = 0; i < 200; ++i) text += "Prince Andrew rode on. ";
  const auto encode = [&](const std::string& left) {
    return tokenizer->encode("In front of the turn. " + left + " Behind the turn.", true);
  };
  const LongBenchPrompt prompt = longbench_prompt(*tokenizer, text, {300, 300}, encode);
  EXPECT_LE(prompt.ids.size(), 300U);
  EXPECT_GT(prompt.ids.size(), 280U);
  EXPECT_TRUE(prompt.cut);
}

TEST(LongBenchPrompt, RefusesWhatNothingOfFits) {
  const auto tokenizer = demo_tokenizer();
  const auto encode = [](const std::string&) { return std::vector<std::int32_t>(50, 1); };
  EXPECT_THROW(longbench_prompt(*tokenizer, "Prince Andrew rode on.", {40, 40}, encode), InvalidInput);
}

}  // namespace
}  // namespace keyscope::evaluation
