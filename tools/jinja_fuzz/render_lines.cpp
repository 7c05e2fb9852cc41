// A JSON object a line in, with "template" and "variables"; one a line out, with "text" or "error".

#include <ctime>
#include <iostream>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "capture/jinja/syntax.hpp"
#include "capture/jinja/template.hpp"

namespace {

nlohmann::ordered_json render(const nlohmann::ordered_json& job) {
  const std::time_t seconds = std::time(nullptr);
  std::tm now{};
  localtime_r(&seconds, &now);
  try {
    const keyscope::jinja::Template program(job["template"].get<std::string>());
    return {{"text", program.render(job["variables"], now)}};
  } catch (const keyscope::jinja::SyntaxError& error) {
    return {{"error", fmt::format("line {}: {}", error.line(), error.what())}};
  } catch (const keyscope::jinja::RenderError& error) {
    return {{"error", fmt::format("line {}: {}", error.line(), error.what())}};
  }
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);)
    std::cout << keyscope::json_text(render(keyscope::parse_ordered_json(line))) << std::endl;
  return 0;
}
