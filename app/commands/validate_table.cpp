#include "app/commands/validate_table.hpp"

#include <fmt/format.h>

#include "app/validation/number_text.hpp"

namespace keyscope::commands {
namespace {

using validation::Claim;
using validation::Finding;

std::string finding_line(const Finding& finding) {
  std::string line = fmt::format("    {:<18}{:>10}  {:<20}{:>4} prompts", finding.label,
                                 validation::number_text(finding.mean.mean),
                                 validation::interval_text(finding.mean), finding.mean.n_samples);
  if (finding.tally)
    line += fmt::format("  {} of {} pairs violate it", finding.tally->violations, finding.tally->pairs);
  return line + fmt::format("  {}\n", validation::verdict_name(finding.verdict));
}

std::string claim_lines(const Claim& claim) {
  std::string lines = fmt::format("{}  [{}]\n", claim.question, validation::verdict_name(claim.verdict));
  lines += fmt::format("    {}{} ({})\n", claim.quantity, claim.units.empty() ? "" : ", " + claim.units,
                       claim.source);
  for (const Finding& finding : claim.findings) lines += finding_line(finding);
  if (claim.heads > 0)
    lines += fmt::format("    {} of {} KV heads lie on the claimed side of zero\n", claim.heads_agreeing,
                         claim.heads);
  if (!claim.remark.empty()) lines += fmt::format("    {}\n", claim.remark);
  return lines + fmt::format("    rule: {}\n", claim.rule);
}

}  // namespace

std::string validate_table(const validation::Report& report) {
  std::string text = fmt::format("{}: {}; {}\nMeans over prompts, with {:.0f} % bootstrap intervals\n",
                                 report.settings.model.name, validation::describe_extent(report),
                                 validation::describe_eviction(report), 100 * report.bootstrap.confidence);
  for (const Claim& claim : report.claims) text += fmt::format("\n{}", claim_lines(claim));
  return text;
}

}  // namespace keyscope::commands
