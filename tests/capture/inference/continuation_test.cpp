// Texts and where they stop, on a tokenizer.

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "analysis/policies/registry.hpp"
#include "capture/inference/completion.hpp"

namespace keyscope::capture {
namespace {

class Continuations : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = Model::load(KEYSCOPE_DEMO_MODEL, {});
    std::ifstream file(std::string(KEYSCOPE_DEMO_MODEL) + "/prompts/phonebook.txt");
    std::ostringstream text;
    text << file.rdbuf();
    ids_ = model_->tokenizer()->encode(text.str(), true);
  }

  Completion complete(const Continuation& continuation) const {
    Completion result;
    CaptureControl control;
    const std::vector<CompletionRequest> requests{
        {.prompt_ids = ids_, .policy = analysis::parse_policy("none"), .continuation = continuation}};
    complete_prompts(*model_, {64, 0}, requests,
                     {control, [&](std::size_t, Completion completion) { result = std::move(completion); }});
    return result;
  }

  std::shared_ptr<const Model> model_;
  std::vector<std::int32_t> ids_;
};

TEST_F(Continuations, TheTextIsWhatTheIdsAdd) {
  const auto completion = complete({.max_new_tokens = 6});
  EXPECT_EQ(completion.text, " 4461\n");
  EXPECT_EQ(completion.end, CompletionEnd::kMaxNewTokens);
  EXPECT_EQ(completion.n_prompt, static_cast<std::int64_t>(ids_.size()));
}

TEST_F(Continuations, AStopTextEndsItAndIsNoPartOfIt) {
  const auto at_line = complete({.max_new_tokens = 50, .stop_texts = {"\n"}});
  EXPECT_EQ(at_line.text, " 4461");
  EXPECT_EQ(at_line.end, CompletionEnd::kStopText);
  EXPECT_EQ(at_line.generated, complete({.max_new_tokens = 6}).generated);
  // The digits are tokens of their own: this one is written by two.
  EXPECT_EQ(complete({.max_new_tokens = 50, .stop_texts = {"61"}}).text, " 44");
  // The one that begins first counts.
  EXPECT_EQ(complete({.max_new_tokens = 50, .stop_texts = {"461", "46"}}).text, " 4");
}

TEST_F(Continuations, NothingIsGeneratedWhereNothingIsAskedFor) {
  const auto completion = complete({.max_new_tokens = 0});
  EXPECT_EQ(completion.text, "");
  EXPECT_TRUE(completion.generated.empty());
}

}  // namespace
}  // namespace keyscope::capture
