#include "app/panels/ui.hpp"

#include <GLFW/glfw3.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/panels/bars.hpp"
#include "app/panels/empty_state.hpp"
#include "app/panels/heads_panel.hpp"
#include "app/panels/runs_panel.hpp"
#include "app/panels/token_panel.hpp"
#include "app/panels/view_tabs.hpp"

namespace keyscope::window {
namespace {

constexpr auto kPlayInterval = std::chrono::milliseconds(160);

}  // namespace

Ui::Ui(session::Session& session, float scale, bool light)
    : session_(session), scale_(scale), fonts_(load_fonts(scale)) {
  set_theme(light);
}

void Ui::set_theme(bool light) {
  theme_ = make_theme(light);
  apply_theme(theme_, scale_);
}

void Ui::act(BarAction action) {
  switch (action) {
    case BarAction::kNone:
      break;
    case BarAction::kOpen:
      dialogs_.open(Dialog::kOpen);
      break;
    case BarAction::kLive:
      dialogs_.open(Dialog::kLive);
      break;
    case BarAction::kExport:
      dialogs_.open(Dialog::kExport);
      break;
    case BarAction::kTheme:
      set_theme(!theme_.light);
      break;
    case BarAction::kHelp:
      dialogs_.open(Dialog::kHelp);
      break;
  }
}

// Keys with Ctrl; true if it was one.
bool Ui::handle_command(const KeyPress& press) {
  if ((press.modifiers & GLFW_MOD_CONTROL) == 0) return false;
  if (press.key == GLFW_KEY_O) act(BarAction::kOpen);
  if (press.key == GLFW_KEY_E && session_.state().loaded()) act(BarAction::kExport);
  if (press.key == GLFW_KEY_F && session_.state().loaded()) {
    session_.choose_view(session::kTextView);
    text_.find();
  }
  if (press.key == GLFW_KEY_T) act(BarAction::kTheme);
  if (press.key == GLFW_KEY_Z) (press.modifiers & GLFW_MOD_SHIFT) != 0 ? session_.redo() : session_.undo();
  if (press.key == GLFW_KEY_Y) session_.redo();
  if (press.key == GLFW_KEY_Q) wants_close_ = true;
  return true;
}

// Keys of the list of figures; true where that is what is shown.
bool Ui::handle_figure_key(const KeyPress& press) {
  const auto& state = session_.state();
  if (!state.figure_file || state.loaded()) return false;
  const auto now = static_cast<std::int64_t>(state.figure);
  const auto last = static_cast<std::int64_t>(state.figure_file->figures.size()) - 1;
  if (press.key == GLFW_KEY_UP || press.key == GLFW_KEY_LEFT) session_.select_figure(now - 1);
  if (press.key == GLFW_KEY_DOWN || press.key == GLFW_KEY_RIGHT) session_.select_figure(now + 1);
  if (press.key == GLFW_KEY_HOME) session_.select_figure(0);
  if (press.key == GLFW_KEY_END) session_.select_figure(last);
  if (press.key == GLFW_KEY_SLASH && (press.modifiers & GLFW_MOD_SHIFT) != 0) act(BarAction::kHelp);
  return true;
}

void Ui::handle_key(const KeyPress& press) {
  const bool shift = (press.modifiers & GLFW_MOD_SHIFT) != 0;
  if (press.key == GLFW_KEY_ESCAPE) {
    dialogs_.current() == Dialog::kNone ? session_.release() : dialogs_.close();
    return;
  }
  if (handle_command(press) || ImGui::GetIO().WantTextInput || dialogs_.current() != Dialog::kNone) return;
  if (handle_figure_key(press)) return;
  if (press.key >= GLFW_KEY_1 && press.key <= GLFW_KEY_9) session_.select_run(press.key - GLFW_KEY_1);
  switch (press.key) {
    case GLFW_KEY_LEFT:
      shift ? session_.move_kv_head(-1) : session_.step_block(-1);
      break;
    case GLFW_KEY_RIGHT:
      shift ? session_.move_kv_head(1) : session_.step_block(1);
      break;
    case GLFW_KEY_UP:
      session_.move_layer(-1);
      break;
    case GLFW_KEY_DOWN:
      session_.move_layer(1);
      break;
    case GLFW_KEY_HOME:
      session_.show_first_block();
      break;
    case GLFW_KEY_END:
      session_.show_last_block();
      break;
    case GLFW_KEY_SPACE:
      session_.toggle_play();
      break;
    case GLFW_KEY_F:
      keyspace_.fit();
      figure_view_.fit();
      break;
    case GLFW_KEY_M:
      session_.choose_measure((session_.state().measure + 1) % session::measure_choices().size());
      break;
    case GLFW_KEY_Q: {
      figures::KeyspaceLook look = session_.state().look;
      look.queries = !look.queries;
      session_.choose_look(look);
      break;
    }
    case GLFW_KEY_SLASH:
      if (shift) act(BarAction::kHelp);
      break;
    default:
      break;
  }
}

void Ui::play() {
  if (!session_.state().playing) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_play_ < kPlayInterval) return;
  last_play_ = now;
  session_.play_on();
}

void Ui::draw_panels(PanelContext& context, const Layout& layout) {
  if (!layout.heads.empty()) draw_heads_panel(context, layout.heads);
  if (!layout.runs.empty()) draw_runs_panel(context, layout.runs);
  if (!layout.views.empty()) draw_view_tabs(context, layout.views);
  if (context.state().view == session::kKeyspaceView)
    keyspace_.draw(context, layout.middle);
  else if (context.state().view == session::kTextView)
    text_.draw(context, layout.middle);
  else
    figure_view_.draw(context, layout.middle);
  if (!layout.token.empty()) draw_token_panel(context, layout.token);
  if (!layout.timeline.empty()) timeline_.draw(context, layout.timeline);
}

void Ui::draw(float width, float height) {
  play();
  PanelContext context{session_, theme_, fonts_, scale_, {}, std::nullopt, std::nullopt, false};
  const Layout layout = make_layout(width, height, scale_, runs_panel_height(context));
  const BarAction action = draw_top_bar(context, layout.top);
  const Rect middle{0, layout.top.bottom(), width, layout.status.y - layout.top.bottom()};
  if (session_.state().loaded())
    draw_panels(context, layout);
  else if (session_.state().figure_file)
    figure_.draw(context, middle);
  else
    act(draw_empty_state(context, middle));
  draw_status_bar(context, layout.status);
  dialogs_.draw(context);
  act(action);

  if (session_.state().hovered != context.hovered) {
    session_.hover(context.hovered);
    context.wants_frames = true;  // panels that were drawn before it was known show it in the next frame
  }
  widgets_ = std::move(context.widgets);
  wants_frames_ = context.wants_frames;
}

std::string Ui::describe() const {
  const auto& state = session_.state();
  nlohmann::ordered_json json;
  json["loaded"] = state.loaded();
  json["opening"] = state.opening;
  json["open_error"] = state.open_error;
  json["notice"] = state.notice.text;
  json["measure"] = session::measure_choices()[state.measure].id;
  json["theme"] = theme_.light ? "light" : "dark";
  json["dialog"] = static_cast<int>(dialogs_.current());
  json["busy"] = session_.busy();
  json["map"] = state.map.title;
  json["n_on_map"] = state.map.n_measured;
  json["story"] =
      state.story.story ? nlohmann::ordered_json(state.story.story->position) : nlohmann::ordered_json();
  if (state.loaded()) {
    json["source"] = state.info->source;
    json["run"] = state.run().plan.name;
    json["layer"] = state.selection.layer;
    json["kv_head"] = state.selection.kv_head;
    json["block"] = state.selection.block;
    json["blocks_done"] = state.run().blocks_done;
    json["n_layers"] = state.info->layers.size();
    json["n_kv_heads"] = state.info->model.n_kv_heads;
    json["reading"] = state.reading;
    json["shown"] = state.view;
    json["drawing"] = state.drawing;
    json["queries_shown"] = state.look.queries;
    json["n_selected"] = state.tokens ? state.tokens->size() : 0;
    json["n_measured"] = state.measured.size();
  }
  if (state.figure_file) {
    json["source"] = state.figure_path;
    json["n_figures"] = state.figure_file->figures.size();
    json["figure"] = state.figure_file->figures[state.figure].name;
  }
  json["hovered"] = state.hovered ? nlohmann::ordered_json(*state.hovered) : nlohmann::ordered_json();
  json["locked"] = state.locked ? nlohmann::ordered_json(*state.locked) : nlohmann::ordered_json();
  if (const auto live = session_.live_status()) {
    constexpr const char* kStages[] = {"starting", "running",   "paused", "stopping",
                                       "done",     "cancelled", "failed"};
    json["live"] = kStages[static_cast<int>(live->stage)];
    json["live_message"] = live->message;
  }
  json["view"] = keyspace_.describe();
  if (state.loaded() && state.view == session::kTextView) json["text_view"] = text_.describe();
  if (state.loaded() && session::is_figure_view(state.view)) json["figure_view"] = figure_view_.describe();
  for (const auto& [name, rect] : widgets_) json["widgets"][name] = {rect.x, rect.y, rect.w, rect.h};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace keyscope::window
