#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <gio/gio.h>
#include <unistd.h>

#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "base/errors.hpp"

namespace keyscope::commands {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPortal = "org.freedesktop.portal.Desktop";
constexpr const char* kPath = "/org/freedesktop/portal/desktop";

struct ChooseFileArguments {
  std::string kind = "open", title, at;
  std::vector<std::string> patterns;
};

struct Unref {
  void operator()(GDBusConnection* connection) const { g_object_unref(connection); }
  void operator()(GMainLoop* loop) const { g_main_loop_unref(loop); }
  void operator()(GVariant* value) const { g_variant_unref(value); }
  void operator()(GError* error) const { g_error_free(error); }
};
template <typename T>
using Owned = std::unique_ptr<T, Unref>;

// What the portal answers with.
struct Answer {
  GMainLoop* loop = nullptr;
  bool chosen = false;
  std::string path;
};

void take_response(GDBusConnection*, const char*, const char*, const char*, const char*, GVariant* parameters,
                   void* data) {
  auto& answer = *static_cast<Answer*>(data);
  guint32 response = 1;  // 0: chosen, 1: closed by the user
  GVariant* results = nullptr;
  g_variant_get(parameters, "(u@a{sv})", &response, &results);
  const Owned<GVariant> held(results);
  const gchar** uris = nullptr;
  if (response == 0 && g_variant_lookup(results, "uris", "^a&s", &uris) != 0 && uris != nullptr) {
    if (uris[0] != nullptr)
      if (gchar* path = g_filename_from_uri(uris[0], nullptr, nullptr); path != nullptr) {
        answer.path = path;
        answer.chosen = true;
        g_free(path);
      }
    g_free(uris);
  }
  g_main_loop_quit(answer.loop);
}

// As the portal documents its options: a{sv}.
GVariant* options_of(const ChooseFileArguments& arguments, const std::string& token) {
  GVariantBuilder options;
  g_variant_builder_init(&options, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add(&options, "{sv}", "handle_token", g_variant_new_string(token.c_str()));
  g_variant_builder_add(&options, "{sv}", "modal", g_variant_new_boolean(TRUE));
  const fs::path at(arguments.at);
  const bool save = arguments.kind == "save";
  const std::string folder = (save ? at.parent_path() : at).string();
  if (!folder.empty())
    g_variant_builder_add(&options, "{sv}", "current_folder", g_variant_new_bytestring(folder.c_str()));
  if (save && at.has_filename())
    g_variant_builder_add(&options, "{sv}", "current_name", g_variant_new_string(at.filename().c_str()));
  if (arguments.kind == "folder")
    g_variant_builder_add(&options, "{sv}", "directory", g_variant_new_boolean(TRUE));
  if (!arguments.patterns.empty()) {
    GVariantBuilder globs;
    g_variant_builder_init(&globs, G_VARIANT_TYPE("a(us)"));
    for (const std::string& pattern : arguments.patterns)
      g_variant_builder_add(&globs, "(us)", guint32{0}, pattern.c_str());
    GVariantBuilder filters;
    g_variant_builder_init(&filters, G_VARIANT_TYPE("a(sa(us))"));
    g_variant_builder_add(&filters, "(sa(us))", "Recordings and figures", &globs);
    g_variant_builder_add(&options, "{sv}", "filters", g_variant_builder_end(&filters));
  }
  return g_variant_builder_end(&options);
}

[[noreturn]] void no_portal(GError* error) {
  const Owned<GError> held(error);
  throw FileError(
      fmt::format("the desktop's portal for files: {}", error != nullptr ? error->message : "no answer"));
}

// The request's object is known before it is made, so that no answer is missed:
// /org/freedesktop/portal/desktop/request/SENDER/TOKEN, the sender's dots as underlines.
std::string request_path(GDBusConnection* bus, const std::string& token) {
  std::string sender = g_dbus_connection_get_unique_name(bus) + 1;  // without its colon
  for (char& c : sender)
    if (c == '.') c = '_';
  return fmt::format("{}/request/{}/{}", kPath, sender, token);
}

Answer ask(const ChooseFileArguments& arguments) {
  GError* error = nullptr;
  const Owned<GDBusConnection> bus(g_bus_get_sync(G_BUS_TYPE_SESSION, nullptr, &error));
  if (!bus) no_portal(error);
  const Owned<GMainLoop> loop(g_main_loop_new(nullptr, FALSE));
  const std::string token = fmt::format("keyscope{}", ::getpid());
  Answer answer{loop.get(), false, {}};
  const guint subscription =
      g_dbus_connection_signal_subscribe(bus.get(), kPortal, "org.freedesktop.portal.Request", "Response",
                                         request_path(bus.get(), token).c_str(), nullptr,
                                         G_DBUS_SIGNAL_FLAGS_NO_MATCH_RULE, take_response, &answer, nullptr);
  const Owned<GVariant> handle(g_dbus_connection_call_sync(
      bus.get(), kPortal, kPath, "org.freedesktop.portal.FileChooser",
      arguments.kind == "save" ? "SaveFile" : "OpenFile",
      g_variant_new("(ss@a{sv})", "", arguments.title.c_str(), options_of(arguments, token)),
      G_VARIANT_TYPE("(o)"), G_DBUS_CALL_FLAGS_NONE, -1, nullptr, &error));
  if (!handle) no_portal(error);
  g_main_loop_run(loop.get());
  g_dbus_connection_signal_unsubscribe(bus.get(), subscription);
  return answer;
}

// Prints what was chosen; nothing, with the status 1, where the dialog was closed.
void run_choose_file(const ChooseFileArguments& arguments) {
  const Answer answer = ask(arguments);
  if (!answer.chosen) throw Cancelled("nothing was chosen");
  say_exactly(fmt::format("{}\n", answer.path));
}

}  // namespace

// The window asks by a process of its own, so that a dialog that hangs is none of the window's.
void add_choose_file(CLI::App& app) {
  auto arguments = std::make_shared<ChooseFileArguments>();
  CLI::App* command =
      app.add_subcommand("choose-file", "A path, chosen in the desktop's own dialog")->group("");
  command->add_option("--kind", arguments->kind)->check(CLI::IsMember({"open", "save", "folder"}));
  command->add_option("--title", arguments->title);
  command->add_option("--at", arguments->at);
  command->add_option("--pattern", arguments->patterns)->allow_extra_args(false);
  command->callback([arguments] { run_choose_file(*arguments); });
}

}  // namespace keyscope::commands
