#include "capture/model/memory.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "base/files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::capture {

namespace {

// A machine's /proc and /sys as a process of some group sees them.
class Machine : public ::testing::Test {
 protected:
  Machine() { write("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable: 8000 kB\n"); }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(folder_.file(name).parent_path());
    write_file(folder_.file(name), text, true);
  }
  void mount_version_2(const std::string& top = "/") const {
    write("proc/self/mountinfo",
          "22 1 0:20 / /proc rw - proc proc rw\n"
          "30 23 0:26 " +
              top + " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
  }
  std::int64_t available() const { return available_memory(folder_.path()); }

  test::ScratchFolder folder_;
};

TEST_F(Machine, WithoutControlGroupsHasWhatTheKernelSays) {
  EXPECT_EQ(available(), 8000 * 1024);
  EXPECT_EQ(available_memory(folder_.file("nothing")), INT64_MAX / 1024 * 1024);
}

TEST_F(Machine, ALimitOfTheOwnGroupCounts) {
  mount_version_2();
  write("proc/self/cgroup", "0::/system.slice/slurmstepd.scope/job_7/step_0\n");
  const std::string group = "sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0/";
  write(group + "memory.max", "5000000\n");
  EXPECT_EQ(available(), 5000000);
  write(group + "memory.current", "1500000\n");
  EXPECT_EQ(available(), 3500000);
  write(group + "memory.stat", "anon 100\nfile 900000\nactive_file 400000\ninactive_file 500000\n");
  EXPECT_EQ(available(), 4400000);  // pages of files are given up
  write(group + "memory.high", "4000000\n");
  EXPECT_EQ(available(), 3400000);
}

TEST_F(Machine, SoDoLimitsOfTheGroupsAroundIt) {
  mount_version_2();
  write("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  write("sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
  write("sys/fs/cgroup/slurm/job_7/memory.max", "3000000\n");
  EXPECT_EQ(available(), 3000000);
  write("sys/fs/cgroup/slurm/memory.max", "2000000\n");
  EXPECT_EQ(available(), 2000000);
  write("sys/fs/cgroup/memory.max", "1000000\n");
  EXPECT_EQ(available(), 1000000);
  write("sys/fs/cgroup/slurm/job_8/memory.max", "5\n");  // somebody else's
  EXPECT_EQ(available(), 1000000);
}

TEST_F(Machine, AContainerSeesItsOwnGroupAsTheTopmost) {
  mount_version_2("/docker/abc");
  write("proc/self/cgroup", "0::/docker/abc/inner\n");
  write("sys/fs/cgroup/memory.max", "4000000\n");
  write("sys/fs/cgroup/inner/memory.max", "3000000\n");
  EXPECT_EQ(available(), 3000000);
  write("proc/self/cgroup", "0::/elsewhere\n");  // not below what is mounted
  EXPECT_EQ(available(), 4000000);
}

TEST_F(Machine, Version1HasItsOwnNames) {
  write("proc/self/mountinfo",
        "33 24 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "34 24 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  write("proc/self/cgroup", "5:memory:/slurm/uid_1/job_7\n4:cpu,cpuacct:/slurm\n0::/\n");
  write("sys/fs/cgroup/memory/slurm/uid_1/job_7/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/slurm/uid_1/memory.limit_in_bytes", "6000000\n");
  write("sys/fs/cgroup/memory/slurm/uid_1/memory.usage_in_bytes", "2000000\n");
  write("sys/fs/cgroup/memory/slurm/uid_1/memory.stat",
        "cache 1\nactive_file 7\ntotal_active_file 300000\ntotal_inactive_file 700000\n");
  EXPECT_EQ(available(), 5000000);
}

TEST_F(Machine, AGroupThatIsOverItsLimitHasNothingLeft) {
  mount_version_2();
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "1000\n");
  write("sys/fs/cgroup/memory.current", "2000\n");
  EXPECT_EQ(available(), 0);
}

}  // namespace

}  // namespace keyscope::capture
