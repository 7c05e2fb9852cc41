#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace keyscope::jinja {

struct Node;

// Why a template did not render.
class RenderError : public std::runtime_error {
 public:
  //   line: of the template, from 1; is_raised: by the template itself, with raise_exception
  RenderError(int line, const std::string& what, bool is_raised)
      : std::runtime_error(what), line_(line), is_raised_(is_raised) {}
  int line() const { return line_; }
  bool is_raised() const { return is_raised_; }

 private:
  int line_;
  bool is_raised_;
};

struct Limits {
  std::int64_t steps = 20'000'000;                // a second or two
  std::int64_t bytes = std::int64_t{256} << 20U;  // and
  std::int64_t bytes_a_byte_of_variables = 64;    // of what is rendered
};

// A Jinja template as Transformers renders chat templates: Jinja 3.1 with trim_blocks, lstrip_blocks, loop
// controls, the tag `generation`, the filter `tojson` and the functions `raise_exception` and `strftime_now`,
// in a sandbox: a template reaches its variables and nothing else, and ends at limits. Integers have 64 bits;
// what is not supported (random, pprint, urlize and their like, other files) is an error by name, never left
// out. Immutable: safe from several threads.
class Template {
 public:
  //   source: valid UTF-8
  //   throws SyntaxError
  explicit Template(std::string_view source);
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  // The text that the template makes of a JSON object.
  //   now: what strftime_now tells
  //   throws RenderError
  std::string render(const nlohmann::ordered_json& variables, const std::tm& now,
                     const Limits& limits = {}) const;

 private:
  std::shared_ptr<const Node> body_;
};

}  // namespace keyscope::jinja
