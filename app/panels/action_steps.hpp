#pragma once

// What the actions of the table need to be done, and the steps of those that are more than one call.

#include <string_view>

#include "app/panels/actions.hpp"

namespace keyscope::window {

// Why an action cannot be done now; empty: it can.
std::string_view always(const session::Session&);
std::string_view needs_recording(const session::Session& session);
std::string_view needs_figures(const session::Session& session);
std::string_view needs_live(const session::Session& session);
std::string_view needs_job(const session::Session& session);
std::string_view needs_command(const session::Session& session);

void pause_or_resume(session::Session& session);
void next_measure(session::Session& session);
void toggle_nth_beside(session::Session& session, int nth);
void toggle_queries(session::Session& session);
void copy_command(ActionTarget& target);
void step_figure(session::Session& session, int by);
void last_figure(session::Session& session);

}  // namespace keyscope::window
