#include "capture/tokenizer/chat_template.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "capture/tokenizer/template_skeleton.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::tokenizer {

namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// goldens/make_chat_goldens.py, by Transformers
const json& golden() {
  static const json kGolden = [] {
    return parse_json(
        read_file(fs::path(KEYSCOPE_SOURCE_DIR) / "tests/capture/tokenizer/goldens/chat.golden.json"));
  }();
  return kGolden;
}

std::chrono::year_month_day golden_day() {
  return {std::chrono::year(golden()["today"][0]), std::chrono::month(golden()["today"][1].get<unsigned>()),
          std::chrono::day(golden()["today"][2].get<unsigned>())};
}

std::optional<std::string> text_or_none(const json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<std::string>());
}

ChatTemplate golden_template(const std::string& name) {
  const json& entry = golden()["templates"][name];
  return {entry["template"].get<std::string>(),
          {entry["bos"].get<std::string>(), entry["eos"].get<std::string>()},
          name};
}

TEST(ChatTemplate, RendersAsTransformers) {
  int n_cases = 0;
  for (const auto& [name, entry] : golden()["templates"].items()) {
    const ChatTemplate chat = golden_template(name);
    for (const json& expected : entry["cases"]) {
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

TEST(ChatTemplate, EveryKindHasItsTemplate) {
  std::set<std::string> met, known;
  for (const auto& [name, entry] : golden()["templates"].items()) met.insert(golden_template(name).kind());
  for (const auto& kind : chat_kinds()) known.insert(kind.name);
  EXPECT_EQ(met, known);
}

TEST(ChatTemplate, TellsTheDateOfTheDay) {
  using namespace std::chrono_literals;
  const std::string text =
      golden_template("Llama 3.2").render("x", std::nullopt, 2024y / std::chrono::December / 31);
  EXPECT_THAT(text, HasSubstr("Today Date: 31 Dec 2024\n"));
}

// The slightest difference in what is printed makes another template of it.
TEST(ChatTemplate, AnUnknownTemplateIsRefused) {
  const auto known = golden()["templates"]["Qwen2"]["template"].get<std::string>();
  EXPECT_NO_THROW(ChatTemplate(known, {}, "x"));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = known;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  for (const auto& text : {changed("'\\n' + message", "' ' + message"),
                           changed("message['content']", "message['content'] | trim"),
                           changed("assistant\\n", "assistant\\n<think>"), changed("loop.first and ", ""),
                           known + "!", changed("{% endfor %}", "{{ eos_token }}{% endfor %}"),
                           changed("{% endfor %}", ""), std::string("{{ messages }}"), std::string()})
    try {
      const ChatTemplate chat(text, {}, "model/chat_template.jinja");
      ADD_FAILURE() << text << " was taken for " << chat.kind();
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("model/chat_template.jinja"), HasSubstr("no kind that is known"),
                        HasSubstr("Llama 3"), HasSubstr("--prompt-ids")));
    }
}

// A branch that needs tools cannot matter, whatever it holds; one that depends on anything else can.
TEST(ChatTemplate, BranchesThatCannotBeTakenMakeNoDifference) {
  const auto known = golden()["templates"]["SmolLM2"]["template"].get<std::string>();
  const ChatTemplate chat(
      "{% if tools %}{% macro f(x) %}{{ x }}{% endmacro %}{{ f(tools) }}{% endif %}" + known, {}, "x");
  EXPECT_EQ(chat.render("q", "s", golden_day()), golden_template("SmolLM2").render("q", "s", golden_day()));
  EXPECT_THROW(ChatTemplate("{% if documents or true %}x{% endif %}" + known, {}, "x"), FileError);
}

TEST(ChatTemplate, ASpecialTokenThatIsNotThereIsAskedFor) {
  const auto text = golden()["templates"]["TinyLlama"]["template"].get<std::string>();
  try {
    ChatTemplate(text, {"<s>", std::nullopt}, "model").render("x", std::nullopt, golden_day());
    FAIL();
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("eos_token"), HasSubstr("tokenizer_config.json")));
  }
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

TEST_F(ChatTemplateFolder, SpecialTokensAsTextOrObjectInEitherFile) {
  write("chat_template.jinja", zephyr_);
  write("special_tokens_map.json", json_text(json{{"eos_token", "<map>"}}));
  EXPECT_EQ(rendered(), "<|user|>\nx<map>\n<|assistant|>\n");
  write("tokenizer_config.json", json_text(json{{"eos_token", {{"content", "<config>"}}}}));
  EXPECT_EQ(rendered(), "<|user|>\nx<config>\n<|assistant|>\n");
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
  write("chat_template.jinja", "{{ something_else }}");
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
  for (const json& expected : golden()["ids"]["llama3"]["cases"]) {
    const auto text =
        chat.render(expected["user"].get<std::string>(), text_or_none(expected["system"]), golden_day());
    EXPECT_EQ(tokenizer->encode(text, false), expected["ids"].get<std::vector<std::int32_t>>()) << expected;
  }
  EXPECT_THROW(ChatTemplate::load(tokenizers_ / "llama3"), FileError);
}

TEST_F(RealChat, IdsOfQwen3) {
  const auto tokenizer = Tokenizer::load(tokenizers_ / "qwen3");
  for (const json& expected : golden()["ids"]["qwen3"]["cases"]) {
    const PromptForm form{true, text_or_none(expected["system"])};
    EXPECT_EQ(encode_prompt(*tokenizer, tokenizers_ / "qwen3", expected["user"].get<std::string>(), form),
              expected["ids"].get<std::vector<std::int32_t>>())
        << expected;
  }
}

std::optional<std::string> skeleton(const std::string& source) {
  static const KnownConditions kKnown{{condition_text("yes"), true}, {condition_text("no"), false}};
  return template_skeleton(source, kKnown);
}

void expect_same(const std::string& a, const std::string& b) {
  ASSERT_TRUE(skeleton(a)) << a;
  EXPECT_EQ(skeleton(a), skeleton(b)) << a << "\n" << b;
}

TEST(TemplateSkeleton, SpellingMakesNoDifference) {
  expect_same("{{ m['role'] }}", "{{m.role}}");
  expect_same("{{ 'a' + x + \"b\" }}", "a{{ x }}b");
  expect_same("{{ '<|x|>' + '\\n' + (x | trim) + 'b' + 'c' }}", "{{'<|x|>\n'}}{{ x|trim }}bc");
  expect_same("{% if (x == 'a') %}b{% endif %}", "{%- if x == \"a\" -%}{#- why -#} b {%- endif %}");
  expect_same("{{ raise_exception('this') }}", "{{ raise_exception(\"that\") }}");
}

TEST(TemplateSkeleton, MeaningMakesADifference) {
  EXPECT_NE(skeleton("{{ x }}"), skeleton("x"));
  EXPECT_NE(skeleton("{{ 'x' }}"), skeleton("{{ x }}"));
  EXPECT_NE(skeleton("{{ 'a' if x + y }}"), skeleton("{{ 'a' if x }}{{ y }}"));
  EXPECT_NE(skeleton("{{ a ~ b + c }}"), skeleton("{{ a ~ b }}{{ c }}"));
  EXPECT_NE(skeleton("{{ f('a', b) }}"), skeleton("{{ f('a, b') }}"));
  EXPECT_NE(skeleton("{{ f('\\' , \\'') }}"), skeleton("{{ f('', '') }}"));
  EXPECT_NE(skeleton("{% if (a) or (b) %}x{% endif %}"), skeleton("{% if a) or (b %}x{% endif %}"));
  EXPECT_NE(skeleton("{% if x in ['a'] %}x{% endif %}"), skeleton("{% if x in.a %}x{% endif %}"));
}

TEST(TemplateSkeleton, KnownConditionsLeaveWhatIsReached) {
  expect_same("{% if yes %}a{% else %}b{% endif %}", "a");
  expect_same("{% if (no) %}a{% else %}b{% endif %}", "b");
  expect_same("{% if no %}a{% elif x %}b{% elif yes %}c{% elif y %}d{% endif %}",
              "{% if x %}b{% else %}c{% endif %}");
  expect_same("{% if x %}a{% elif no %}{% for y in z %}{{ y }}{% endfor %}{% endif %}",
              "{% if x %}a{% endif %}");
  expect_same("{% for x in y %}{% if no %}a{% endif %}{% endfor %}b", "b");
  expect_same("{% if x %}{% else %}{% endif %}", "");
  EXPECT_NE(skeleton("{% if yes or x %}a{% endif %}"), skeleton("a"));
}

TEST(TemplateSkeleton, WhatIsNotFollowedHasNone) {
  for (const std::string source :
       {"{{ x", "{% if x %}", "{% endif %}", "{% for x in y %}{% endif %}", "{% if x %}a{% endfor %}",
        "{% if x %}a{% else %}b{% else %}c{% endif %}", "{% for x in y %}a{% else %}b{% endfor %}",
        "{% if %}a{% endif %}", "{% raw %}{% endraw %}", "{{ 'x }}", "{{ '\\x41' }}", "{{ (x }}", "{{ }}",
        "{% %}", "a\x02x\x03", "{#", "{{-", "{%"})
    EXPECT_FALSE(skeleton(source)) << source;
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{% if x %}";
  EXPECT_FALSE(skeleton(deep));
}

TEST(TemplateSkeleton, EveryBeginningOfATemplateIsRead) {
  const std::string whole =
      "{%- if x['a'] -%} {{- 'b\\n' + \"c\" }}{# d #}\n{% else %}{%+ set y = (1, 'z') +%}{% endif %}";
  for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_NO_THROW(skeleton(whole.substr(0, n))) << n;
}

// goldens/make_chat_goldens.py, by Jinja
TEST(TemplateSkeleton, PrintsWhiteSpaceAsJinja) {
  const auto golden = parse_json(read_file(std::filesystem::path(KEYSCOPE_SOURCE_DIR) /
                                           "tests/capture/tokenizer/goldens/chat.golden.json"));
  const KnownConditions known{{condition_text("1"), true}};
  ASSERT_GE(golden["white_space"].size(), 80U);
  for (const auto& expected : golden["white_space"])
    EXPECT_EQ(template_skeleton(expected["template"].get<std::string>(), known),
              expected["printed"].get<std::string>())
        << expected;
}

TEST(TemplateSkeleton, AConditionIsAnExpression) { EXPECT_THROW(condition_text("'x"), InvalidInput); }

}  // namespace

}  // namespace keyscope::tokenizer
