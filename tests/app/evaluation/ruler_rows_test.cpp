#include "app/evaluation/ruler_rows.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/evaluation/ruler_lists.hpp"
#include "app/evaluation/ruler_needles.hpp"
#include "app/evaluation/ruler_questions.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "tests/app/evaluation/made_results.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::evaluation {

namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

std::string task_name(const RulerTask* task) { return task == nullptr ? "" : std::string(task->name); }

TEST(RulerPlace, IsToldByFileAndFolders) {
  const struct {
    const char* path;
    const char* task;
    std::int64_t length;  // 0: none
  } kCases[]{{"niah_multikey_3.4096.first3.jsonl", "niah_multikey_3", 4096},
             {"/a/4096/data/vt/validation.jsonl", "vt", 4096},
             {"results/131072/niah_single_1/validation.jsonl", "niah_single_1", 131'072},
             {"8K/cwe.jsonl", "cwe", 8192},
             {"qa_1-32k.jsonl", "qa_1", 32'768},
             {"fwe_4096.jsonl", "fwe", 4096},
             {"2024/niah_single_2/rows.jsonl", "niah_single_2", 0},  // a year
             {"niah_single_10.jsonl", "", 0},
             {"vtx/rows.512.jsonl", "", 512},
             {"niah_single_3.jsonl", "niah_single_3", 0}};
  for (const auto& [path, task, length] : kCases) {
    const RulerPlace place = ruler_place(path);
    EXPECT_EQ(task_name(place.task), task) << path;
    EXPECT_EQ(place.length.value_or(0), length) << path;
  }
}

TEST(RulerTarget, IsThePowerOfTwoThatHoldsARow) {
  EXPECT_EQ(ruler_target(3181), 4096);
  EXPECT_EQ(ruler_target(4096), 4096);
  EXPECT_EQ(ruler_target(4097), 8192);
  EXPECT_EQ(ruler_target(130'000), 131'072);
}

// Every generated prompt is told by its text; of questions nothing tells the two tasks apart.
TEST(RulerTaskOfText, IsThatOfWhatWasGenerated) {
  RulerOptions options;
  options.lengths = {4096};
  options.samples = 1;
  const auto tokenizer = demo_model()->tokenizer();
  int n_tasks = 0;
  for (const Example& example : ruler_examples(options, *demo_model()).examples) {
    const std::string input = tokenizer->decode(example.prompt_ids, true);
    EXPECT_EQ(task_name(ruler_task_of_text(input)), example.about["task"]);
    EXPECT_EQ(task_name(ruler_task_of_text("[INST] " + input)), example.about["task"]);
    ++n_tasks;
  }
  EXPECT_EQ(n_tasks, 11);
  EXPECT_EQ(ruler_task_of_text("Answer the question based on the given documents. Only"), nullptr);
  EXPECT_EQ(ruler_task_of_text("Once upon a time"), nullptr);
  EXPECT_EQ(ruler_task_of_text(""), nullptr);
}

const RulerTask& niah() { return *find_ruler_task("niah_single_1"); }

TEST(RulerRowText, IsPartedWhereTheAnswerPrefixBegins) {
  const std::string asked =
      "A special magic number is hidden within the following text.\nOne is: 7.\nWhat is the special magic "
      "number for a-b mentioned in the provided text?";
  const std::string prefix = " The special magic number for a-b mentioned in the provided text is";
  for (const auto& text : {ruler_text(niah(), asked + prefix, std::nullopt),
                           ruler_text(niah(), asked, prefix), ruler_text(niah(), asked + prefix, prefix)}) {
    EXPECT_EQ(text.asked, asked);
    EXPECT_EQ(text.answer_prefix, prefix);
    EXPECT_FALSE(has_own_template(text));
  }
  // None at the end: what reads like one in the haystack is none.
  const RulerText whole =
      ruler_text(niah(), "A special magic.\nHe said: The special magic is here.\nWhat?", {});
  EXPECT_THAT(whole.asked, EndsWith("\nWhat?"));
  EXPECT_EQ(whole.answer_prefix, "");
  EXPECT_EQ(ruler_text(niah(), "input", "").answer_prefix, "");
  EXPECT_TRUE(has_own_template(ruler_text(niah(), "[INST] " + asked, prefix)));
  EXPECT_FALSE(has_own_template(ruler_text(niah(), " " + asked, prefix))) << "as RULER begins its examples";
}

json row_json() {
  return {{"index", 2},
          {"input",
           "Some special magic numbers are hidden.\nWhat are all the special magic numbers for a and b?"},
          {"outputs", {"12", "13"}},
          {"length", 900}};
}

std::string refusal(const json& row, const RulerPlace& place = {}, const RulerTask* named = nullptr) {
  try {
    read_ruler_row(row, place, named, "f.jsonl, line 3");
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

TEST(RulerRow, IsRead) {
  const RulerRow row = read_ruler_row(row_json(), {&niah(), 4096}, find_ruler_task("vt"), "");
  EXPECT_EQ(row.task, &niah()) << "the place says it";
  EXPECT_THAT(row.text.outputs, ElementsAre("12", "13"));
  EXPECT_EQ(row.length, 900);
  json more = row_json();
  more["answer_prefix"] = " They are";
  const RulerRow other = read_ruler_row(more, {}, find_ruler_task("vt"), "");
  EXPECT_EQ(task_name(other.task), "niah_multivalue") << "the text says it";
  EXPECT_EQ(other.text.answer_prefix, " They are");
  json question = row_json();
  question["input"] = "Answer the question based on the given documents. Answer:";
  EXPECT_EQ(task_name(read_ruler_row(question, {}, find_ruler_task("qa_2"), "").task), "qa_2");
  EXPECT_THAT(refusal(question), AllOf(HasSubstr("f.jsonl, line 3"), HasSubstr("--task"), HasSubstr("qa_1")));
}

TEST(RulerRow, FieldsAreChecked) {
  for (const char* field : {"input", "outputs"}) {
    json row = row_json();
    row[field] = 7;
    EXPECT_THAT(refusal(row), AllOf(HasSubstr("f.jsonl, line 3"), HasSubstr(field), HasSubstr("is 7")));
    row.erase(field);
    EXPECT_THAT(refusal(row), AllOf(HasSubstr(field), HasSubstr("is not there")));
  }
  json row = row_json();
  row["outputs"] = json::array();
  EXPECT_THAT(refusal(row), HasSubstr("\"outputs\" is empty"));
  row["outputs"] = {"12", 13};
  EXPECT_THAT(refusal(row), HasSubstr("array of texts"));
  for (const auto& [field, value] :
       {std::pair<const char*, json>{"length", "long"}, {"length", -1}, {"answer_prefix", 3}}) {
    json damaged = row_json();
    damaged[field] = value;
    EXPECT_THAT(refusal(damaged), AllOf(HasSubstr("f.jsonl, line 3"), HasSubstr(field))) << value;
  }
}

class RulerRows : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::vector<json>& rows) const {
    const std::filesystem::path path = folder_.file(name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream file(path);
    for (const json& row : rows) file << json_text(row) << "\n";
    return path;
  }

  static json needle_row(int index) {
    return {{"index", index},
            {"input", "A special magic number is hidden.\nWhat is it?"},
            {"outputs", {std::to_string(1000 + index)}},
            {"length", 300}};
  }

  static std::vector<std::string> ids(const RulerSet& set) {
    std::vector<std::string> ids;
    for (const Example& example : set.examples) ids.push_back(example.id);
    return ids;
  }

  test::ScratchFolder folder_;
};

TEST_F(RulerRows, OfFoldersAreInTheOrderOfTasksAndLengths) {
  write("data/8192/vt/validation.jsonl", {needle_row(0)});
  write("data/4096/vt/validation.jsonl", {needle_row(0), needle_row(1)});
  write("data/4096/niah_single_1/validation.jsonl", {needle_row(5)});
  RulerOptions options;
  options.data = {folder_.file("data")};
  EXPECT_THAT(ids(ruler_examples(options, *demo_model())),
              ElementsAre("niah_single_1, length 4096, sample 0", "vt, length 4096, sample 0",
                          "vt, length 4096, sample 1", "vt, length 8192, sample 0"));
  options.samples = 1;
  options.tasks = {"vt"};
  options.lengths = {4096};
  EXPECT_THAT(ids(ruler_examples(options, *demo_model())), ElementsAre("vt, length 4096, sample 0"));
  options.lengths = {1024};
  EXPECT_THAT([&] { ruler_examples(options, *demo_model()); },
              ThrowsMessage<UsageError>(HasSubstr("--task and --length")));
}

TEST_F(RulerRows, AreAskedWithTheirAnswerPrefix) {
  json row = needle_row(0);
  row["answer_prefix"] = " It is";
  RulerOptions options;
  options.data = {write("niah_single_1.jsonl", {row})};
  const Example example = ruler_examples(options, *demo_model()).examples.front();
  EXPECT_EQ(example.prompt_ids,
            demo_model()->tokenizer()->encode(row["input"].get<std::string>() + " It is", true));
  EXPECT_THAT(example.answers, ElementsAre("1000"));
  EXPECT_EQ(example.about["length"], 512) << "the power of two that its length fits into";
  EXPECT_EQ(example.continuation.max_new_tokens, 128);
}

// RULER's newer scripts for needles write where the answer stands in the text as "index": it repeats, and is
// -1 where the template hides the answer.
TEST_F(RulerRows, AreNumberedByTheirOrder) {
  std::vector<json> rows;
  for (int i = 0; i < 3; ++i) {
    rows.push_back(needle_row(i));
    rows.back()["index"] = i < 2 ? 731 : -1;
  }
  RulerOptions options;
  options.data = {write("niah_single_1.jsonl", rows)};
  EXPECT_THAT(ids(ruler_examples(options, *demo_model())),
              ElementsAre("niah_single_1, length 512, sample 0", "niah_single_1, length 512, sample 1",
                          "niah_single_1, length 512, sample 2"));
}

TEST_F(RulerRows, ThatAreDamagedAreNamedOrSkipped) {
  json damaged = needle_row(1);
  damaged["outputs"] = "1001";
  json twice = needle_row(0);
  RulerOptions options;
  options.data = {write("niah_single_1.jsonl", {needle_row(0), damaged, twice})};
  EXPECT_THAT(
      [&] { ruler_examples(options, *demo_model()); },
      ThrowsMessage<FileError>(AllOf(HasSubstr("niah_single_1.jsonl, line 2"), HasSubstr("\"outputs\""),
                                     HasSubstr("2 rows are bad (lines 2, 3)"))));
  options.skip_bad = true;
  const RulerSet set = ruler_examples(options, *demo_model());
  EXPECT_THAT(ids(set), ElementsAre("niah_single_1, length 512, sample 0"));
  EXPECT_THAT(set.bad,
              ElementsAre(HasSubstr("line 2"), AllOf(HasSubstr("line 3"), HasSubstr("count twice"))));
}

TEST_F(RulerRows, ThatAreLongerThanTheContextAreBad) {
  json row = needle_row(0);
  std::string text = "A special magic number is hidden.\n";
  for (int i = 0; i < 9000; ++i) text += "The grass. ";
  row["input"] = text;
  RulerOptions options;
  options.data = {write("niah_single_1.jsonl", {row})};
  EXPECT_THAT([&] { ruler_examples(options, *demo_model()); },
              ThrowsMessage<FileError>(AllOf(HasSubstr("line 1"), HasSubstr("context is 8192"))));
}

// RULER's own rows: what is read of them, and that it scores as published.
TEST(RulerOwnRows, AreReadAndScored) {
  const char* const folder = std::getenv("KEYSCOPE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "KEYSCOPE_TEST_DATA is not set";
  const std::filesystem::path file =
      std::filesystem::path(folder) / "ruler" / "niah_multikey_3.4096.first3.jsonl";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there";
  RulerOptions options;
  options.data = {file};
  const RulerSet set = ruler_examples(options, *demo_model());
  ASSERT_EQ(set.examples.size(), 3U);
  std::ifstream lines(file);
  std::string line;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(std::getline(lines, line));
    const json row = parse_json(line);
    const std::string input = row["input"];
    const Example& example = set.examples[i];
    EXPECT_EQ(example.about, (nlohmann::ordered_json{
                                 {"task", "niah_multikey_3"}, {"length", 4096}, {"sample", row["index"]}}));
    EXPECT_EQ(example.answers, row["outputs"].get<std::vector<std::string>>());
    EXPECT_EQ(example.prompt_ids, demo_model()->tokenizer()->encode(input, true));
    EXPECT_EQ(task_name(ruler_task_of_text(input)), "niah_multikey_3");
    const RulerText text = ruler_text(*find_ruler_task("niah_multikey_3"), input, std::nullopt);
    EXPECT_EQ(text.asked + text.answer_prefix, input);
    EXPECT_THAT(text.asked, EndsWith(" mentioned in the provided text?"));
    EXPECT_THAT(text.answer_prefix, StartsWith(" The special magic uuid for "));
    EXPECT_EQ(ruler_score(*find_ruler_task("niah_multikey_3"), "It is " + example.answers[0] + ".",
                          example.answers),
              1);
  }
}

// What is generated is worded as RULER's own rows are, word for word.
TEST(RulerOwnRows, AreWordedAsGeneratedOnesAre) {
  const char* const folder = std::getenv("KEYSCOPE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "KEYSCOPE_TEST_DATA is not set";
  std::ifstream lines(std::filesystem::path(folder) / "ruler" / "niah_multikey_3.4096.first3.jsonl");
  std::string line;
  if (!std::getline(lines, line)) GTEST_SKIP() << "there is no row";
  const auto without_uuids = [](std::string text) {
    std::string left;
    for (const char c : text)
      if ((c < '0' || c > '9') && c != '-' && (c < 'a' || c > 'f')) left += c;
    return left;
  };
  const std::string own = parse_json(line)["input"];
  const auto n_lines = static_cast<std::size_t>(std::ranges::count(own, '\n')) - 1;
  const auto tokenizer = demo_model()->tokenizer();
  const Haystack no_essay;
  const RulerText made =
      ruler_needles("niah_multikey_3", {1, 8192, *tokenizer}, {}, no_essay).made(n_lines - 1);
  EXPECT_EQ(without_uuids(made.asked + made.answer_prefix), without_uuids(own));
}

}  // namespace

}  // namespace keyscope::evaluation
