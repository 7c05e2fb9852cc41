#pragma once

// A sound recording that a test may change as another program might, or damage.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include "capture/recording/recording.hpp"
#include "tests/capture/recording/read_everything.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/synthetic_capture.hpp"

namespace keyscope::recording {

class HostileFile : public ::testing::Test {
 protected:
  static SyntheticOptions one_layer() {
    SyntheticOptions options;
    options.n_layers = 1;
    options.layers = {0};
    options.n_prompt = 30;
    options.head_dim = 4;
    return options;
  }

  explicit HostileFile(const SyntheticOptions& options = one_layer()) {
    SyntheticCapture capture(options);
    auto writer = make_recording_writer(path_, false);
    capture.send(*writer);
    writer->end(true);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }

  // Changes the file through the C API, as another program might.
  void change(const std::function<void(hid_t)>& with) const {
    const hid_t file = H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    ASSERT_GE(file, 0);
    with(file);
    ASSERT_GE(H5Fclose(file), 0);
  }
  static void put(hid_t file, const std::string& path, hid_t type, const std::vector<hsize_t>& shape,
                  const void* values, hid_t creation = H5P_DEFAULT) {
    H5Ldelete(file, path.c_str(), H5P_DEFAULT);
    const hid_t space = shape.empty()
                            ? H5Screate(H5S_SCALAR)
                            : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    const hid_t dataset = H5Dcreate2(file, path.c_str(), type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    ASSERT_GE(dataset, 0) << path;
    const bool written =
        values == nullptr || H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0;
    ASSERT_TRUE(written) << path;
    H5Dclose(dataset), H5Sclose(space);
  }
  // A virtual dataset that stands for the whole of another, of `path` in `from`.
  static void put_virtual(hid_t file, const std::string& name, const std::string& from, const char* path,
                          const std::vector<hsize_t>& shape) {
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE),
                space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    H5Pset_virtual(properties, space, from.c_str(), path, space);
    put(file, name, H5T_IEEE_F32LE, shape, nullptr, properties);
    H5Sclose(space), H5Pclose(properties);
  }
  static void overwrite(hid_t file, const std::string& path, hid_t type, const void* values) {
    const hid_t dataset = H5Dopen2(file, path.c_str(), H5P_DEFAULT);
    ASSERT_GE(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), 0) << path;
    H5Dclose(dataset);
  }
  static void set_integer(hid_t file, const std::string& object, const char* name, std::int64_t value) {
    H5Adelete_by_name(file, object.c_str(), name, H5P_DEFAULT);
    const hid_t space = H5Screate(H5S_SCALAR);
    const hid_t attribute = H5Acreate_by_name(file, object.c_str(), name, H5T_STD_I64LE, space, H5P_DEFAULT,
                                              H5P_DEFAULT, H5P_DEFAULT);
    ASSERT_GE(H5Awrite(attribute, H5T_NATIVE_INT64, &value), 0);
    H5Aclose(attribute), H5Sclose(space);
  }

  std::string message() const { return read_everything(path_.string()); }
  void expect_refused(const std::string& place, const std::string& what) const {
    EXPECT_THAT(message(), ::testing::AllOf(::testing::HasSubstr(path_.string()), ::testing::HasSubstr(place),
                                            ::testing::HasSubstr(what)));
  }

  test::ScratchFolder folder_;
  std::filesystem::path path_ = folder_.path() / "a.h5";
};

}  // namespace keyscope::recording
