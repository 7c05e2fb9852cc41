#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/evaluation/ruler.hpp"

namespace keyscope::evaluation {

// What the place of RULER's rows says of them: `niah_multikey_3.4096.jsonl`, `4096/data/vt/validation.jsonl`.
struct RulerPlace {
  const RulerTask* task = nullptr;     // null: it does not say
  std::optional<std::int64_t> length;  // tokens
};

// The task is that with which the file's name begins, else one that a folder above it is named after; the
// length a part of the name behind the task, else the name of the nearest such folder: a multiple of 512, as
// a number or in K. Of folders, the file's path as it was given is looked at.
RulerPlace ruler_place(const std::filesystem::path& file);

// The task by a prompt's own text, with what stands in its haystack; null where it could be of several, as
// questions over documents could.
const RulerTask* ruler_task_of_text(std::string_view input);

// One row of RULER's own JSON lines.
struct RulerRow {
  const RulerTask* task = nullptr;
  RulerText text;  // as `ruler_text` parts it
  std::optional<std::int64_t>
      length;  // tokens, as RULER counted them for its tokenizer, with those generated
};

// A row's input in two: what is asked, and what the answer goes on from. That is `answer_prefix` where the
// row gives one, be it in the input as well or not, else what stands behind the question where the input ends
// with the task's. A row that was made in a model's own chat template is asked as it is.
RulerText ruler_text(const RulerTask& task, std::string_view input,
                     const std::optional<std::string>& answer_prefix);

// Whether a row was made in a chat template: its input does not begin, after white space, as its task does.
bool has_own_template(const RulerText& text);

// Reads "input", "outputs" and, where they are there, "answer_prefix" and "length". "index" is not read:
// RULER's scripts write the row's number there, or where the answer stands in the text.
//   place: of its file; named: the task of rows of which neither place nor text says it, may be null
//   where: file and line, for messages
//   throws FileError naming field, what was found and what was expected
RulerRow read_ruler_row(const nlohmann::json& row, const RulerPlace& place, const RulerTask* named,
                        const std::string& where);

// The target of a row that says only how long it became: the power of two that it fits into.
std::int64_t ruler_target(std::int64_t length);

// The rows of the tasks and lengths asked for, or all, in the order of tasks, lengths, files and lines.
//   throws FileError as read_json_rows, on a row that is there twice with all its fields, and on a prompt
//   that does not fit into the model's context with its answer; UsageError where no row is of what was asked
RulerSet read_ruler_rows(const RulerOptions& options, const capture::Model& model);

}  // namespace keyscope::evaluation
