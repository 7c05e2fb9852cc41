#include "app/panels/live_form.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>

#include <fmt/format.h>

#include "analysis/policies/registry.hpp"
#include "app/display/glfw_window.hpp"
#include "app/display/widgets.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/session/live.hpp"
#include "app/session/live_request.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace keyscope::window {

namespace {

constexpr float kBrowsePx = 84;
constexpr float kLeastHeightForLook = 560;  // of the window: Run must stay in sight

// What is wrong, as far as there is room; all of it where it is pointed at.
void draw_problem(const PanelContext& context, const std::string& problem, float room) {
  push_font(context.fonts.small);
  ImGui::PushStyleColor(ImGuiCol_Text, context.theme.error);
  const std::string fitted = fit_text(context.fonts.small, problem, room);
  ImGui::TextUnformatted(fitted.c_str());
  ImGui::PopStyleColor();
  ImGui::PopFont();
  if (fitted != problem && ImGui::IsItemHovered()) ImGui::SetTooltip("%s", problem.c_str());
}

// A field's label, and behind it what is wrong with what stands in the field; below it, where it is longer.
void label(const PanelContext& context, const std::string& text, const std::string& problem = {}) {
  const float width = ImGui::GetContentRegionAvail().x, gap = context.px(10);
  dim_text(context, text);
  if (problem.empty()) return;
  const float rest = width - text_size(context.fonts.small, text).x - gap;
  const bool fits = text_size(context.fonts.small, problem).x <= rest;
  if (fits) ImGui::SameLine(0, gap);
  draw_problem(context, problem, fits ? rest : width);
}

// The label of a column that is as wide as its field: in red where something is wrong, which stands
// elsewhere.
void column_label(const PanelContext& context, const std::string& text, float width,
                  const std::string& problem) {
  const std::string fitted = fit_text(context.fonts.small, text, width);
  problem.empty() ? dim_text(context, fitted) : draw_problem(context, fitted, width);
}

// A number under its label, as one column of `width`.
void number_column(PanelContext& context, const std::string& text, const char* name, int& value, float width,
                   const std::string& problem) {
  ImGui::BeginGroup();
  column_label(context, text, width, problem);
  ImGui::SetNextItemWidth(width);
  number_field(context, fmt::format("##{}", name).c_str(), &value);
  note_widget(context, name);
  ImGui::EndGroup();
}

// None where it cannot be read.
analysis::Budget read_budget(const std::string& text) {
  try {
    return analysis::parse_budget(text);
  } catch (const UsageError&) {
    return {};
  }
}

std::string policy_text(const analysis::PolicySpec& policy) {
  std::string text = policy.name;
  for (const auto& [key, value] : policy.options)
    text += fmt::format("{}{}={}", text.size() == policy.name.size() ? ':' : ',', key, value);
  return text;
}

// What it keeps, and the options that it takes.
std::string about_policy(const std::string& name) {
  const auto entries = analysis::registered_policies();
  const auto entry = std::ranges::find(entries, name, &analysis::PolicyEntry::name);
  std::string text = entry->summary;
  for (const std::string& option : entry->option_keys) text += "\n  " + option;
  return text;
}

// "keydiff:recent=0.1 snapkv:window=64"; those that cannot be read are left out.
//   problem: why one cannot be; may be null
std::vector<analysis::PolicySpec> read_policies(const std::string& text, std::string* problem = nullptr) {
  std::vector<analysis::PolicySpec> policies;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    try {
      if (end > at) policies.push_back(analysis::parse_policy(std::string_view(text).substr(at, end - at)));
    } catch (const UsageError& error) {
      if (problem != nullptr) *problem = error.what();
    }
    at = end + 1;
  }
  return policies;
}

}  // namespace

LiveForm::LiveForm() : counter_([] { GlfwWindow::wake(); }), desktop_([] { GlfwWindow::wake(); }) {
  for (const auto& entry : analysis::registered_policies())
    if (entry.required.empty()) names_.push_back(entry.name);
  chosen_.assign(names_.size(), 0);
  for (std::size_t i = 0; i < names_.size(); ++i) chosen_[i] = names_[i] == "none" || names_[i] == "keydiff";
}

void LiveForm::fill(const session::LiveRequest& request) {
  base_ = request;
  model_ = request.model_folder.string();
  prompt_ = request.prompt;
  prompt_file_ = request.prompt_file.string();
  ids_from_ = "a file";
  out_ = request.out.string();
  replace_ = request.replace;
  answer_ = request.options.answer;
  together_ = request.options.schedule == capture::Schedule::kTogether;
  paused_ = request.paused;
  cache_positions_ = request.options.cache_positions;
  options_.clear();
  for (const auto& policy : request.options.policies)
    if (!policy.options.empty()) options_ += (options_.empty() ? "" : " ") + policy_text(policy);
  if (request.options.budget.is_given()) budget_ = request.options.budget.text();
  block_ = static_cast<int>(request.options.block_size);
  generate_ = static_cast<int>(request.options.generate);
  if (request.options.policies.empty()) return;
  for (std::size_t i = 0; i < names_.size(); ++i)
    chosen_[i] = std::ranges::any_of(request.options.policies,
                                     [&](const auto& policy) { return policy.name == names_[i]; });
}

void LiveForm::fill_from(const recording::RecordingInfo& info, int run) {
  base_.options.prompt_ids = info.prompt.id;
  ids_from_ = std::filesystem::path(info.source).filename().string();
  if (const std::string model = session::model_of(info); !model.empty()) model_ = model;
  cache_positions_ = info.runs[run].plan.cache_positions;
  const recording::RunPlan& plan = info.runs[run].plan;
  base_.options.cache_formats = {plan.cache_format};
  if (plan.budget > 0) budget_ = std::to_string(plan.budget);
  block_ = static_cast<int>(plan.block_size);
  generate_ = static_cast<int>(plan.max_generated);
  for (std::size_t i = 0; i < names_.size(); ++i)
    chosen_[i] =
        std::ranges::any_of(info.runs, [&](const auto& each) { return each.plan.policy == names_[i]; });
}

void LiveForm::take_prompt_file(const std::string& path) {
  prompt_file_ = path;
  base_.options.prompt_ids.clear();
}

void LiveForm::again() {
  if (!out_.empty()) out_ = free_name(out_).string();
}

session::LiveProblems LiveForm::problems() const {
  session::LiveProblems problems = session::check_live(request());
  read_policies(options_, &problems.policies);
  return problems;
}

session::LiveRequest LiveForm::request() const {
  session::LiveRequest request = base_;
  request.model_folder = model_;
  request.prompt = prompt_;
  request.prompt_file = prompt_file_;
  request.out = out_;
  request.replace = replace_;
  // Those that were given options have them while they are chosen.
  request.options.policies.clear();
  for (const auto& given : read_policies(options_)) {
    const auto at = std::ranges::find(names_, given.name) - names_.begin();
    if (at < std::ssize(names_) && chosen_[at]) request.options.policies.push_back(given);
  }
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const bool there = std::ranges::any_of(request.options.policies,
                                           [&](const auto& policy) { return policy.name == names_[i]; });
    if (chosen_[i] && !there) request.options.policies.push_back({names_[i], {}});
  }
  request.options.budget = read_budget(budget_);
  request.options.block_size = block_;
  request.options.generate = generate_;
  request.options.cache_positions = cache_positions_;
  request.options.answer = answer_.empty() ? session::known_answer(prompt_file_) : answer_;
  request.options.schedule = together_ ? capture::Schedule::kTogether : capture::Schedule::kBlock;
  request.paused = paused_;
  return request;
}

// A button for the desktop's dialog behind a field, where there is a desktop. Returns whether a path came.
bool LiveForm::draw_browse(PanelContext& context, session::DesktopDialog::Kind kind, const char* title,
                           std::string& path) {
  bool came = false;
  if (wanted_ == &path)
    if (auto chosen = desktop_.take()) {
      path = std::move(*chosen);
      came = true;
    }
  if (session::DesktopDialog::program().empty()) return came;
  ImGui::SameLine();
  ImGui::BeginDisabled(desktop_.is_open());
  ImGui::PushID(title);
  if (ImGui::Button("Browse", {context.px(kBrowsePx), 0}) &&
      desktop_.ask({kind, title, std::filesystem::absolute(path.empty() ? "." : path), {}}))
    wanted_ = &path;
  ImGui::PopID();
  ImGui::EndDisabled();
  return came;
}

void LiveForm::draw_model(PanelContext& context, const std::string& problem) {
  label(context, "Model: a folder, or ORG/NAME in the Hugging Face cache", problem);
  const float browse =
      session::DesktopDialog::program().empty() ? 0 : context.px(kBrowsePx) + ImGui::GetStyle().ItemSpacing.x;
  ImGui::SetNextItemWidth(-1 - browse);
  text_field(context, "##model", "", &model_);
  note_widget(context, "model");
  draw_browse(context, session::DesktopDialog::Kind::kFolder, "The model's folder", model_);
  for (const std::string& name : session::suggested_models(model_))
    if (ImGui::Selectable(name.c_str())) model_ = name;
  if (!problem.empty())
    for (const std::string& path : suggested_paths(model_, true))
      if (ImGui::Selectable(path.c_str())) model_ = path;
}

void LiveForm::draw_prompt(PanelContext& context, const std::string& problem) {
  if (!base_.options.prompt_ids.empty()) {
    label(context,
          fmt::format("Prompt: the {} tokens of {}", format_count(std::ssize(base_.options.prompt_ids)),
                      ids_from_),
          problem);
    if (ImGui::Button("Write another prompt")) base_.options.prompt_ids.clear();
    return;
  }
  label(context,
        base_.form.chat               ? "Prompt: the user's turn of the chat template"
        : base_.form.messages.empty() ? "Prompt"
                                      : "Prompt: messages for the chat template, as JSON",
        problem);
  const float height = std::min(context.px(104), 0.17F * ImGui::GetIO().DisplaySize.y);
  ImGui::BeginDisabled(!prompt_file_.empty());
  text_area(context, "##prompt", &prompt_, {-1, height});
  note_widget(context, "prompt");
  ImGui::EndDisabled();
  const bool browse = !session::DesktopDialog::program().empty();
  const float chat =
      ImGui::GetFrameHeight() + text_size(context.fonts.regular, "Chat template").x + context.px(22);
  ImGui::SetNextItemWidth(-1 - chat - (browse ? context.px(kBrowsePx) + ImGui::GetStyle().ItemSpacing.x : 0));
  text_field(context, "##prompt_file", "or a text file, typed here or dropped on the window", &prompt_file_);
  note_widget(context, "prompt_file");
  draw_browse(context, session::DesktopDialog::Kind::kOpen, "A prompt, as a text", prompt_file_);
  ImGui::SameLine(0, context.px(12));
  tick_box(context, "Chat template", &base_.form.chat);
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("The prompt is the user's turn of the model's own template");
  if (!problem.empty())
    for (const std::string& path : suggested_paths(prompt_file_, false))
      if (ImGui::Selectable(path.c_str())) prompt_file_ = path;
}

void LiveForm::draw_policies(PanelContext& context, const std::string& problem) {
  label(context, "Policies, one run each", problem);
  const float right = ImGui::GetWindowPos().x + ImGui::GetWindowContentRegionMax().x;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const float width = text_size(context.fonts.regular, names_[i]).x + context.px(44);
    if (i > 0 && ImGui::GetItemRectMax().x + width < right) ImGui::SameLine(0, context.px(14));
    bool on = chosen_[i] != 0;
    if (tick_box(context, names_[i].c_str(), &on)) chosen_[i] = on;
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", about_policy(names_[i]).c_str());
  }
  ImGui::SetNextItemWidth(-1);
  text_field(context, "##options", "their options, such as keydiff:recent=0.1 snapkv:window=64", &options_);
  note_widget(context, "policy_options");
}

void LiveForm::draw_numbers(PanelContext& context, const session::LiveProblems& problems) {
  const float gap = context.px(24);
  const float width = std::min(context.px(170), (ImGui::GetContentRegionAvail().x - 2 * gap) / 3);
  // Placed by hand: SameLine would set the labels on the fields' baseline.
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::BeginGroup();
  column_label(context, "Budget (rows, or a share)", width, problems.budget);
  ImGui::SetNextItemWidth(width);
  text_field(context, "##budget", "256, or 25%", &budget_);
  note_widget(context, "budget");
  ImGui::EndGroup();
  ImGui::SetCursorScreenPos({at.x + width + gap, at.y});
  number_column(context, "Block (tokens)", "block", block_, width, problems.block);
  ImGui::SetCursorScreenPos({at.x + 2 * (width + gap), at.y});
  number_column(context, "Tokens to generate", "generate", generate_, width, problems.generate);
  // Always a line, so that nothing jumps while a prompt is written.
  for (const auto& [name, problem] : {std::pair("Budget", &problems.budget),
                                      {"Block", &problems.block},
                                      {"Tokens to generate", &problems.generate}})
    if (!problem->empty())
      return draw_problem(context, fmt::format("{}: {}", name, *problem), ImGui::GetContentRegionAvail().x);
  const std::string text = problems.prompt.empty() ? amounts(request()) : "";
  dim_text(context, text.empty() ? " " : text);
}

std::string LiveForm::amounts(const session::LiveRequest& request) {
  const auto n_tokens = counter_.count(request);
  if (!n_tokens) return {};
  const analysis::Budget& budget = request.options.budget;
  std::string text = fmt::format("The prompt has {}", counted(*n_tokens, "token"));
  if (!budget.is_given()) return text;
  const std::int64_t rows = budget.rows_for(*n_tokens);
  if (rows >= *n_tokens) return text + "; the budget keeps all of them";
  const std::string share = format_share(static_cast<double>(rows) / static_cast<double>(*n_tokens), 1);
  return text + fmt::format("; the budget keeps {} of them, {}", format_count(rows), share);
}

void LiveForm::draw_out(PanelContext& context, const std::string& problem) {
  label(context, "Also record into this file (empty: kept in memory until the window closes)", problem);
  const float box = ImGui::GetFrameHeight() + ImGui::GetStyle().ItemInnerSpacing.x +
                    text_size(context.fonts.regular, "Replace").x;
  ImGui::SetNextItemWidth(-box - ImGui::GetStyle().ItemSpacing.x);
  text_field(context, "##out", "", &out_);
  ImGui::SameLine();
  tick_box(context, "Replace", &replace_);
}

// How the runs go, and what they are to answer.
void LiveForm::draw_order(PanelContext& context) {
  tick_box(context, "All policies together", &together_);
  if (ImGui::IsItemHovered())
    ImGui::SetTooltip("A block of each in turn, side by side; all caches are in memory at once");
  ImGui::SameLine(0, context.px(18));
  tick_box(context, "Start paused", &paused_);
  ImGui::SameLine(0, context.px(18));
  tick_box(context, "Positions by place in the cache", &cache_positions_);
  if (ImGui::IsItemHovered())
    ImGui::SetTooltip("RoPE by a row's place in the cache (StreamingLLM), not by its true position");
  if (generate_ == 0) return;
  ImGui::SetNextItemWidth(-1);
  const std::string known = session::known_answer(prompt_file_);
  text_field(context, "##answer", known.empty() ? "the right answer, if it is known" : known.c_str(),
             &answer_);
  note_widget(context, "answer");
}

// The session's own, so that the key space shows it from the first block on. What the run turns out to have
// no values for is said there.
void LiveForm::draw_look(PanelContext& context) {
  label(context, "Key space, as it will be shown");
  figures::KeyspaceLook look = context.state().look;
  const auto choose = [&](const char* name, auto& value, const auto& choices, auto member) {
    const auto chosen = std::ranges::find(choices, value, member);
    ImGui::SetNextItemWidth(context.px(170));
    const bool open = ImGui::BeginCombo(fmt::format("##{}", name).c_str(), chosen->label.data());
    note_widget(context, name);
    if (open) {
      for (const auto& choice : choices)
        if (ImGui::Selectable(choice.label.data(), std::invoke(member, choice) == value))
          value = std::invoke(member, choice);
      ImGui::EndCombo();
    }
    ImGui::SameLine(0, context.px(14));
  };
  choose("live_projection", look.projection, figures::projection_choices(),
         &figures::ProjectionChoice::projection);
  choose("live_colour", look.colour, figures::key_colour_choices(), &figures::KeyColourChoice::colour);
  tick_box(context, "Queries", &look.queries);
  if (look != context.state().look) context.session.choose_look(look);
}

bool LiveForm::draw_run(PanelContext& context, const session::LiveProblems& problems) {
  const auto live = context.session.live_status();
  const bool busy = live && live->going_on();
  const bool sound = problems.first().empty() && !busy;
  ImGui::BeginDisabled(!sound);
  const bool run = ImGui::Button("Run", {context.px(120), 0});
  note_widget(context, "run");
  ImGui::EndDisabled();
  if (busy) {
    ImGui::SameLine();
    dim_text(context, "A run is going on; cancel it first.");
  }
  return run && sound;
}

std::optional<session::LiveRequest> LiveForm::draw(PanelContext& context) {
  const session::LiveProblems found = problems();
  draw_model(context, found.model);
  draw_prompt(context, found.prompt);
  draw_policies(context, found.policies);
  draw_numbers(context, found);
  draw_order(context);
  draw_out(context, found.out);
  if (ImGui::GetIO().DisplaySize.y >= context.px(kLeastHeightForLook)) draw_look(context);
  return draw_run(context, found) ? std::optional(request()) : std::nullopt;
}

namespace {

using session::LiveStage;

bool button(PanelContext& context, const char* label, const char* name, float width) {
  const bool clicked = ImGui::Button(label, {width, 0});
  note_widget(context, name);
  return clicked;
}

// How fast it goes, and how far.
void draw_pace(PanelContext& context, const session::LiveStatus& status, float width) {
  constexpr float kFastest = 32;
  float rate = status.rate > 0 ? static_cast<float>(status.rate) : kFastest;
  ImGui::SetNextItemWidth(width);
  const char* format = rate < kFastest ? "%.1f blocks/s" : "full speed";
  if (ImGui::SliderFloat("##rate", &rate, 0.5F, kFastest, format, ImGuiSliderFlags_Logarithmic))
    context.session.live()->set_rate(rate < kFastest ? rate : 0);
  note_widget(context, "rate");
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("Blocks a second, at most");
  ImGui::SameLine();
  std::string stop = status.stop_after ? std::to_string(*status.stop_after) : std::string();
  ImGui::SetNextItemWidth(-1);
  if (text_field(context, "##stop", "stop at token …", &stop, ImGuiInputTextFlags_EnterReturnsTrue)) {
    std::int64_t token = -1;
    std::from_chars(stop.data(), stop.data() + stop.size(), token);
    context.session.live()->stop_after(token >= 0 ? std::optional(token) : std::nullopt);
  }
  note_widget(context, "stop");
  if (ImGui::IsItemHovered())
    ImGui::SetTooltip("Pauses once the token at this position was read; Enter sets it, empty: nowhere");
}

}  // namespace

float live_controls_height(const PanelContext& context) {
  return context.session.live_status() ? context.px(120) : 0;
}

void draw_live_controls(PanelContext& context) {
  const auto status = context.session.live_status();
  if (!status) return;
  ImGui::Dummy({0, context.px(2)});
  const float room = ImGui::GetContentRegionAvail().x;
  const float height = context.px(6);
  draw_progress_bar(context, ImGui::GetCursorScreenPos(), {room, height}, session::share_done(*status));
  ImGui::Dummy({room, height});
  const std::string text = session::describe_live(*status, *context.state().info);
  dim_text(context, fit_text(context.fonts.small, text, room));
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", text.c_str());
  if (!status->going_on()) return;
  const float gap = ImGui::GetStyle().ItemSpacing.x;
  const float width = (room - 2 * gap) / 3;
  const bool paused = status->stage == LiveStage::kPaused;
  if (button(context, paused ? "Run" : "Pause", "pause", width))
    paused ? context.session.live()->resume() : context.session.live()->pause();
  ImGui::SameLine();
  if (button(context, "Step", "step", width)) context.session.live()->step();
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("Run one block, then pause");
  ImGui::SameLine();
  if (button(context, "Cancel", "cancel", width)) context.session.live()->cancel();
  draw_pace(context, *status, width);
}

}  // namespace keyscope::window
