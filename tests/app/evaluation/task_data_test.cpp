#include "app/evaluation/task_data.hpp"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "tests/support/scratch_folder.hpp"

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
  EXPECT_EQ(encoder.turn("Who?", " It was"), tokenizer_->encode("Who? It was", true));
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
    EXPECT_EQ(encoder.turn("Who?", " It was"), tokenizer_->encode(turn + " It was", false));
    EXPECT_EQ(encoder.plain("Who?"), tokenizer_->encode("Who?", true));
  }
  EXPECT_FALSE(PromptEncoder(*tokenizer_, folder, ChatUse::kNever).has_chat());
}

TEST_F(ChatUses, ATemplateThatIsNoneIsNotPassedOver) {
  const fs::path folder = with_template("{{ something_else");
  EXPECT_THROW(PromptEncoder(*tokenizer_, folder, ChatUse::kIfThere), FileError);
  EXPECT_NO_THROW(PromptEncoder(*tokenizer_, folder, ChatUse::kNever));
}

TEST(DataFiles, OfAFolderAreItsJsonLinesByName) {
  const test::ScratchFolder folder;
  for (const char* name : {"b.jsonl", "a.jsonl", "notes.txt"}) std::ofstream(folder.file(name)) << "{}\n";
  const std::vector<fs::path> given{folder.file("notes.txt"), folder.file("a.jsonl").parent_path()};
  EXPECT_THAT(data_files(given), ::testing::ElementsAre(folder.file("notes.txt"), folder.file("a.jsonl"),
                                                        folder.file("b.jsonl")));
}

TEST(DataFiles, OfFoldersBelowAreThoseAskedFor) {
  const test::ScratchFolder folder;
  fs::create_directories(folder.file("4096/vt"));
  std::ofstream(folder.file("4096/vt/validation.jsonl")) << "{}\n";
  std::ofstream(folder.file("4096/a.jsonl")) << "{}\n";
  const std::vector<fs::path> given{folder.file("4096")};
  EXPECT_THAT(data_files(given), ::testing::ElementsAre(folder.file("4096/a.jsonl")));
  EXPECT_THAT(data_files(given, true),
              ::testing::ElementsAre(folder.file("4096/a.jsonl"), folder.file("4096/vt/validation.jsonl")));
}

TEST(DataFiles, AreRefusedWhereThereAreNone) {
  const test::ScratchFolder folder;
  const std::vector<fs::path> empty{folder.file("x").parent_path()}, absent{folder.file("absent.jsonl")};
  EXPECT_THROW(data_files(empty), FileError);
  EXPECT_THROW(data_files(absent), FileError);
}

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class JsonRows : public ::testing::Test {
 protected:
  ReadRows read_all(bool skip_bad) {
    taken_.clear();
    return read_json_rows(paths_, skip_bad, [&](const nlohmann::json& row, const std::string& where) {
      if (!row.contains("n")) throw FileError(where + ": \"n\" is missing");
      taken_.push_back(row["n"]);
    });
  }
  ReadRows read(const std::string& text, bool skip_bad) {
    std::ofstream(paths_.at(0)) << text;
    return read_all(skip_bad);
  }
  std::string refusal(const std::string& text, bool skip_bad = false) {
    try {
      read(text, skip_bad);
    } catch (const FileError& error) {
      return error.what();
    }
    return "not refused";
  }

  test::ScratchFolder folder_;
  std::vector<std::filesystem::path> paths_{folder_.path() / "rows.jsonl"};
  std::vector<int> taken_;
};

TEST_F(JsonRows, AreTakenInOrderAndEmptyLinesAreNone) {
  EXPECT_EQ(read("{\"n\": 1}\n\n \t \r\n{\"n\": 2} \r\n{\"n\": 3}", false).n_rows, 3);
  EXPECT_THAT(taken_, ElementsAre(1, 2, 3));
}

TEST_F(JsonRows, AByteOrderMarkBeforeTheFirstIsNone) {
  EXPECT_EQ(read("\xEF\xBB\xBF{\"n\": 1}\n{\"n\": 2}\n", false).n_rows, 2);
  EXPECT_THAT(refusal("{\"n\": 1}\n\xEF\xBB\xBF{\"n\": 2}\n"), HasSubstr("line 2"));
}

TEST_F(JsonRows, BadOnesAreNamedAndCounted) {
  const std::string text = "{\"n\": 1}\nno json\n{\"m\": 2}\n{\"n\": 4}\n";
  EXPECT_THAT(refusal(text), HasSubstr("rows.jsonl, line 2"));
  EXPECT_THAT(refusal(text), HasSubstr("2 rows are bad (lines 2, 3)"));
  EXPECT_THAT(refusal("{\"n\": 1}\n[]\n"), HasSubstr("--skip-bad goes on without it"));
  const ReadRows rows = read(text, true);
  EXPECT_EQ(rows.n_rows, 2);
  ASSERT_EQ(rows.bad.size(), 2U);
  EXPECT_THAT(rows.bad[1], HasSubstr("line 3: \"n\" is missing"));
  EXPECT_THAT(taken_, ElementsAre(1, 4));
}

TEST_F(JsonRows, WithoutARowThereIsNothingToDo) {
  EXPECT_THAT(refusal("\n\n"), HasSubstr("there is no row; expected at least one"));
  EXPECT_THAT(refusal("x\n", true), HasSubstr("no row that can be used"));
  std::filesystem::remove(paths_[0]);
  EXPECT_THROW(read_all(true), FileError);
  paths_ = {folder_.path()};
  EXPECT_THROW(read_all(true), FileError);
}

TEST_F(JsonRows, OfSeveralFilesAreCountedTogether) {
  paths_.push_back(folder_.path() / "more.jsonl");
  paths_.push_back(folder_.path() / "none.jsonl");
  std::ofstream(paths_[1]) << "no json\n{\"n\": 2}\n";
  std::ofstream(paths_[2]) << "[]\n\n[]\n";
  const std::string text = "{\"n\": 1}\nno json\n";
  EXPECT_THAT(refusal(text), HasSubstr("rows.jsonl, line 2"));
  EXPECT_THAT(refusal(text), HasSubstr("4 rows are bad (rows.jsonl: line 2; more.jsonl: line 1; none.jsonl: "
                                       "lines 1, 3); --skip-bad goes on without them"));
  // A file of bad rows alone is no reason to stop where other rows can be used.
  EXPECT_EQ(read(text, true).bad.size(), 4U);
  EXPECT_THAT(taken_, ElementsAre(1, 2));
  std::ofstream(paths_[1]) << "no json\n";
  EXPECT_THAT(refusal("x\n", true), HasSubstr("3 files: there is no row that can be used"));
}

TEST_F(JsonRows, OfManyBadOnesTheFirstLinesAreListed) {
  std::string text;
  for (int i = 0; i < 30; ++i) text += "x\n";
  EXPECT_THAT(refusal(text), HasSubstr("30 rows are bad (lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …)"));
}

using nlohmann::json;

TEST(RowFields, AreReadWhereTheyAreTexts) {
  const json row{{"one", "a"}, {"several", {"b", "c"}}, {"none", json::array()}};
  EXPECT_EQ(text_field(row, "one", ""), "a");
  EXPECT_THAT(texts_field(row, "several", ""), ElementsAre("b", "c"));
  EXPECT_TRUE(texts_field(row, "none", "").empty());
}

TEST(RowFields, OthersAreNamedWithWhatWasFound) {
  const json row{{"count", 3}, {"mixed", {"b", 3}}, {"null", nullptr}};
  const auto refusal = [&](const char* field, bool several) -> std::string {
    try {
      several ? static_cast<void>(texts_field(row, field, "f, line 1"))
              : static_cast<void>(text_field(row, field, "f, line 1"));
    } catch (const FileError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("count", false), "f, line 1: \"count\" is 3; expected a text");
  EXPECT_EQ(refusal("null", false), "f, line 1: \"null\" is null; expected a text");
  EXPECT_EQ(refusal("absent", false), "f, line 1: \"absent\" is not there; expected a text");
  EXPECT_EQ(refusal("mixed", true), "f, line 1: \"mixed\" is [\"b\",3]; expected an array of texts");
  EXPECT_EQ(refusal("count", true), "f, line 1: \"count\" is 3; expected an array of texts");
}

}  // namespace

}  // namespace keyscope::evaluation
