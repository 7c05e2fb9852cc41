#include "app/evaluation/task_data.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/scratch_folder.hpp"

namespace keyscope::evaluation {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDemo = KEYSCOPE_SOURCE_DIR "/assets/demo_model";

// ChatML, which needs no special token of the model.
constexpr const char* kTemplate =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + "
    "'<|im_end|>' + "
    "'\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

class ChatUses : public ::testing::Test {
 protected:
  void SetUp() override { tokenizer_ = tokenizer::Tokenizer::load(kDemo); }

  fs::path with_template(const char* source) const {
    std::ofstream(folder_.file("chat_template.jinja")) << source;
    return folder_.file("chat_template.jinja").parent_path();
  }

  test::ScratchFolder folder_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
};

TEST_F(ChatUses, AModelWithoutATemplateIsAskedInPlainText) {
  const PromptEncoder encoder(*tokenizer_, kDemo, ChatUse::kIfThere);
  EXPECT_FALSE(encoder.has_chat());
  EXPECT_EQ(encoder.turn("Who?"), tokenizer_->encode("Who?", true));
  EXPECT_EQ(encoder.plain("Who?"), tokenizer_->encode("Who?", true));
  EXPECT_THROW(PromptEncoder(*tokenizer_, kDemo, ChatUse::kAlways), FileError);
}

TEST_F(ChatUses, ATemplateMakesATurn) {
  const fs::path folder = with_template(kTemplate);
  const std::string turn = "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n";
  for (const ChatUse use : {ChatUse::kIfThere, ChatUse::kAlways}) {
    const PromptEncoder encoder(*tokenizer_, folder, use);
    EXPECT_TRUE(encoder.has_chat());
    EXPECT_EQ(encoder.turn("Who?"), tokenizer_->encode(turn, false));
    EXPECT_EQ(encoder.plain("Who?"), tokenizer_->encode("Who?", true));
  }
  EXPECT_FALSE(PromptEncoder(*tokenizer_, folder, ChatUse::kNever).has_chat());
}

TEST_F(ChatUses, ATemplateOfNoKnownKindIsNotPassedOver) {
  const fs::path folder = with_template("{{ something_else }}");
  EXPECT_THROW(PromptEncoder(*tokenizer_, folder, ChatUse::kIfThere), FileError);
  EXPECT_NO_THROW(PromptEncoder(*tokenizer_, folder, ChatUse::kNever));
}

}  // namespace
}  // namespace keyscope::evaluation
