#include "app/panels/actions.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <iterator>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <imgui.h>

#include "app/measures/token_story.hpp"
#include "app/session/export_view.hpp"
#include "app/session/live.hpp"
#include "app/session/live_request.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::window {

namespace {

constexpr int kControl = ImGuiMod_Ctrl, kShift = ImGuiMod_Shift;

struct KeyName {
  int key;
  std::string_view name;
};
constexpr KeyName kKeyNames[] = {
    {ImGuiKey_LeftArrow, "←"},   {ImGuiKey_RightArrow, "→"},    {ImGuiKey_UpArrow, "↑"},
    {ImGuiKey_DownArrow, "↓"},   {ImGuiKey_Home, "Home"},       {ImGuiKey_End, "End"},
    {ImGuiKey_PageUp, "Page ↑"}, {ImGuiKey_PageDown, "Page ↓"}, {ImGuiKey_Space, "Space"}};

std::string key_name(int key) {
  const auto named = std::ranges::find(kKeyNames, key, &KeyName::key);
  if (named != std::end(kKeyNames)) return std::string(named->name);
  const bool digit = key >= ImGuiKey_0 && key <= ImGuiKey_9;
  assert(digit || (key >= ImGuiKey_A && key <= ImGuiKey_Z));
  return std::string(1, static_cast<char>(digit ? '0' + (key - ImGuiKey_0) : 'A' + (key - ImGuiKey_A)));
}

// Which key of the shortcut's was pressed; -1: none.
int place_in(const Shortcut& shortcut, const KeyPress& press) {
  const bool meant = shortcut.key != 0 && press.key >= shortcut.key &&
                     press.key < shortcut.key + shortcut.n_keys && press.modifiers == shortcut.modifiers;
  return meant ? press.key - shortcut.key : -1;
}

}  // namespace

std::string shortcut_text(const Shortcut& shortcut) {
  if (shortcut.key == 0) return {};
  if (shortcut.key == ImGuiKey_Slash && shortcut.modifiers == kShift) return "?";
  std::string text;
  if ((shortcut.modifiers & kControl) != 0) text += "Ctrl + ";
  if ((shortcut.modifiers & kShift) != 0) text += "Shift + ";
  text += key_name(shortcut.key);
  if (shortcut.n_keys > 1) text += " … " + key_name(shortcut.key + shortcut.n_keys - 1);
  return text;
}

const Action& action(std::string_view id) {
  const auto found = std::ranges::find(actions(), id, &Action::id);
  assert(found != actions().end());
  return *found;
}

void perform(const Action& action, ActionTarget& target, int nth) {
  const std::string_view refusal = action.refusal(target.session());
  if (refusal.empty()) return action.act(target, nth);
  target.session().notify({fmt::format("{}: {}.", action.name, refusal), false});
}

std::vector<KeyPress> pressed_keys() {
  const ImGuiIO& io = ImGui::GetIO();
  std::vector<KeyPress> presses;
  for (int key = ImGuiKey_NamedKey_BEGIN; key < ImGuiKey_NamedKey_END; ++key) {
    const bool keyboard = key < ImGuiKey_GamepadStart && key != ImGuiKey_Slash;
    if (keyboard && ImGui::IsKeyPressed(static_cast<ImGuiKey>(key))) presses.push_back({key, io.KeyMods});
  }
  // On each keyboard by other keys: what it is called in the list of actions is one of them.
  for (const ImWchar sign : io.InputQueueCharacters)
    if (sign == '?') presses.push_back({ImGuiKey_Slash, ImGuiMod_Shift});
  return presses;
}

bool perform_key(const KeyPress& press, bool in_dialog, ActionTarget& target) {
  const Action* refused = nullptr;
  for (const Action& action : actions()) {
    const int nth = std::max(place_in(action.shortcut, press), place_in(action.other, press));
    if (nth < 0 || (in_dialog && action.reach != Reach::kEverywhere)) continue;
    if (action.refusal(target.session()).empty()) {
      action.act(target, nth);
      return true;
    }
    if (refused == nullptr) refused = &action;
  }
  if (refused != nullptr) perform(*refused, target);  // says why not
  return refused != nullptr;
}

namespace {

// Why an action cannot be done now; empty: it can.
std::string_view always(const session::Session&);
std::string_view needs_recording(const session::Session& session);
std::string_view needs_figures(const session::Session& session);
std::string_view needs_documents(const session::Session& session);
std::string_view needs_live(const session::Session& session);
std::string_view needs_job(const session::Session& session);
std::string_view needs_unsaved(const session::Session& session);
std::string_view needs_command(const session::Session& session);

void pause_or_resume(session::Session& session);
void next_measure(session::Session& session);
void toggle_nth_beside(session::Session& session, int nth);
void toggle_queries(session::Session& session);
void copy_command(ActionTarget& target);
void step_figure(session::Session& session, int by);
void last_figure(session::Session& session);

using session::Session;

bool lists_figures(const Session& session) {
  return session.state().figure_file && !session.state().loaded();
}

std::string_view always(const Session&) { return {}; }

std::string_view needs_recording(const Session& session) {
  if (session.state().loaded()) return {};
  return lists_figures(session) ? "this is a file of figures, not a recording" : "no recording is open";
}

std::string_view needs_figures(const Session& session) {
  return lists_figures(session) ? std::string_view() : "no file of figures is open";
}

std::string_view needs_documents(const Session& session) {
  return session.state().documents.empty() ? "there is one thing in this file" : std::string_view();
}

std::string_view needs_live(const Session& session) {
  const auto live = session.live_status();
  return live && live->going_on() ? std::string_view() : "no model is running";
}

std::string_view needs_job(const Session& session) {
  return session.state().jobs.empty() ? "nothing is being opened, made or exported" : std::string_view();
}

std::string_view needs_unsaved(const Session& session) { return session.save_refusal(); }

void pause_or_resume(Session& session) {
  const auto live = session.live_status();
  live && live->stage == session::LiveStage::kPaused ? session.live()->resume() : session.live()->pause();
}

void next_measure(Session& session) {
  session.choose_measure((session.state().measure + 1) % session::measure_choices().size());
}

void toggle_nth_beside(Session& session, int nth) {
  const auto& choices = session.state().choices;
  if (nth < std::ssize(choices)) session.toggle_beside(choices[nth].id);
}

void toggle_queries(Session& session) {
  figures::KeyspaceLook look = session.state().look;
  look.queries = !look.queries;
  session.choose_look(look);
}

std::string_view needs_command(const Session& session) {
  return session::view_command_refusal(session.state());
}

std::string_view needs_queries(const Session& session) {
  if (!session.state().loaded()) return needs_recording(session);
  return session.state().info->queries ? "" : "queries were not recorded: capture with --record keys,queries";
}

std::string_view needs_held(const Session& session) {
  if (!session.state().loaded()) return needs_recording(session);
  return session.state().locked ? "" : "a click on a token holds it; then its neighbours can be selected";
}

std::string_view needs_evidence(const Session& session) {
  if (!session.state().loaded()) return needs_recording(session);
  return session.state().evidence.empty() ? "its capture was not told what the answer stands on (--evidence)"
                                          : "";
}

std::string_view needs_tokens(const Session& session) {
  if (!session.state().loaded()) return needs_recording(session);
  return session.state().tokens || session.state().locked
             ? ""
             : "select tokens or hold one; then its text is copied";
}

void copy_tokens(ActionTarget& target) {
  const auto& state = target.session().state();
  const session::TokenSet held{static_cast<std::int32_t>(state.locked.value_or(0))};
  std::string text;
  for (const std::int32_t token : state.tokens ? *state.tokens : held)
    text += measures::token_bytes(*state.info, state.selection.run, token);
  target.copy_text(text);
  target.session().notify(
      {fmt::format("Copied the text of {}", counted(state.tokens ? std::ssize(*state.tokens) : 1, "token")),
       false});
}

void copy_command(ActionTarget& target) {
  const std::string command = session::view_command(target.session().state());
  target.copy_text(command);
  target.session().notify({"Copied: " + command, false});
}

void show_demo(Session& session) {
  try {
    session.start_live(session::make_live_capture(session::demo_request()));
  } catch (const Error& error) {
    session.notify({error.what(), true});
  }
}

void step_figure(Session& session, int by) {
  session.select_figure(static_cast<std::int64_t>(session.state().figure) + by);
}

void last_figure(Session& session) {
  session.select_figure(std::ssize(session.state().figure_file->figures) - 1);
}

}  // namespace

// The table of all actions: what each is called, which keys ask for it, when it can be done, what it does.

namespace {

using T = ActionTarget;

constexpr Action in_panels(std::string_view id, std::string_view name, Shortcut shortcut,
                           decltype(Action::refusal) refusal, decltype(Action::act) act,
                           Shortcut other = {}) {
  return {id, name, shortcut, other, Reach::kPanels, refusal, act};
}

constexpr Action everywhere(std::string_view id, std::string_view name, Shortcut shortcut,
                            decltype(Action::refusal) refusal, decltype(Action::act) act) {
  return {id, name, shortcut, {}, Reach::kEverywhere, refusal, act};
}

// In the order of the list of keys.
constexpr std::array kActions{
    everywhere("palette", "Find an action", {ImGuiKey_P, kControl}, always,
               [](T& t, int) { t.open_dialog(Dialog::kPalette); }),
    everywhere("open", "Open a recording or figures", {ImGuiKey_O, kControl}, always,
               [](T& t, int) { t.open_dialog(Dialog::kOpen); }),
    in_panels("previous_document", "Recording before, of a study", {ImGuiKey_PageUp, kControl},
              needs_documents, [](T& t, int) { t.session().open_document(-1); }),
    in_panels("next_document", "Recording after, of a study", {ImGuiKey_PageDown, kControl}, needs_documents,
              [](T& t, int) { t.session().open_document(1); }),
    everywhere("live", "Run a model", {ImGuiKey_R, kControl}, always,
               [](T& t, int) { t.open_dialog(Dialog::kLive); }),
    in_panels("rerun", "Run this prompt again, with another policy or budget",
              {ImGuiKey_R, kControl | kShift}, needs_recording, [](T& t, int) { t.prepare_rerun(); }),
    everywhere("save", "Save this run as a recording", {ImGuiKey_S, kControl}, needs_unsaved,
               [](T& t, int) { t.open_dialog(Dialog::kSave); }),
    everywhere("export", "Export this view", {ImGuiKey_E, kControl}, needs_recording,
               [](T& t, int) { t.open_dialog(Dialog::kExport); }),
    in_panels("copy_command", "Copy the command for this view", {ImGuiKey_C, kControl | kShift},
              needs_command, [](T& t, int) { copy_command(t); }),
    in_panels("copy_tokens", "Copy the text of the selected tokens, or of the held one",
              {ImGuiKey_C, kControl}, needs_tokens, [](T& t, int) { copy_tokens(t); }),
    in_panels("demo", "Show the demo: four policies on the embedded model", {}, always,
              [](T& t, int) { show_demo(t.session()); }),
    in_panels("find", "Find text", {ImGuiKey_F, kControl}, needs_recording, [](T& t, int) { t.find_text(); }),
    in_panels("undo", "Undo a selection", {ImGuiKey_Z, kControl}, needs_recording,
              [](T& t, int) { t.session().undo(); }),
    in_panels("redo", "Redo a selection", {ImGuiKey_Y, kControl}, needs_recording,
              [](T& t, int) { t.session().redo(); }, {ImGuiKey_Z, kControl | kShift}),
    in_panels("previous_block", "Block before", {ImGuiKey_LeftArrow}, needs_recording,
              [](T& t, int) { t.session().step_block(-1); }),
    in_panels("next_block", "Block after", {ImGuiKey_RightArrow}, needs_recording,
              [](T& t, int) { t.session().step_block(1); }),
    in_panels("first_block", "First block", {ImGuiKey_Home}, needs_recording,
              [](T& t, int) { t.session().show_first_block(); }),
    in_panels("last_block", "Last block", {ImGuiKey_End}, needs_recording,
              [](T& t, int) { t.session().show_last_block(); }),
    in_panels("evidence", "Where what the answer stands on was first evicted", {ImGuiKey_E}, needs_evidence,
              [](T& t, int) { t.session().show_evidence_loss(); }),
    in_panels("play", "Play the blocks", {ImGuiKey_Space}, needs_recording,
              [](T& t, int) { t.session().toggle_play(); }),
    in_panels("layer_above", "Layer above", {ImGuiKey_UpArrow}, needs_recording,
              [](T& t, int) { t.session().move_layer(-1); }),
    in_panels("layer_below", "Layer below", {ImGuiKey_DownArrow}, needs_recording,
              [](T& t, int) { t.session().move_layer(1); }),
    in_panels("previous_head", "KV head before", {ImGuiKey_LeftArrow, kShift}, needs_recording,
              [](T& t, int) { t.session().move_kv_head(-1); }),
    in_panels("next_head", "KV head after", {ImGuiKey_RightArrow, kShift}, needs_recording,
              [](T& t, int) { t.session().move_kv_head(1); }),
    in_panels("run", "Policy, by its place in the list", {ImGuiKey_1, 0, 9}, needs_recording,
              [](T& t, int nth) { t.session().select_run(nth); }),
    in_panels("beside", "Policy beside the selected one, by its place in the list", {ImGuiKey_1, kShift, 9},
              needs_recording, [](T& t, int nth) { toggle_nth_beside(t.session(), nth); }),
    in_panels("next_measure", "Next measure on the head map", {ImGuiKey_M}, needs_recording,
              [](T& t, int) { next_measure(t.session()); }),
    in_panels("queries", "Queries in the key space, shown or hidden", {ImGuiKey_Q}, needs_queries,
              [](T& t, int) { toggle_queries(t.session()); }),
    in_panels("neighbours", "Select the keys most like the held one", {ImGuiKey_N}, needs_held,
              [](T& t, int) { t.session().select_neighbours(); }),
    in_panels("fit", "Fit the view", {ImGuiKey_F}, needs_recording, [](T& t, int) { t.fit_view(); }),
    in_panels("previous_figure", "Figure before, of a file of figures", {ImGuiKey_UpArrow}, needs_figures,
              [](T& t, int) { step_figure(t.session(), -1); }, {ImGuiKey_LeftArrow}),
    in_panels("next_figure", "Figure after", {ImGuiKey_DownArrow}, needs_figures,
              [](T& t, int) { step_figure(t.session(), 1); }, {ImGuiKey_RightArrow}),
    in_panels("first_figure", "First figure", {ImGuiKey_Home}, needs_figures,
              [](T& t, int) { t.session().select_figure(0); }),
    in_panels("last_figure", "Last figure", {ImGuiKey_End}, needs_figures,
              [](T& t, int) { last_figure(t.session()); }),
    in_panels("pause", "Pause the model, or let it go on", {}, needs_live,
              [](T& t, int) { pause_or_resume(t.session()); }),
    in_panels("step", "Run the model for one block", {}, needs_live,
              [](T& t, int) { t.session().live()->step(); }),
    in_panels("cancel", "Cancel the model's run", {}, needs_live,
              [](T& t, int) { t.session().live()->cancel(); }),
    in_panels("cancel_jobs", "Cancel what is being opened, made or exported", {}, needs_job,
              [](T& t, int) { t.session().cancel_jobs(); }),
    everywhere("theme", "Dark or light", {ImGuiKey_T, kControl}, always, [](T& t, int) { t.toggle_theme(); }),
    in_panels("help", "Keys and mouse", {ImGuiKey_Slash, kShift}, always,
              [](T& t, int) { t.open_dialog(Dialog::kHelp); }),
    everywhere("quit", "Close the window", {ImGuiKey_Q, kControl}, always,
               [](T& t, int) { t.close_window(); }),
};

}  // namespace

std::span<const Action> actions() { return kActions; }

}  // namespace keyscope::window
