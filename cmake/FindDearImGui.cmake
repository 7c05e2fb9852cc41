# Dear ImGui with docking and its GLFW and OpenGL 3 backends, ImPlot, and GLFW, as one imported target.
#
#   IMGUI_ROOT   a folder with include/ and lib/; by default the one that `./run setup` installs
#   DearImGui::DearImGui   the imported target; OpenGL's declarations come from elsewhere

set(IMGUI_ROOT ${PROJECT_SOURCE_DIR}/.deps/imgui/imgui/install CACHE PATH "Dear ImGui folder with include/ and lib/")

find_path(IMGUI_INCLUDE_DIR implot.h PATHS ${IMGUI_ROOT}/include NO_DEFAULT_PATH)
find_library(IMGUI_LIBRARY imgui PATHS ${IMGUI_ROOT}/lib NO_DEFAULT_PATH)
find_library(IMGUI_GLFW glfw3 PATHS ${IMGUI_ROOT}/lib NO_DEFAULT_PATH)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(DearImGui
  REQUIRED_VARS IMGUI_LIBRARY IMGUI_GLFW IMGUI_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "run './run setup', or name another folder with -DIMGUI_ROOT=DIR")

if(DearImGui_FOUND AND NOT TARGET DearImGui::DearImGui)
  find_package(Threads REQUIRED)
  add_library(DearImGui::DearImGui INTERFACE IMPORTED)
  target_include_directories(DearImGui::DearImGui SYSTEM INTERFACE ${IMGUI_INCLUDE_DIR})
  target_compile_definitions(DearImGui::DearImGui INTERFACE GLFW_INCLUDE_NONE)
  # GLFW opens X11, Wayland and EGL itself when it is started.
  target_link_libraries(DearImGui::DearImGui INTERFACE ${IMGUI_LIBRARY} ${IMGUI_GLFW} Threads::Threads ${CMAKE_DL_LIBS} m)
endif()
mark_as_advanced(IMGUI_INCLUDE_DIR IMGUI_LIBRARY IMGUI_GLFW)
