// The desktop's portal for files, for which a thread on a bus of its own stands in.

#include <atomic>
#include <string>
#include <thread>

#include <gio/gio.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli.hpp"

namespace keyscope::commands {
namespace {

using test::CliResult;
using test::run_cli;
using ::testing::HasSubstr;

constexpr const char* kInterface =
    "<node><interface name='org.freedesktop.portal.FileChooser'>"
    "<method name='OpenFile'><arg type='s' direction='in'/><arg type='s' direction='in'/>"
    "<arg type='a{sv}' direction='in'/><arg type='o' direction='out'/></method>"
    "<method name='SaveFile'><arg type='s' direction='in'/><arg type='s' direction='in'/>"
    "<arg type='a{sv}' direction='in'/><arg type='o' direction='out'/></method></interface></node>";

// Answers every request with one path, or as if it had been closed.
class Portal {
 public:
  explicit Portal(std::string uri) : uri_(std::move(uri)), thread_([this] { serve(); }) {
    while (!ready_) std::this_thread::yield();
  }
  ~Portal() {
    g_main_loop_quit(loop_);
    thread_.join();
  }
  std::string asked;  // the method, its title and its options

 private:
  static void answer(GDBusConnection* bus, const char* sender, const char*, const char*, const char* method,
                     GVariant* parameters, GDBusMethodInvocation* call, void* self) {
    auto& portal = *static_cast<Portal*>(self);
    gchar* text = g_variant_print(parameters, FALSE);
    portal.asked = std::string(method) + text;
    g_free(text);
    GVariant* options = g_variant_get_child_value(parameters, 2);
    const gchar* token = "";
    g_variant_lookup(options, "handle_token", "&s", &token);
    std::string name = sender + 1;
    for (char& c : name)
      if (c == '.') c = '_';
    const std::string path = "/org/freedesktop/portal/desktop/request/" + name + "/" + token;
    g_variant_unref(options);
    g_dbus_method_invocation_return_value(call, g_variant_new("(o)", path.c_str()));
    GVariantBuilder results;
    g_variant_builder_init(&results, G_VARIANT_TYPE_VARDICT);
    const gchar* const uris[] = {portal.uri_.c_str(), nullptr};
    if (!portal.uri_.empty()) g_variant_builder_add(&results, "{sv}", "uris", g_variant_new_strv(uris, 1));
    g_dbus_connection_emit_signal(bus, sender, path.c_str(), "org.freedesktop.portal.Request", "Response",
                                  g_variant_new("(ua{sv})", portal.uri_.empty() ? 1U : 0U, &results),
                                  nullptr);
  }

  void serve() {
    GMainContext* context = g_main_context_new();
    g_main_context_push_thread_default(context);
    loop_ = g_main_loop_new(context, FALSE);
    gchar* address = g_dbus_address_get_for_bus_sync(G_BUS_TYPE_SESSION, nullptr, nullptr);
    GDBusConnection* bus = g_dbus_connection_new_for_address_sync(
        address,
        static_cast<GDBusConnectionFlags>(G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT |
                                          G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION),
        nullptr, nullptr, nullptr);
    g_free(address);
    GDBusNodeInfo* node = g_dbus_node_info_new_for_xml(kInterface, nullptr);
    const GDBusInterfaceVTable table{answer, nullptr, nullptr, {}};
    g_dbus_connection_register_object(bus, "/org/freedesktop/portal/desktop", node->interfaces[0], &table,
                                      this, nullptr, nullptr);
    GVariant* owned = g_dbus_connection_call_sync(bus, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                                  "org.freedesktop.DBus", "RequestName",
                                                  g_variant_new("(su)", "org.freedesktop.portal.Desktop", 4U),
                                                  nullptr, G_DBUS_CALL_FLAGS_NONE, -1, nullptr, nullptr);
    if (owned != nullptr) g_variant_unref(owned);
    ready_ = true;
    g_main_loop_run(loop_);
    g_dbus_connection_close_sync(bus, nullptr, nullptr);
    g_object_unref(bus);
    g_dbus_node_info_unref(node);
    g_main_loop_unref(loop_);
    g_main_context_pop_thread_default(context);
    g_main_context_unref(context);
  }

  std::string uri_;
  GMainLoop* loop_ = nullptr;
  std::atomic<bool> ready_ = false;
  std::thread thread_;
};

// A bus of its own, which dbus-daemon serves.
class ChooseFile : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    bus_ = g_test_dbus_new(G_TEST_DBUS_NONE);
    g_test_dbus_up(bus_);
  }
  static void TearDownTestSuite() {
    g_test_dbus_stop(bus_);
    g_object_unref(bus_);
  }
  static inline GTestDBus* bus_ = nullptr;
};

TEST_F(ChooseFile, PrintsThePathThatWasChosen) {
  Portal portal("file:///tmp/a%20run.h5");
  const CliResult result = run_cli({"choose-file", "--kind", "open", "--title", "Open a recording", "--at",
                                    "/tmp", "--pattern", "*.h5", "--pattern", "*.nxs"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "/tmp/a run.h5\n");
  EXPECT_THAT(portal.asked, HasSubstr("OpenFile"));
  EXPECT_THAT(portal.asked, HasSubstr("Open a recording"));
  EXPECT_THAT(portal.asked, HasSubstr("[(uint32 0, '*.h5'), (0, '*.nxs')]"));
  EXPECT_THAT(portal.asked, HasSubstr("'current_folder': <b'/tmp'>"));
}

TEST_F(ChooseFile, ProposesANameAndAsksForFolders) {
  Portal portal("file:///tmp/b.svg");
  EXPECT_EQ(run_cli({"choose-file", "--kind", "save", "--at", "/tmp/keyspace.svg"}).out, "/tmp/b.svg\n");
  EXPECT_THAT(portal.asked, HasSubstr("SaveFile"));
  EXPECT_THAT(portal.asked, HasSubstr("'current_name': <'keyspace.svg'>"));
  run_cli({"choose-file", "--kind", "folder"});
  EXPECT_THAT(portal.asked, HasSubstr("'directory': <true>"));
}

TEST_F(ChooseFile, IsClosedWithoutAPath) {
  Portal portal("");
  const CliResult result = run_cli({"choose-file"});
  EXPECT_NE(result.status, 0);
  EXPECT_EQ(result.out, "");
}

TEST_F(ChooseFile, SaysWhereThereIsNoPortal) {
  const CliResult result = run_cli({"choose-file"});
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("the desktop's portal"));
}

}  // namespace
}  // namespace keyscope::commands
