#include "capture/recording/part_file.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/outputs_together.hpp"
#include "capture/recording/recording.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/synthetic_capture.hpp"

namespace keyscope::recording {

// What is written beside OUT until it gets that name: what of it is in the way, and who may replace it.

namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class PartFileTest : public ::testing::Test {
 protected:
  static void write_text(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  std::filesystem::path part() const { return out_.string() + ".part"; }

  SyntheticCapture capture_;
  test::ScratchFolder folder_;
  std::filesystem::path out_ = folder_.path() / "out.h5";
};

TEST_F(PartFileTest, RefusesThatOfAKilledCapture) {
  write_text(part(), "precious");
  EXPECT_THAT([&] { make_recording_writer(out_, false); }, ThrowsMessage<FileError>(HasSubstr("killed")));
  EXPECT_EQ(read_file(part()), "precious");
}

TEST_F(PartFileTest, RefusesOneThatHoldsBlocks) {
  auto killed = make_recording_writer(out_, false);
  capture_.send(*killed, 4);
  killed->end(false);
  std::filesystem::rename(out_, part());  // as it lies after a kill
  const std::string kept = read_file(part());
  EXPECT_THAT([&] { make_recording_writer(out_, false); },
              ThrowsMessage<FileError>(HasSubstr("with what it had recorded")));
  EXPECT_EQ(read_file(part()), kept);
}

// It may be somebody's, or more than this program can read.
TEST_F(PartFileTest, RefusesOneThatItCannotRead) {
  auto killed = make_recording_writer(out_, false);
  capture_.send(*killed, 4);
  killed->end(false);
  std::string torn = read_file(out_);
  std::filesystem::remove(out_);
  std::fill(torn.begin() + 512, torn.begin() + 8192, '\x7F');
  for (const std::string& left : {torn, std::string(8, '\0') + "somebody's"}) {
    write_text(part(), left);
    EXPECT_THAT([&] { make_recording_writer(out_, false); }, ThrowsMessage<FileError>(HasSubstr("--force")));
    EXPECT_EQ(read_file(part()), left);
  }
}

// Killed before it had written what a recording begins with.
TEST_F(PartFileTest, OneInWhichNothingWasRecordedIsNotInTheWay) {
  const auto empty_hdf5 = folder_.file("empty.h5");
  H5Fclose(H5Fcreate(empty_hdf5.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  for (const std::string& left : {std::string(), std::string(4096, '\0'), read_file(empty_hdf5)}) {
    write_text(part(), left);
    EXPECT_THAT([&] { open_recording(part().string()); },
                ThrowsMessage<FileError>(HasSubstr("nothing was recorded yet")));
    auto writer = make_recording_writer(out_, false);
    capture_.send(*writer);
    writer->end(true);
    EXPECT_TRUE(open_recording(out_.string())->info()->complete);
    EXPECT_FALSE(std::filesystem::exists(part()));
    std::filesystem::remove(out_);
  }
}

// However long it takes to lay it out: what a kill leaves until then is no part of a recording.
TEST_F(PartFileTest, HasItsNameWhenItCanBeRead) {
  PartFile place(out_, false);
  hdf5::File file = place.create();
  file.root().create_group("entry", "NXentry");
  file.flush();
  EXPECT_FALSE(std::filesystem::exists(part()));
  EXPECT_THAT([&] { file.root().open_group("absent"); },
              ThrowsMessage<FileError>(HasSubstr("out.h5.part: ")));
  make_recording_writer(out_, false);
  place.settle();
  EXPECT_THAT([&] { make_recording_writer(out_, false); },
              ThrowsMessage<FileError>(HasSubstr("is writing to it")));
  file.close();
  place.unlock();
  EXPECT_THAT([&] { make_recording_writer(out_, false); }, ThrowsMessage<FileError>(HasSubstr("--force")));
  place.remove();
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

// Until the new one can be read, the old one is all there is.
TEST_F(PartFileTest, ReplacesTheOldOneAtTheEndWhereForced) {
  write_text(part(), "stale");
  {
    PartFile place(out_, true);
    place.create().close();
    EXPECT_EQ(read_file(part()), "stale");
    EXPECT_THAT([&] { PartFile(out_, true).create(); },
                ThrowsMessage<FileError>(HasSubstr("is writing to it")));
    place.remove();  // as after a full disk
  }
  EXPECT_EQ(read_file(part()), "stale");
  PartFile place(out_, true);
  place.create().close();
  place.settle();
  EXPECT_NE(read_file(part()), "stale");
}

// What has its name by then is somebody's: another capture's, say.
TEST_F(PartFileTest, LeavesOneThatAppearsMeanwhile) {
  for (const bool replace : {false, true}) {
    PartFile place(out_, replace);
    place.create().close();
    write_text(part(), "precious");
    EXPECT_THAT([&] { place.settle(); }, ThrowsMessage<FileError>(HasSubstr("out.h5.part: has appeared")));
    place.remove();
    EXPECT_EQ(read_file(part()), "precious");
    std::filesystem::remove(part());
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  }
}

TEST_F(PartFileTest, ReplacesNoFolderAndNoneThatIsBeingWritten) {
  std::filesystem::create_directory(part());
  EXPECT_THAT([&] { PartFile(out_, true).create(); }, ThrowsMessage<FileError>(HasSubstr("out.h5.part")));
  EXPECT_TRUE(std::filesystem::is_directory(part()));
  std::filesystem::remove(part());
  PartFile place(out_, false);
  const hdf5::File file = place.create();
  place.settle();
  EXPECT_THAT([&] { PartFile(out_, true).create(); },
              ThrowsMessage<FileError>(HasSubstr("is writing to it")));
  EXPECT_TRUE(std::filesystem::exists(part()));
}

// A recording is closed before it is compressed, and before it gets its name, for which it may have to wait.
TEST_F(PartFileTest, IsLockedUntilItIsPublished) {
  const auto force = [&] { PartFile(out_, true).create(); };
  PartFile place(out_, false);
  place.create().close();
  place.settle();
  EXPECT_THAT(force, ThrowsMessage<FileError>(HasSubstr("is writing to it")));
  const auto copy = folder_.path() / "copy.h5";
  hdf5::File file = hdf5::File::create(copy);
  auto lock = file.keep_lock();
  file.close();
  std::filesystem::rename(copy, part());
  place.hold(std::move(lock));
  EXPECT_THAT(force, ThrowsMessage<FileError>(HasSubstr("is writing to it")));
  {
    OutputsTogether outputs;
    place.publish();
    EXPECT_THAT(force, ThrowsMessage<FileError>(HasSubstr("is writing to it"))) << "it waits for its name";
    outputs.commit();
  }
  EXPECT_TRUE(std::filesystem::exists(out_));
  EXPECT_NO_THROW(force());
}

// Between two changes of its writer what is read may contradict itself.
TEST_F(PartFileTest, ThatCannotBeReadWhileItIsWrittenIsNotCalledDamaged) {
  write_text(part(), "torn");
  const auto read = [&] { open_recording(part().string()); };
  {
    const Descriptor writer(part(), O_RDWR);
    ASSERT_EQ(try_lock(writer.id()), FileLock::kHeld);
    EXPECT_THAT(read, ThrowsMessage<FileError>(HasSubstr("a capture is writing to it")));
  }
  EXPECT_THAT(read, ThrowsMessage<FileError>(testing::Not(HasSubstr("a capture is writing"))));
}

}  // namespace

}  // namespace keyscope::recording
