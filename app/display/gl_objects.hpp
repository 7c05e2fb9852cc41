#pragma once

#include <epoxy/gl.h>

#include "app/drawing/cairo_painter.hpp"

namespace keyscope::window {

// OpenGL names that delete themselves; a context must be current for as long as one lives.
template <void (*create)(GLuint*), void (*destroy)(GLuint*)>
class GlName {
 public:
  GlName() { create(&name_); }
  ~GlName() { destroy(&name_); }
  GlName(const GlName&) = delete;
  GlName& operator=(const GlName&) = delete;
  GLuint get() const { return name_; }

 private:
  GLuint name_ = 0;
};

// epoxy's functions are pointers that are found at the first call, so they are wrapped.
namespace gl_names {
inline void create_buffer(GLuint* name) { glGenBuffers(1, name); }
inline void destroy_buffer(GLuint* name) { glDeleteBuffers(1, name); }
inline void create_vertex_array(GLuint* name) { glGenVertexArrays(1, name); }
inline void destroy_vertex_array(GLuint* name) { glDeleteVertexArrays(1, name); }
inline void create_texture(GLuint* name) { glGenTextures(1, name); }
inline void destroy_texture(GLuint* name) { glDeleteTextures(1, name); }
inline void create_framebuffer(GLuint* name) { glGenFramebuffers(1, name); }
inline void destroy_framebuffer(GLuint* name) { glDeleteFramebuffers(1, name); }
inline void create_renderbuffer(GLuint* name) { glGenRenderbuffers(1, name); }
inline void destroy_renderbuffer(GLuint* name) { glDeleteRenderbuffers(1, name); }
}  // namespace gl_names

using GlBuffer = GlName<gl_names::create_buffer, gl_names::destroy_buffer>;
using GlVertexArray = GlName<gl_names::create_vertex_array, gl_names::destroy_vertex_array>;
using GlTexture = GlName<gl_names::create_texture, gl_names::destroy_texture>;
using GlRenderbuffer = GlName<gl_names::create_renderbuffer, gl_names::destroy_renderbuffer>;
using GlFramebuffer = GlName<gl_names::create_framebuffer, gl_names::destroy_framebuffer>;

// A linked vertex and fragment shader.
class GlProgram {
 public:
  //   throws Error with the compiler's log
  GlProgram(const char* vertex_source, const char* fragment_source);
  ~GlProgram();
  GlProgram(const GlProgram&) = delete;
  GlProgram& operator=(const GlProgram&) = delete;
  GLuint get() const { return name_; }
  GLint uniform(const char* name) const { return glGetUniformLocation(name_, name); }

 private:
  GLuint name_ = 0;
};

// A colour texture with a framebuffer that draws into it, and depths beside it.
class RenderTarget {
 public:
  // Gives it this size; what was drawn is lost if the size changes.
  //   throws Error where OpenGL cannot
  void resize(int width, int height);
  int width() const { return width_; }
  int height() const { return height_; }
  GLuint texture() const { return texture_.get(); }
  GLuint framebuffer() const { return framebuffer_.get(); }

 private:
  GlTexture texture_;
  GlRenderbuffer depths_;
  GlFramebuffer framebuffer_;
  int width_ = 0, height_ = 0;
};

// An image into a texture, pixel for pixel.
void put_image(const GlTexture& texture, const figures::Image& image);

}  // namespace keyscope::window
