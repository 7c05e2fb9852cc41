#include "app/panels/live_form.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <imgui_stdlib.h>

#include "analysis/policies/registry.hpp"

namespace keyscope::window {
namespace {

void label(const PanelContext& context, const char* text) { dim_text(context, text); }

// A number under its label, as one column of `width`.
void number_column(const PanelContext& context, const char* text, const char* name, int& value, float width) {
  ImGui::BeginGroup();
  dim_text(context, fit_text(context.fonts.small, text, width));
  ImGui::SetNextItemWidth(width);
  ImGui::InputInt(name, &value, 0, 0);
  ImGui::EndGroup();
}

}  // namespace

LiveForm::LiveForm() {
  for (const auto& entry : analysis::registered_policies()) names_.push_back(entry.name);
  chosen_.assign(names_.size(), 0);
  for (std::size_t i = 0; i < names_.size(); ++i) chosen_[i] = names_[i] == "none" || names_[i] == "keydiff";
}

void LiveForm::fill(const session::LiveRequest& request) {
  base_ = request;
  model_ = request.model_folder.string();
  prompt_ = request.prompt;
  out_ = request.out.string();
  replace_ = request.replace;
  budget_ = request.options.budget > 0 ? static_cast<int>(request.options.budget) : budget_;
  block_ = static_cast<int>(request.options.block_size);
  generate_ = static_cast<int>(request.options.generate);
  if (request.options.policies.empty()) return;
  for (std::size_t i = 0; i < names_.size(); ++i)
    chosen_[i] = std::ranges::any_of(request.options.policies,
                                     [&](const auto& policy) { return policy.name == names_[i]; });
}

std::optional<session::LiveRequest> LiveForm::request(std::string& problem) const {
  std::error_code error;
  session::LiveRequest request = base_;
  request.model_folder = model_;
  request.prompt = prompt_;
  request.out = out_;
  request.replace = replace_;
  // Policies that the command line gave options to keep them while they are chosen.
  request.options.policies.clear();
  for (const auto& given : base_.options.policies) {
    const auto at = std::ranges::find(names_, given.name) - names_.begin();
    if (at < std::ssize(names_) && chosen_[static_cast<std::size_t>(at)])
      request.options.policies.push_back(given);
  }
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const bool there = std::ranges::any_of(request.options.policies,
                                           [&](const auto& policy) { return policy.name == names_[i]; });
    if (chosen_[i] && !there) request.options.policies.push_back({names_[i], {}});
  }
  request.options.budget = budget_;
  request.options.block_size = block_;
  request.options.generate = generate_;
  if (model_.empty())
    problem = "Name a model folder.";
  else if (!std::filesystem::is_directory(model_, error))
    problem = fmt::format("{}: there is no such folder.", model_);
  else if (prompt_.empty() && request.options.prompt_ids.empty())
    problem = "Write a prompt.";
  else if (request.options.policies.empty())
    problem = "Choose a policy.";
  else if (budget_ < 1 || block_ < 1 || generate_ < 0)
    problem = "Budget and block are at least 1, generated tokens at least 0.";
  else if (!out_.empty() && !replace_ && std::filesystem::exists(out_, error))
    problem = "The recording's file exists already: choose another name, or tick Replace.";
  return problem.empty() ? std::optional(std::move(request)) : std::nullopt;
}

void LiveForm::draw_policies(PanelContext& context) {
  label(context, "Policies, one run each");
  const float right = ImGui::GetWindowPos().x + ImGui::GetWindowContentRegionMax().x;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const float width = text_size(context.fonts.regular, names_[i]).x + context.px(44);
    if (i > 0 && ImGui::GetItemRectMax().x + width < right) ImGui::SameLine(0, context.px(14));
    bool on = chosen_[i] != 0;
    if (ImGui::Checkbox(names_[i].c_str(), &on)) chosen_[i] = on;
  }
}

void LiveForm::draw_numbers(PanelContext& context) {
  const float gap = context.px(24);
  const float width = std::min(context.px(170), (ImGui::GetContentRegionAvail().x - 2 * gap) / 3);
  // Placed by hand: SameLine would set the labels on the fields' baseline.
  const ImVec2 at = ImGui::GetCursorScreenPos();
  number_column(context, "Budget (rows per KV head)", "##budget", budget_, width);
  ImGui::SetCursorScreenPos({at.x + width + gap, at.y});
  number_column(context, "Block (tokens)", "##block", block_, width);
  ImGui::SetCursorScreenPos({at.x + 2 * (width + gap), at.y});
  number_column(context, "Tokens to generate", "##generate", generate_, width);
}

std::optional<session::LiveRequest> LiveForm::draw(PanelContext& context) {
  label(context, "Model folder (Hugging Face layout)");
  ImGui::SetNextItemWidth(-1);
  ImGui::InputText("##model", &model_);
  label(context,
        base_.options.prompt_ids.empty()
            ? (base_.form.chat ? "Prompt: the user's turn of the chat template" : "Prompt")
            : fmt::format("Prompt: {} token ids from a file", base_.options.prompt_ids.size()).c_str());
  if (base_.options.prompt_ids.empty())
    ImGui::InputTextMultiline("##prompt", &prompt_,
                              {-1, std::min(context.px(120), 0.2F * ImGui::GetIO().DisplaySize.y)});
  draw_policies(context);
  draw_numbers(context);
  label(context, "Also record into this file (empty: kept in memory until the window closes)");
  const float box = ImGui::GetFrameHeight() + ImGui::GetStyle().ItemInnerSpacing.x +
                    text_size(context.fonts.regular, "Replace").x;
  ImGui::SetNextItemWidth(-box - ImGui::GetStyle().ItemSpacing.x);
  ImGui::InputText("##out", &out_);
  ImGui::SameLine();
  ImGui::Checkbox("Replace", &replace_);

  std::string problem;
  auto wanted = request(problem);
  const auto live = context.session.live_status();
  if (live && live->going_on()) problem = "A run is going on; cancel it first.";
  ImGui::BeginDisabled(!problem.empty());
  const bool run = ImGui::Button("Run", {context.px(120), 0});
  const ImVec2 low = ImGui::GetItemRectMin();
  const ImVec2 high = ImGui::GetItemRectMax();
  context.widgets["run"] = {low.x, low.y, high.x - low.x, high.y - low.y};
  ImGui::EndDisabled();
  if (!problem.empty()) {
    ImGui::SameLine();
    dim_text(context, problem);
  }
  return run && problem.empty() ? wanted : std::nullopt;
}

}  // namespace keyscope::window
