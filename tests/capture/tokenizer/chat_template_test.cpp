#include "capture/tokenizer/chat_template.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::tokenizer {

namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// goldens/make_chat_goldens.py, by Transformers
const nlohmann::ordered_json& golden() {
  static const nlohmann::ordered_json kGolden = [] {
    return parse_ordered_json(
        read_file(fs::path(KEYSCOPE_SOURCE_DIR) / "tests/capture/tokenizer/goldens/chat.golden.json"));
  }();
  return kGolden;
}

std::tm golden_day() {
  std::tm day{};
  day.tm_year = golden()["today"][0].get<int>() - 1900;
  day.tm_mon = golden()["today"][1].get<int>() - 1;
  day.tm_mday = golden()["today"][2].get<int>();
  return day;
}

std::optional<std::string> text_or_none(const nlohmann::ordered_json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<std::string>());
}

ChatTemplate golden_template(const std::string& name) {
  const auto& entry = golden()["templates"][name];
  return {entry["template"].get<std::string>(),
          {{"bos_token", entry["bos"].get<std::string>()}, {"eos_token", entry["eos"].get<std::string>()}},
          name};
}

TEST(ChatTemplate, RendersAsTransformers) {
  int n_cases = 0;
  for (const auto& [name, entry] : golden()["templates"].items()) {
    const ChatTemplate chat = golden_template(name);
    for (const auto& expected : entry["cases"]) {
      SCOPED_TRACE(name + json_text(expected));
      const auto user = expected["user"].get<std::string>();
      const auto system = text_or_none(expected["system"]);
      // What Transformers raises on, and a text that a template would pass over in silence, is refused.
      if (expected.contains("text")) {
        EXPECT_EQ(chat.render(user, system, golden_day()), expected["text"].get<std::string>());
      } else {
        EXPECT_THROW(chat.render(user, system, golden_day()), UsageError);
      }
      ++n_cases;
    }
  }
  EXPECT_GE(n_cases, 24 * 16);
}

TEST(ChatTemplate, RendersConversationsAsTransformers) {
  int n_cases = 0;
  for (const auto& [name, entry] : golden()["templates"].items()) {
    const ChatTemplate chat = golden_template(name);
    for (const auto& expected : entry["conversations"]) {
      SCOPED_TRACE(name + json_text(expected));
      const nlohmann::ordered_json& request = expected["request"];
      if (expected.contains("text")) {
        EXPECT_EQ(chat.render(request, "request", golden_day()), expected["text"].get<std::string>());
      } else {
        EXPECT_ANY_THROW(chat.render(request, "request", golden_day()));
      }
      ++n_cases;
    }
  }
  EXPECT_GE(n_cases, 24 * 6);
}

TEST(ChatTemplate, TellsTheDateOfTheDay) {
  std::tm day{};
  day.tm_year = 124;
  day.tm_mon = 11;
  day.tm_mday = 31;
  const std::string text = golden_template("Llama 3.2").render("x", std::nullopt, day);
  EXPECT_THAT(text, HasSubstr("Today Date: 31 Dec 2024\n"));
}

TEST(ChatTemplate, WhatTheTemplateRefusesIsTheUsersToMend) {
  const ChatTemplate chat("{{ raise_exception('Roles must alternate') }}", {}, "model/chat_template.jinja");
  try {
    chat.render("x", std::nullopt, golden_day());
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("refuses these messages: Roles must alternate"),
                                    HasSubstr("model/chat_template.jinja, line 1")));
  }
}

TEST(ChatTemplate, WhatIsNoJinjaIsRefusedAtOnce) {
  try {
    const ChatTemplate chat("a\n{% if x %}", {}, "model/chat_template.jinja");
    FAIL();
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("model/chat_template.jinja: line 2: found"));
  }
}

TEST(ChatTemplate, ASpecialTokenThatIsNotThereIsAskedFor) {
  const auto text = golden()["templates"]["TinyLlama"]["template"].get<std::string>();
  try {
    ChatTemplate(text, {{"bos_token", "<s>"}}, "model").render("x", std::nullopt, golden_day());
    FAIL();
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("eos_token"), HasSubstr("tokenizer_config.json")));
  }
}

TEST(ChatTemplate, ARequestHasMessages) {
  const ChatTemplate chat("{{ messages[0].content }}", {}, "model");
  for (const char* request : {"[]", "{}", "7", "{\"messages\": {}}", "{\"messages\": []}", "[7]"})
    EXPECT_THROW(chat.render(parse_ordered_json(request), "request.json", golden_day()), FileError)
        << request;
  EXPECT_THROW(chat_text(chat, "[", {false, std::nullopt, "request.json"}), FileError);
  EXPECT_THROW(chat_text(chat, std::string(100'000, '['), {false, std::nullopt, "request.json"}), FileError);
}

// --- where a template is looked for

class ChatTemplateFolder : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.file(name)) << text;
  }
  std::string rendered() const {
    return ChatTemplate::load(folder_.path()).render("x", std::nullopt, golden_day());
  }
  std::string complaint() const {
    try {
      ChatTemplate::load(folder_.path());
    } catch (const FileError& error) {
      return error.what();
    }
    return "none";
  }

  test::ScratchFolder folder_;
  std::string zephyr_ = golden()["templates"]["TinyLlama"]["template"];
  std::string chatml_ = golden()["templates"]["OpenHermes"]["template"];
};

TEST_F(ChatTemplateFolder, AFileOfItsOwnComesFirst) {
  write("tokenizer_config.json", json_text(json{{"chat_template", zephyr_}, {"eos_token", "</s>"}}));
  EXPECT_EQ(rendered(), "<|user|>\nx</s>\n<|assistant|>\n");
  write("chat_template.jinja", chatml_);
  EXPECT_EQ(rendered(), "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n");
}

TEST_F(ChatTemplateFolder, OfSeveralTheDefault) {
  const json tool_use{{"name", "tool_use"}, {"template", "{{ tools }}"}};
  write("tokenizer_config.json",
        json_text(json{{"chat_template", {tool_use, {{"name", "default"}, {"template", chatml_}}}}}));
  EXPECT_EQ(rendered(), "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n");
  write("tokenizer_config.json", json_text(json{{"chat_template", json::array({tool_use})}}));
  EXPECT_THAT(complaint(), AllOf(HasSubstr("chat_template"), HasSubstr("tool_use"), HasSubstr("default")));
}

TEST_F(ChatTemplateFolder, WithToolsTheOneForTools) {
  const json tool_use{{"name", "tool_use"}, {"template", "tools: {{ tools[0] }}"}};
  write("tokenizer_config.json",
        json_text(json{{"chat_template", {tool_use, {{"name", "default"}, {"template", "plain"}}}}}));
  const auto with_tools =
      parse_ordered_json(R"({"messages": [{"role": "user", "content": "x"}], "tools": ["a"]})");
  EXPECT_EQ(ChatTemplate::load(folder_.path()).render(with_tools, "request", golden_day()), "tools: a");
  EXPECT_EQ(rendered(), "plain");
  fs::create_directory(folder_.path() / "additional_chat_templates");
  write("additional_chat_templates/tool_use.jinja", "file: {{ tools[0] }}");
  write("chat_template.jinja", "plain file");
  EXPECT_EQ(ChatTemplate::load(folder_.path()).render(with_tools, "request", golden_day()), "file: a");
  EXPECT_EQ(rendered(), "plain file");
}

TEST_F(ChatTemplateFolder, LineEndsAndMarksOfEveryEditor) {
  write("chat_template.jinja", "{% for m in messages %}\r\n{{ m.content }}\r\n{% endfor %}\r\n");
  EXPECT_EQ(rendered(), "x\n");
  write("chat_template.jinja", "\xEF\xBB\xBF{{ messages[0].content }}");
  EXPECT_EQ(rendered(), "\xEF\xBB\xBFx");  // as Transformers has it: a mark is text
}

TEST_F(ChatTemplateFolder, SpecialTokensAsTextOrObjectInEitherFile) {
  write("chat_template.jinja", zephyr_);
  write("special_tokens_map.json", json_text(json{{"eos_token", "<map>"}}));
  EXPECT_EQ(rendered(), "<|user|>\nx<map>\n<|assistant|>\n");
  write("tokenizer_config.json", json_text(json{{"eos_token", {{"content", "<config>"}}}}));
  EXPECT_EQ(rendered(), "<|user|>\nx<config>\n<|assistant|>\n");
  write("special_tokens_map.json", "{}");
  write("tokenizer_config.json", json_text(json{{"tokenizer_class", "LlamaTokenizerFast"}}));
  EXPECT_EQ(rendered(), "<|user|>\nx</s>\n<|assistant|>\n") << "what Transformers' class says";
  write("tokenizer_config.json",
        json_text(json{{"tokenizer_class", "LlamaTokenizerFast"}, {"eos_token", nullptr}}));
  EXPECT_THROW(rendered(), FileError);
}

TEST_F(ChatTemplateFolder, NoneAtAllSaysWhatWasLookedFor) {
  const auto expected = AllOf(HasSubstr(folder_.path().string()), HasSubstr("chat_template.jinja"),
                              HasSubstr("tokenizer_config.json"), HasSubstr("--chat"));
  EXPECT_THAT(complaint(), expected);
  write("tokenizer_config.json", "{\"chat_template\": null}");
  EXPECT_THAT(complaint(), expected);
}

TEST_F(ChatTemplateFolder, IsLoadedWhereItIsThere) {
  EXPECT_FALSE(ChatTemplate::load_if_there(folder_.path()));
  write("tokenizer_config.json", "{\"chat_template\": null, \"bos_token\": \"<s>\"}");
  EXPECT_FALSE(ChatTemplate::load_if_there(folder_.path()));
  write("chat_template.jinja", chatml_);
  const auto found = ChatTemplate::load_if_there(folder_.path());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->render("x", std::nullopt, golden_day()), rendered());
  write("chat_template.jinja", "{{ something_else");
  EXPECT_THROW(ChatTemplate::load_if_there(folder_.path()), FileError);
}

TEST_F(ChatTemplateFolder, DamagedFilesAreNamed) {
  for (const std::string text : {"", "[1]", "{\"chat_template\": 7}", "{\"chat_template\": [{\"name\": 1}]}",
                                 "{\"bos_token\": [1], \"chat_template\": \"x\"}"}) {
    write("tokenizer_config.json", text);
    EXPECT_THAT(complaint(), HasSubstr("tokenizer_config.json: ")) << text;
  }
}

// --- ids of real tokenizers, found through KEYSCOPE_TEST_DATA

class RealChat : public testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("KEYSCOPE_TEST_DATA");
    if (folder == nullptr || !fs::exists(folder)) GTEST_SKIP() << "KEYSCOPE_TEST_DATA does not name a folder";
    tokenizers_ = fs::path(folder) / "tokenizers";
  }

  fs::path tokenizers_;
};

TEST_F(RealChat, IdsOfLlama3) {
  const auto tokenizer = Tokenizer::load(tokenizers_ / "llama3");
  const ChatTemplate chat = golden_template(golden()["ids"]["llama3"]["template"]);
  for (const auto& expected : golden()["ids"]["llama3"]["cases"]) {
    const auto text =
        chat.render(expected["user"].get<std::string>(), text_or_none(expected["system"]), golden_day());
    EXPECT_EQ(tokenizer->encode(text, false), expected["ids"].get<std::vector<std::int32_t>>()) << expected;
  }
}

TEST_F(RealChat, IdsOfQwen3) {
  const auto tokenizer = Tokenizer::load(tokenizers_ / "qwen3");
  for (const auto& expected : golden()["ids"]["qwen3"]["cases"]) {
    const PromptForm form{true, text_or_none(expected["system"]), ""};
    EXPECT_EQ(encode_prompt(*tokenizer, tokenizers_ / "qwen3", expected["user"].get<std::string>(), form),
              expected["ids"].get<std::vector<std::int32_t>>())
        << expected;
  }
}

}  // namespace

}  // namespace keyscope::tokenizer
