#include "app/panels/action_steps.hpp"

#include <iterator>
#include <string>

#include "app/session/view_command.hpp"

namespace keyscope::window {

using session::Session;

namespace {

bool lists_figures(const Session& session) {
  return session.state().figure_file && !session.state().loaded();
}

}  // namespace

std::string_view always(const Session&) { return {}; }

std::string_view needs_recording(const Session& session) {
  if (session.state().loaded()) return {};
  return lists_figures(session) ? "this is a file of figures, not a recording" : "no recording is open";
}

std::string_view needs_figures(const Session& session) {
  return lists_figures(session) ? std::string_view() : "no file of figures is open";
}

std::string_view needs_live(const Session& session) {
  const auto live = session.live_status();
  return live && live->going_on() ? std::string_view() : "no model is running";
}

std::string_view needs_job(const Session& session) {
  return session.state().jobs.empty() ? "nothing is being opened, made or exported" : std::string_view();
}

void pause_or_resume(Session& session) {
  const auto live = session.live_status();
  live && live->stage == session::LiveStage::kPaused ? session.resume_live() : session.pause_live();
}

void next_measure(Session& session) {
  session.choose_measure((session.state().measure + 1) % session::measure_choices().size());
}

void toggle_nth_beside(Session& session, int nth) {
  const auto& choices = session.state().choices;
  if (nth < std::ssize(choices)) session.toggle_beside(choices[static_cast<std::size_t>(nth)].id);
}

void toggle_queries(Session& session) {
  figures::KeyspaceLook look = session.state().look;
  look.queries = !look.queries;
  session.choose_look(look);
}

std::string_view needs_command(const Session& session) {
  return session::view_command_refusal(session.state());
}

void copy_command(ActionTarget& target) {
  const std::string command = session::view_command(target.session().state());
  target.copy_text(command);
  target.session().say({"Copied: " + command, false});
}

void step_figure(Session& session, int by) {
  session.select_figure(static_cast<std::int64_t>(session.state().figure) + by);
}

void last_figure(Session& session) {
  session.select_figure(std::ssize(session.state().figure_file->figures) - 1);
}

}  // namespace keyscope::window
