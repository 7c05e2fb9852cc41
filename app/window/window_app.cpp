#include "app/window/window_app.hpp"

#include <epoxy/gl.h>
// After epoxy, so that GLFW does not bring another OpenGL header.
#include <cstdint>
#include <fstream>

#include <GLFW/glfw3.h>
#include <backends/imgui_impl_glfw.h>
#include <backends/imgui_impl_opengl3.h>
#include <imgui.h>

namespace keyscope::window {

ImguiContext::ImguiContext(GlfwWindow& window) {
  IMGUI_CHECKVERSION();
  ImGui::CreateContext();
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;  // the working folder is not ours to write to
  io.LogFilename = nullptr;
  io.ConfigWindowsMoveFromTitleBarOnly = true;
  ImGui_ImplGlfw_InitForOpenGL(window.handle(), true);
  ImGui_ImplOpenGL3_Init("#version 330 core");
}

ImguiContext::~ImguiContext() {
  ImGui_ImplOpenGL3_Shutdown();
  ImGui_ImplGlfw_Shutdown();
  ImGui::DestroyContext();
}

WindowApp::WindowApp(const Options& options)
    : window_(options.width, options.height, options.visible, options.on_screen),
      imgui_(window_),
      session_([] { GlfwWindow::wake(); }),
      scale_(options.scale > 0 ? options.scale : window_.content_scale()),
      ui_(session_, scale_, options.light,
          options.settings.empty() ? std::filesystem::path() : options.settings / "recent.json"),
      state_file_(options.state_file) {
  if (!options.settings.empty()) session_.remember_in(options.settings / "views");
}

void WindowApp::handle_input() {
  for (const KeyPress& press : window_.take_keys()) ui_.handle_key(press);
  for (const std::string& path : window_.take_dropped_files()) ui_.take_dropped(path);
}

void WindowApp::draw_frame() {
  int width = 0;
  int height = 0;
  window_.framebuffer_size(width, height);
  draw_frame(width, height);
}

void WindowApp::upload_fonts() {
  ImGui_ImplOpenGL3_DestroyFontsTexture();
  ImGui_ImplOpenGL3_CreateFontsTexture();
  note_texture_change(static_cast<GLuint>(reinterpret_cast<std::uintptr_t>(ImGui::GetIO().Fonts->TexID)));
}

void WindowApp::draw_frame(int width, int height) {
  if (ui_.fit_fonts()) upload_fonts();
  GLint framebuffer = 0;
  glGetIntegerv(GL_DRAW_FRAMEBUFFER_BINDING, &framebuffer);
  ImGui_ImplOpenGL3_NewFrame();
  ImGui_ImplGlfw_NewFrame();
  ImGui::GetIO().DisplaySize = ImVec2(static_cast<float>(width), static_cast<float>(height));
  ImGui::GetIO().DisplayFramebufferScale = ImVec2(1, 1);
  if (pointer_) ImGui::GetIO().MousePos = ImVec2(pointer_->x, pointer_->y);
  ImGui::NewFrame();
  ui_.draw(static_cast<float>(width), static_cast<float>(height));
  ImGui::Render();
  glBindFramebuffer(GL_FRAMEBUFFER, static_cast<GLuint>(framebuffer));
  frame_.draw(*ImGui::GetDrawData(), ui_.theme().ground, width, height);
}

void WindowApp::write_state() {
  if (state_file_.empty()) return;
  std::string state = ui_.describe();
  if (state == written_state_) return;
  written_state_ = std::move(state);
  const std::filesystem::path part = state_file_.string() + ".part";
  std::ofstream(part) << written_state_ << "\n";
  std::error_code error;
  std::filesystem::rename(part, state_file_, error);
}

}  // namespace keyscope::window
