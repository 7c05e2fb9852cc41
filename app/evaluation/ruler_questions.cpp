#include "app/evaluation/ruler_questions.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"

namespace keyscope::evaluation {

namespace {

constexpr std::uint64_t kDocumentDraws = 1, kDocumentOrder = 2;  // purposes of draws

nlohmann::json read_questions(const std::filesystem::path& path) {
  nlohmann::json file = parse_json(read_text_file(path));
  if (file.is_discarded())
    throw FileError(fmt::format("{}: is no JSON; expected a file of questions", path.string()));
  return file;
}

// Documents by their texts, as numbers that are put right once all are known.
class DocumentShelf {
 public:
  std::size_t number_of(const std::string& text) {
    return numbers_.try_emplace(text, numbers_.size()).first->second;
  }

  // Gives every document its place among the sorted texts.
  Questions sorted(std::vector<Questions::Question> all) const {
    Questions made;
    std::vector<std::size_t> places(numbers_.size());
    for (const auto& [text, number] : numbers_) {
      places[number] = made.documents.size();
      made.documents.push_back(text);
    }
    for (Questions::Question& question : all)
      for (auto* documents : {&question.own, &question.near})
        for (std::size_t& document : *documents) document = places[document];
    made.all = std::move(all);
    return made;
  }

 private:
  std::map<std::string, std::size_t> numbers_;
};

void add_once(std::vector<std::size_t>& documents, std::size_t document) {
  if (std::ranges::find(documents, document) == documents.end()) documents.push_back(document);
}

void require_some(const std::vector<Questions::Question>& all, const std::filesystem::path& path) {
  if (all.empty())
    throw FileError(fmt::format("{}: has no question with an answer; expected at least one", path.string()));
}

// A paragraph's questions that have an answer, without near documents.
void add_squad_questions(const JsonField& paragraph, std::size_t own,
                         std::vector<Questions::Question>& questions) {
  paragraph.member("qas").for_each([&](const JsonField& question) {
    Questions::Question read{question.member("question").string(), {}, {own}, {}};
    question.member("answers").for_each([&](const JsonField& answer) {
      std::string text = answer.member("text").string();
      if (std::ranges::find(read.answers, text) == read.answers.end())
        read.answers.push_back(std::move(text));
    });
    if (!read.answers.empty() && !question.boolean_or("is_impossible", false))
      questions.push_back(std::move(read));
  });
}

}  // namespace

Questions read_squad(const std::filesystem::path& path) {
  const nlohmann::json file = read_questions(path);
  DocumentShelf shelf;
  std::vector<Questions::Question> all;
  JsonField(file, path.string(), "").member("data").for_each([&](const JsonField& article) {
    std::vector<std::size_t> documents;
    std::vector<Questions::Question> questions;
    article.member("paragraphs").for_each([&](const JsonField& paragraph) {
      const std::size_t own = shelf.number_of(paragraph.member("context").string());
      add_once(documents, own);
      add_squad_questions(paragraph, own, questions);
    });
    for (Questions::Question& question : questions) {
      std::ranges::copy_if(documents, std::back_inserter(question.near),
                           [&](std::size_t document) { return document != question.own.front(); });
      all.push_back(std::move(question));
    }
  });
  require_some(all, path);
  return shelf.sorted(std::move(all));
}

Questions read_hotpotqa(const std::filesystem::path& path) {
  const nlohmann::json file = read_questions(path);
  DocumentShelf shelf;
  std::vector<Questions::Question> all;
  JsonField(file, path.string(), "").for_each([&](const JsonField& question) {
    Questions::Question read{
        question.member("question").string(), {question.member("answer").string()}, {}, {}};
    question.member("context").for_each([&](const JsonField& document) {
      std::string text;
      std::int64_t n_parts = 0;  // a title, and an array of sentences
      document.for_each([&](const JsonField& part) {
        if (n_parts++ == 0)
          text = part.string() + "\n";
        else
          part.for_each([&](const JsonField& sentence) { text += sentence.string(); });
      });
      if (n_parts != 2) document.fail(fmt::format("{} entries", n_parts), "a title and its sentences");
      add_once(read.own, shelf.number_of(text));
    });
    all.push_back(std::move(read));
  });
  require_some(all, path);
  return shelf.sorted(std::move(all));
}

namespace {

// All documents: a question's own, near ones and the others, each of the last two in an order that is drawn.
std::vector<std::size_t> shown_order(const Questions& questions, const Questions::Question& question,
                                     Draws draws) {
  std::vector<std::size_t> order = question.own;
  std::vector<char> taken(questions.documents.size(), 0);
  for (const std::size_t document : question.own) taken[document] = 1;
  const auto add = [&](const std::vector<std::size_t>& documents) {
    for (const std::size_t i : shuffled(documents.size(), draws))
      if (std::exchange(taken[documents[i]], 1) == 0) order.push_back(documents[i]);
  };
  add(question.near);
  std::vector<std::size_t> all(questions.documents.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  add(all);
  return order;
}

}  // namespace

GrowingPrompt ruler_question(const RulerSample& sample, const Questions& questions, std::size_t which) {
  const Questions::Question& question = questions.all[which];
  const auto order = shown_order(questions, question, Draws(sample.seed, kDocumentDraws));
  const auto made = [&questions, &question, order, seed = sample.seed](std::size_t n) {
    std::string context;
    Draws draws(seed, kDocumentOrder);
    for (std::size_t number = 1; const std::size_t i : shuffled(n, draws)) {
      fmt::format_to(std::back_inserter(context), "{}Document {}:\n{}", number == 1 ? "" : "\n\n", number,
                     questions.documents[order[i]]);
      ++number;
    }
    return RulerText{
        fmt::format("Answer the question based on the given documents. Only give me the answer and do not "
                    "output any other words.\n\nThe following are given documents.\n\n{}\n\nAnswer the "
                    "question based on the given documents. Only give me the answer and do not output any "
                    "other words.\n\nQuestion: {}",
                    context, question.text),
        " Answer:", question.answers};
  };
  return {question.own.size(), order.size(), made};
}

}  // namespace keyscope::evaluation
