#include "app/window/window_app.hpp"

#include <algorithm>
#include <cstdio>

#include <GLFW/glfw3.h>
#include <epoxy/gl.h>
#include <fmt/format.h>
#include <imgui.h>
#include <imgui_impl_glfw.h>
#include <imgui_impl_opengl3.h>
#include <imgui_internal.h>
#include <implot.h>
#include <nlohmann/json.hpp>

#include "app/panels/panels.hpp"
#include "app/session/live.hpp"
#include "app/session/live_request.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace keyscope::window {

ImguiContext::ImguiContext(GlfwWindow& window, bool tear_off) {
  IMGUI_CHECKVERSION();
  ImGui::CreateContext();
  ImPlot::CreateContext();
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;  // the working folder is not ours to write to
  io.LogFilename = nullptr;
  io.ConfigWindowsMoveFromTitleBarOnly = true;
  io.ConfigFlags |= ImGuiConfigFlags_DockingEnable;
  if (tear_off) io.ConfigFlags |= ImGuiConfigFlags_ViewportsEnable;
  ImGui_ImplGlfw_InitForOpenGL(window.handle(), true);
  ImGui_ImplOpenGL3_Init("#version 330 core");
}

ImguiContext::~ImguiContext() {
  ImGui_ImplOpenGL3_Shutdown();
  ImGui_ImplGlfw_Shutdown();
  ImPlot::DestroyContext();
  ImGui::DestroyContext();
}

WindowApp::WindowApp(const Options& options)
    : window_(options.width, options.height, options.visible, options.on_screen),
      imgui_(window_, options.visible),
      session_([] { GlfwWindow::wake(); }),
      scale_(options.scale > 0 ? options.scale : window_.content_scale()),
      ui_(session_, scale_, options.light, options.settings),
      state_file_(options.state_file) {
  // A slip of the layout costs a frame, and not the window with all that runs in it; tests are told of it.
  ImGuiIO& io = ImGui::GetIO();
  io.ConfigErrorRecoveryEnableAssert = io.ConfigErrorRecoveryEnableTooltip = !options.state_file.empty();
  if (!options.settings.empty()) session_.remember_in(options.settings / "views");
}

bool WindowApp::take_input() {
  const bool changed = window_.take_input();
  const auto moved = [](const ImGuiViewport* viewport) {
    return viewport->PlatformRequestClose || viewport->PlatformRequestMove || viewport->PlatformRequestResize;
  };
  return changed || !ImGui::GetCurrentContext()->InputEventsQueue.empty() ||
         std::ranges::any_of(ImGui::GetPlatformIO().Viewports, moved);
}

void WindowApp::handle_input() {
  for (const std::string& path : window_.take_dropped_files()) ui_.take_dropped(path);
}

void WindowApp::draw_frame() {
  int width = 0;
  int height = 0;
  window_.framebuffer_size(width, height);
  draw_frame(width, height);
  if ((ImGui::GetIO().ConfigFlags & ImGuiConfigFlags_ViewportsEnable) == 0) return;
  glFlush();  // what they show was drawn in this window's context
  ImGui::UpdatePlatformWindows();
  ImGui::RenderPlatformWindowsDefault();
  glfwMakeContextCurrent(window_.handle());
}

void WindowApp::draw_frame(int width, int height) {
  GLint framebuffer = 0;
  glGetIntegerv(GL_DRAW_FRAMEBUFFER_BINDING, &framebuffer);
  ui_.take_arrangement();
  ImGui_ImplOpenGL3_NewFrame();
  ImGui_ImplGlfw_NewFrame();
  ImGui::GetIO().DisplaySize = ImVec2(static_cast<float>(width), static_cast<float>(height));
  ImGui::GetIO().DisplayFramebufferScale = ImVec2(1, 1);
  if (pointer_) ImGui::GetIO().AddMousePosEvent(pointer_->x, pointer_->y);
  ImGui::NewFrame();
  ui_.draw();
  ImGui::Render();
  glBindFramebuffer(GL_FRAMEBUFFER, static_cast<GLuint>(framebuffer));
  glViewport(0, 0, width, height);
  const ImVec4 background = ImGui::ColorConvertU32ToFloat4(ui_.theme().background);
  glClearColor(background.x, background.y, background.z, 1);
  glClear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
}

void WindowApp::write_state() {
  if (state_file_.empty()) return;
  std::string state = ui_.describe();
  if (state == written_state_) return;
  written_state_ = std::move(state);
  try {
    write_file(state_file_, written_state_ + "\n", true);
  } catch (const FileError& error) {
    fmt::print(stderr, "keyscope: warning: {}; --state-file is given up\n", terminal_text(error.what()));
    state_file_.clear();
  }
}

namespace {

constexpr auto kPlayInterval = std::chrono::milliseconds(160);

}  // namespace

Ui::Ui(session::Session& session, float scale, bool light, const std::filesystem::path& settings)
    : session_(session),
      scale_(scale),
      fonts_(load_fonts(scale)),
      dialogs_([] { GlfwWindow::wake(); }),
      workspace_(settings.empty() ? settings : settings / "layouts"),
      recent_(settings.empty() ? settings : settings / "recent.json", [] { GlfwWindow::wake(); }) {
  set_theme(light);
}

void Ui::set_theme(bool light) {
  theme_ = make_theme(light);
  apply_theme(theme_, scale_);
}

void Ui::fit_view() {
  keyspace_.fit();
  for (auto& [name, view] : figure_views_) view.fit();
}

void Ui::find_text() {
  session_.choose_view(session::kTextView);
  text_.find();
}

// A live run is in the form already; a recording brings its prompt along.
void Ui::prepare_rerun() {
  const auto& state = session_.state();
  if (!session_.live_status()) dialogs_.live_form().fill_from(*state.info, state.selection.run);
  dialogs_.live_form().again();
  dialogs_.open(Dialog::kLive);
}

void Ui::take_dropped(const std::filesystem::path& path) {
  switch (session::kind_of_dropped(path)) {
    case session::DroppedKind::kModel:
      dialogs_.live_form().take_model(path.string());
      return dialogs_.open(Dialog::kLive);
    case session::DroppedKind::kPrompt:
      dialogs_.live_form().take_prompt_file(path.string());
      return dialogs_.open(Dialog::kLive);
    case session::DroppedKind::kRecording:
      return session_.open(path);
  }
}

void Ui::perform_if(const Action* action) {
  if (action != nullptr) perform(*action, *this);
}

void Ui::handle_key(const KeyPress& press) {
  if (press.key == ImGuiKey_Escape) {
    const int n_dialogs = dialogs_.current() == Dialog::kNone ? 0 : 1;
    if (ImGui::GetCurrentContext()->OpenPopupStack.Size > n_dialogs)
      ImGui::ClosePopupToLevel(n_dialogs, true);  // a menu or list above it
    else
      n_dialogs == 0 ? session_.release() : dialogs_.close();
    return;
  }
  if (dialogs_.take_key(press, *this)) return;
  perform_key(press, ImGui::GetIO().WantTextInput || dialogs_.current() != Dialog::kNone, *this);
}

void Ui::play() {
  if (!session_.state().playing) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_play_ < kPlayInterval) return;
  last_play_ = now;
  session_.play_on();
}

FigureView& Ui::figure_view() {
  const std::string& view = session_.state().view;
  return figure_views_.try_emplace(view, view).first->second;
}

void Ui::draw_view(PanelContext& context, const std::string& view) {
  if (view == session::kKeyspaceView) return keyspace_.draw(context, content_rect());
  if (view == session::kTextView) return text_.draw(context, content_rect());
  if (view == session::kDifferenceView) return difference_.draw(context, content_rect());
  figure_views_.try_emplace(view, view).first->second.draw(context, content_rect());
}

void Ui::draw_panels(PanelContext& context) {
  workspace_.begin(context);
  for (const PanelName& panel : kPanelNames) {
    if (workspace_.is_closed(panel.kind)) continue;
    if (workspace_.begin_panel(context, panel.kind)) {
      switch (panel.kind) {
        case PanelKind::kHeads:
          draw_heads_panel(context);
          break;
        case PanelKind::kRuns:
          draw_runs_panel(context);
          break;
        case PanelKind::kToken:
          draw_token_panel(context, content_rect());
          break;
        case PanelKind::kBudget:
          draw_budget_panel(context);
          break;
        case PanelKind::kFilter:
          filter_.draw(context, content_rect());
          break;
        case PanelKind::kTimeline:
          timeline_.draw(context, content_rect());
          break;
      }
    }
    Workspace::end_window();
  }
  const std::vector<std::string> open = context.state().arrangement.views;  // one may be closed meanwhile
  std::erase_if(figure_views_,
                [&](const auto& view) { return std::ranges::find(open, view.first) == open.end(); });
  for (const session::ViewChoice& view : session::view_choices()) {
    if (std::ranges::find(open, view.name) == open.end()) continue;
    // Of several plots the one of the view that is looked at goes by that name.
    const auto before = context.widgets.extract("plot");
    if (workspace_.begin_view(context, view)) draw_view(context, view.name);
    if (!before.empty() && view.name != context.state().view)
      context.widgets.insert_or_assign("plot", before.mapped());
    Workspace::end_window();
  }
  workspace_.end(context);
}

void Ui::draw() {
  for (const KeyPress& press : pressed_keys()) handle_key(press);
  add_fallbacks(fonts_, glyphs_.take(session_.state(), [&](char32_t c) { return has_glyph(fonts_, c); }));
  play();
  PanelContext context{{theme_, fonts_, scale_}, session_};
  const Action* clicked = draw_top_bar(context, workspace_);
  draw_status_bar(context);
  if (const auto live = session_.live_status(); !live || !live->going_on())  // its file is still to come
    recent_.note(session_.state().figure_file ? session_.state().figure_path : session_.state().path);
  const ImGuiViewport& viewport = *ImGui::GetMainViewport();
  const Rect middle{viewport.WorkPos.x, viewport.WorkPos.y, viewport.WorkSize.x, viewport.WorkSize.y};
  if (session_.state().loaded())
    draw_panels(context);
  else if (session_.state().figure_file)
    figure_.draw(context, middle);
  else
    perform_if(draw_empty_state(context, middle, recent_.files()));
  dialogs_.draw(context, *this);
  perform_if(clicked);

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
  if (dialogs_.current() == Dialog::kPalette) {
    const PaletteList& list = dialogs_.palette().list();
    json["palette_size"] = list.size();
    json["palette_at"] = list.size() > 0 ? list.entry(list.cursor()).name : "";
  }
  json["busy"] = session_.busy();
  json["layout"] = workspace_.layout();
  json["n_visible"] = state.visible.size();
  json["n_windows"] = ImGui::GetPlatformIO().Viewports.Size;
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
    json["reading"] = state.selected().reading;
    json["shown"] = state.view;
    json["drawing"] = state.selected().drawing;
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
    json["live_text"] = session::describe_live(*live, *state.info);
  }
  json["view"] = keyspace_.describe();
  if (state.loaded() && state.view == session::kTextView) json["text_view"] = text_.describe();
  if (state.loaded() && state.view == session::kDifferenceView) json["difference"] = difference_.describe();
  if (const auto figure = figure_views_.find(state.view); state.loaded() && figure != figure_views_.end())
    json["figure_view"] = figure->second.describe();
  for (const auto& [name, rect] : widgets_) json["widgets"][name] = {rect.x, rect.y, rect.width, rect.height};
  return json_text(json);
}

}  // namespace keyscope::window
