#include "app/display/gl_objects.hpp"

#include <string>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::window {
namespace {

GLuint compile(GLenum kind, const char* source) {
  const GLuint shader = glCreateShader(kind);
  glShaderSource(shader, 1, &source, nullptr);
  glCompileShader(shader);
  GLint sound = GL_FALSE;
  glGetShaderiv(shader, GL_COMPILE_STATUS, &sound);
  if (sound == GL_TRUE) return shader;
  std::string log(4096, '\0');
  GLsizei length = 0;
  glGetShaderInfoLog(shader, static_cast<GLsizei>(log.size()), &length, log.data());
  log.resize(length);
  glDeleteShader(shader);
  throw Error(fmt::format("the graphics driver refused a shader: {}", log));
}

}  // namespace

GlProgram::GlProgram(const char* vertex_source, const char* fragment_source) {
  const GLuint vertex = compile(GL_VERTEX_SHADER, vertex_source);
  const GLuint fragment = compile(GL_FRAGMENT_SHADER, fragment_source);
  name_ = glCreateProgram();
  glAttachShader(name_, vertex);
  glAttachShader(name_, fragment);
  glLinkProgram(name_);
  glDeleteShader(vertex);
  glDeleteShader(fragment);
  GLint sound = GL_FALSE;
  glGetProgramiv(name_, GL_LINK_STATUS, &sound);
  if (sound == GL_TRUE) return;
  glDeleteProgram(name_);
  throw Error("the graphics driver could not link a shader program");
}

GlProgram::~GlProgram() { glDeleteProgram(name_); }

void RenderTarget::resize(int width, int height) {
  if (width == width_ && height == height_) return;
  glBindTexture(GL_TEXTURE_2D, texture_.get());
  glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, width, height, 0, GL_RGBA, GL_UNSIGNED_BYTE, nullptr);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
  glBindFramebuffer(GL_FRAMEBUFFER, framebuffer_.get());
  glFramebufferTexture2D(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D, texture_.get(), 0);
  glBindRenderbuffer(GL_RENDERBUFFER, depths_.get());
  glRenderbufferStorage(GL_RENDERBUFFER, GL_DEPTH_COMPONENT24, width, height);
  glFramebufferRenderbuffer(GL_FRAMEBUFFER, GL_DEPTH_ATTACHMENT, GL_RENDERBUFFER, depths_.get());
  const bool sound = glCheckFramebufferStatus(GL_FRAMEBUFFER) == GL_FRAMEBUFFER_COMPLETE;
  glBindFramebuffer(GL_FRAMEBUFFER, 0);
  if (!sound) throw Error(fmt::format("OpenGL cannot draw into a texture of {} x {} pixels", width, height));
  width_ = width;
  height_ = height;
}

void put_image(const GlTexture& texture, const figures::Image& image) {
  glBindTexture(GL_TEXTURE_2D, texture.get());
  glTexImage2D(GL_TEXTURE_2D, 0, GL_RGB8, image.width, image.height, 0, GL_BGRA, GL_UNSIGNED_BYTE,
               image.bgrx.data());
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
}

}  // namespace keyscope::window
