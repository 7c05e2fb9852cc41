#include "tests/capture/recording/hostile_file.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "capture/recording/hdf5.hpp"

namespace keyscope::recording {

// Files that lie or point elsewhere: one clear sentence, and nothing else happens.

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Shape = std::vector<hsize_t>;

constexpr const char* kRun = "/entry/runs/keydiff";
constexpr const char* kKeys = "/entry/runs/keydiff/layer_00/keys";
constexpr const char* kEvictedAt = "/entry/runs/keydiff/layer_00/evicted_at";

TEST_F(HostileFile, StartsAsAGoodOne) { EXPECT_EQ(message(), ""); }

// Every head has a learned sink, layer 1 has no keys, and it and layer 2 have experts.
class HostileArchitecture : public HostileFile {
 protected:
  HostileArchitecture() : HostileFile(sinks_and_experts()) {}

  static constexpr const char* kKeyless = "/entry/runs/keydiff/layer_01";
};

TEST_F(HostileArchitecture, StartsAsAGoodOne) { EXPECT_EQ(message(), ""); }

TEST_F(HostileArchitecture, FlagsThatAreNoneAreRefused) {
  change([](hid_t file) { set_integer(file, "/entry/runs/none/layer_01", "keyless", 2); });
  expect_refused("/entry/runs/none/layer_01", "keyless");
}

TEST_F(HostileArchitecture, RunsMustAgreeOnWhichLayersHaveKeys) {
  change([](hid_t file) { set_integer(file, kKeyless, "keyless", 0); });
  expect_refused(kKeyless, "is not keyless; expected no keys, as in the first run");
}

TEST_F(HostileArchitecture, ExpertsThatAreNotThereAreRefused) {
  change([](hid_t file) {
    const std::vector<std::int32_t> experts(2 * 53, 8);
    put(file, std::string(kKeyless) + "/expert", H5T_NATIVE_INT32, {53, 2}, experts.data());
  });
  expect_refused(std::string(kKeyless) + "/expert", "found expert 8; expected -1 to 7");
}

TEST_F(HostileArchitecture, ExpertsOfOtherNumbersAreRefused) {
  change([](hid_t file) { set_integer(file, kKeyless, "n_experts", 1); });
  expect_refused(kKeyless, "expected tokens by 1 to 1 experts");
  change([](hid_t file) { set_integer(file, kKeyless, "n_experts", 5); });
  expect_refused(kKeyless, "other numbers of experts than in the first layer");
}

TEST_F(HostileArchitecture, ExpertsOfOtherTokensAreRefused) {
  change([](hid_t file) {
    const std::vector<float> entropy(7);
    put(file, std::string(kKeyless) + "/router_entropy", H5T_NATIVE_FLOAT, {7}, entropy.data());
  });
  expect_refused(std::string(kKeyless) + "/router_entropy", "found float32 (7)");
}

TEST_F(HostileArchitecture, SinksOfOtherShapesAreRefused) {
  change([](hid_t file) {
    const std::vector<double> sums(4 * 3);
    put(file, "/entry/runs/none/layer_00/attention_sink", H5T_NATIVE_DOUBLE, {4, 3}, sums.data());
  });
  expect_refused("/entry/runs/none/layer_00/attention_sink", "found float64 (4, 3)");
}

TEST_F(HostileArchitecture, NoLayerWithKeysIsRefused) {
  change([](hid_t file) {
    for (const char* layer : {"layer_00", "layer_02"}) {
      const std::string path = std::string("/entry/runs/none/") + layer;
      const hid_t space = H5Screate(H5S_SCALAR);
      const hid_t attribute = H5Acreate_by_name(file, path.c_str(), "keyless", H5T_STD_I64LE, space,
                                                H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
      const std::int64_t one = 1;
      H5Awrite(attribute, H5T_NATIVE_INT64, &one);
      H5Aclose(attribute), H5Sclose(space);
    }
  });
  expect_refused("/entry/runs/none", "none of its layers has keys");
}

TEST_F(HostileFile, ExternalLinksAreRefused) {
  std::filesystem::copy_file(path_, folder_.path() / "other.h5");
  change([](hid_t file) {
    H5Ldelete(file, kKeys, H5P_DEFAULT);
    H5Lcreate_external("other.h5", kKeys, file, kKeys, H5P_DEFAULT, H5P_DEFAULT);
  });
  expect_refused("/entry/runs/keydiff/layer_00", "'keys' is a link to another file");
}

TEST_F(HostileFile, ExternalLinksAreRefusedWhereverTheyStand) {
  change([](hid_t file) {
    H5Lcreate_external("/etc/passwd", "/", file, "/entry/more", H5P_DEFAULT, H5P_DEFAULT);
  });
  expect_refused("/entry", "'more' is a link to another file");
}

TEST_F(HostileFile, SoftLinksInPlaceOfDataAreRefused) {
  change([](hid_t file) {
    H5Ldelete(file, kKeys, H5P_DEFAULT);
    H5Lcreate_soft("/entry/runs/none/layer_00/keys", file, kKeys, H5P_DEFAULT, H5P_DEFAULT);
  });
  expect_refused("/entry/runs/keydiff/layer_00", "'keys' is a soft link");
}

TEST_F(HostileFile, SoftLinksThatLeadNowhereAreRefused) {
  change([](hid_t file) {
    H5Ldelete(file, kRun, H5P_DEFAULT);
    H5Lcreate_soft("/entry/runs", file, kRun, H5P_DEFAULT, H5P_DEFAULT);
  });
  expect_refused("/entry/runs", "'keydiff' is a soft link");
}

// A name that a file gives (as `default`) or a user asks for is never a way through links.
TEST_F(HostileFile, PathsInPlaceOfNamesAreRefused) {
  std::filesystem::copy_file(path_, folder_.path() / "other.h5");
  change([](hid_t file) {
    H5Lcreate_soft("/entry", file, "/alias", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_external("other.h5", "/", file, "/entry/tokens/out", H5P_DEFAULT, H5P_DEFAULT);
  });
  const hdf5::File file = hdf5::File::open(path_);
  const hdf5::Group root = file.root();
  for (const std::string name :
       {"", ".", "/", "entry/runs", "/entry", "./entry", "alias/runs", "entry/tokens/out/entry"}) {
    EXPECT_FALSE(root.has(name)) << name;
    EXPECT_FALSE(root.has_group(name)) << name;
    EXPECT_THROW(root.open_group(name), FileError) << name;
    EXPECT_THROW(root.open_dataset(name + "/keys"), FileError) << name;
    EXPECT_THROW(root.read_texts(name), FileError) << name;
  }
  for (const char* entry : {"alias/../entry", "entry/tokens/out/entry", "."})
    EXPECT_THAT(read_everything(path_.string() + "::" + entry), HasSubstr("is a path; expected the name"))
        << entry;
}

TEST_F(HostileFile, VirtualDatasetsAreRefused) {
  change([this](hid_t file) {
    const Shape shape{2, 33, 4};
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE),
                space = H5Screate_simple(3, shape.data(), nullptr);
    H5Pset_virtual(properties, space, (folder_.path() / "other.h5").c_str(), "/x", space);
    put(file, kKeys, H5T_IEEE_F32LE, shape, nullptr, properties);
    H5Sclose(space), H5Pclose(properties);
  });
  expect_refused(kKeys, "virtual dataset");
}

// As `sweep run` names results, which are the only files that are followed.
constexpr const char* kResult = "results/0f/0f23456789abcdef0123456789abcdef.h5";

TEST_F(HostileFile, VirtualDatasetsOfResultsAreFollowedToRecordingsOnly) {
  const auto result = folder_.path() / kResult;
  std::filesystem::create_directories(result.parent_path());
  std::filesystem::copy_file(path_, result);
  change([](hid_t file) { put_virtual(file, kKeys, kResult, kKeys, {2, 33, 4}); });
  EXPECT_EQ(read_everything(path_.string()), read_everything(result.string())) << "the very same numbers";
  const hid_t other = H5Fopen(result.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  H5Adelete(other, "keyscope_format");
  H5Fclose(other);
  expect_refused(kKeys, "no recording");
  std::filesystem::remove(result);
  expect_refused(kKeys, "no such file");
  std::filesystem::create_symlink("/dev/zero", result);
  expect_refused(kKeys, "no regular file");
}

TEST_F(HostileFile, AResultThatIsVirtualItselfIsRefused) {
  const auto result = folder_.path() / kResult;
  std::filesystem::create_directories(result.parent_path());
  change([](hid_t file) { put_virtual(file, kKeys, kResult, kKeys, {2, 33, 4}); });
  std::filesystem::copy_file(path_, result);
  expect_refused(kKeys, "a virtual dataset, which reads from other files; refused");
}

TEST_F(HostileFile, VirtualDatasetsOfOtherShapesAndNamesAreRefused) {
  const auto result = folder_.path() / kResult;
  std::filesystem::create_directories(result.parent_path());
  std::filesystem::copy_file(path_, result);
  change([](hid_t file) { put_virtual(file, kKeys, kResult, kKeys, {2, 34, 4}); });
  expect_refused(kKeys, "shape is (2, 33, 4); expected (2, 34, 4)");
  change([](hid_t file) { put_virtual(file, kKeys, kResult, "/entry/nothing", {2, 33, 4}); });
  expect_refused(kKeys, "'nothing' is missing");
  for (const char* name : {"../results/0f/0f23456789abcdef0123456789abcde.h5", "/etc/passwd", ".",
                           "results/0f/0f23456789abcdef0123456789abcdef.h5/x"}) {
    change([&](hid_t file) { put_virtual(file, kKeys, name, kKeys, {2, 33, 4}); });
    expect_refused(kKeys, "only the results of a study are followed");
  }
}

TEST_F(HostileFile, ExternalStorageIsRefused) {
  change([](hid_t file) {
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(properties, "/etc/passwd", 0, H5F_UNLIMITED);
    put(file, kKeys, H5T_IEEE_F32LE, {2, 33, 4}, nullptr, properties);
    H5Pclose(properties);
  });
  expect_refused(kKeys, "external storage");
}

TEST_F(HostileFile, UnknownFiltersAreRefused) {
  change([](hid_t file) {
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    const Shape chunk{1, 33, 4};
    H5Pset_chunk(properties, 3, chunk.data());
    H5Pset_nbit(properties);
    put(file, kKeys, H5T_IEEE_F32LE, {2, 33, 4}, nullptr, properties);
    H5Pclose(properties);
  });
  expect_refused(kKeys, "filter 5 is not supported");
}

// What HDF5 1.10.8 reads past, or from nowhere, and a later one does not open.
TEST_F(HostileFile, LessThanDeclaredInOnePieceIsRefused) {
  const std::vector<float> values(2 * 33 * 4, 1.5F);
  for (const auto layout : {H5D_COMPACT, H5D_CONTIGUOUS}) {
    change([&](hid_t file) {
      const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
      H5Pset_layout(properties, layout);
      put(file, kKeys, H5T_IEEE_F32LE, {2, 33, 4}, values.data(), properties);
      H5Pclose(properties);
    });
    EXPECT_EQ(message(), "");
    const std::string sound = read_file(path_);
    // Version 3, the layout, and its size: two bytes before the values, or eight behind their address.
    const bool compact = layout == H5D_COMPACT;
    const std::string found =
        compact ? std::string("\3\0\x20\4\0\0\xc0\x3f", 8) : std::string("\x20\4\0\0\0\0\0\0", 8);
    const std::size_t place = sound.find(found), at = compact ? place + 2 : place;
    ASSERT_NE(place, std::string::npos);
    for (const int stored : {compact ? 0 : 1, 16, 1055}) {
      std::string bytes = sound;
      bytes[at] = static_cast<char>(stored % 256);
      bytes[at + 1] = static_cast<char>(stored / 256);
      std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
      EXPECT_THAT(message(), AnyOf(HasSubstr(fmt::format("1056 bytes, but stores {}", stored)),
                                   HasSubstr("cannot open the dataset")));
    }
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << sound;
  }
}

TEST_F(HostileFile, WhatNothingWroteInOnePieceIsRead) {
  change([](hid_t file) { put(file, kKeys, H5T_IEEE_F32LE, {2, 33, 4}, nullptr); });
  EXPECT_EQ(message(), "");
}

TEST_F(HostileFile, HugeDeclaredSizesAreRefused) {
  change([](hid_t file) {
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    const Shape chunk{1, 1000, 4};
    H5Pset_chunk(properties, 3, chunk.data());
    put(file, kKeys, H5T_IEEE_F32LE, {2, hsize_t{1} << 33, 4}, nullptr, properties);
    H5Pclose(properties);
  });
  expect_refused(kKeys, "found float32 (2, 8589934592, 4)");
}

TEST_F(HostileFile, TokensBeyondAllStorageAreRefused) {
  change([](hid_t file) {
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    const Shape chunk{4096};
    H5Pset_chunk(properties, 1, chunk.data());
    H5Pset_deflate(properties, 9);
    put(file, "/entry/tokens/id", H5T_STD_I32LE, {2000000000}, nullptr, properties);
    H5Pclose(properties);
    set_integer(file, "/entry/tokens", "n_prompt", 2000000000);
  });
  expect_refused("/entry/tokens/id", "but stores");
}

TEST_F(HostileFile, WrongTypesAreRefused) {
  const std::vector<double> zeros(264);
  change([&](hid_t file) { put(file, kKeys, H5T_IEEE_F64LE, {2, 33, 4}, zeros.data()); });
  expect_refused(kKeys, "found float64 (2, 33, 4); expected float32 (2, 33, 4)");
}

TEST_F(HostileFile, IntegersInPlaceOfFloatsAreRefused) {
  const std::vector<std::int32_t> zeros(264);
  change([&](hid_t file) { put(file, kKeys, H5T_STD_I32LE, {2, 33, 4}, zeros.data()); });
  expect_refused(kKeys, "found int32");
}

TEST_F(HostileFile, ContradictingShapesAreRefused) {
  const std::vector<float> zeros(272);
  change([&](hid_t file) { put(file, kKeys, H5T_IEEE_F32LE, {2, 34, 4}, zeros.data()); });
  expect_refused(kKeys, "found float32 (2, 34, 4); expected float32 (2, 33, 4)");
  change([&](hid_t file) { put(file, kKeys, H5T_IEEE_F32LE, {4, 33, 2}, zeros.data()); });
  expect_refused(kKeys, "found float32 (4, 33, 2)");
  change([&](hid_t file) { put(file, kKeys, H5T_IEEE_F32LE, {264}, zeros.data()); });
  expect_refused(kKeys, "found float32 (264)");
}

TEST_F(HostileFile, MissingPartsAreNamed) {
  for (const char* path :
       {"/entry/runs/keydiff/layer_00/evicted_margin", "/entry/runs/keydiff/layer_00/keys",
        "/entry/runs/keydiff/generated", "/entry/tokens/text", "/entry/provenance", "/entry/model"}) {
    const auto copy = folder_.path() / "copy.h5";
    std::filesystem::copy_file(path_, copy, std::filesystem::copy_options::overwrite_existing);
    const hid_t file = H5Fopen(copy.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    H5Ldelete(file, path, H5P_DEFAULT);
    H5Fclose(file);
    const std::string name = std::filesystem::path(path).filename();
    EXPECT_THAT(read_everything(copy.string()), AllOf(HasSubstr("'" + name + "'"), HasSubstr("missing")))
        << path;
  }
}

TEST_F(HostileFile, MissingAttributesAreNamed) {
  change([](hid_t file) { H5Adelete_by_name(file, kRun, "budget", H5P_DEFAULT); });
  expect_refused(kRun, "attribute 'budget' is missing");
}

TEST_F(HostileFile, GroupsInPlaceOfDatasetsAreRefused) {
  change([](hid_t file) {
    H5Ldelete(file, kKeys, H5P_DEFAULT);
    H5Gclose(H5Gcreate2(file, kKeys, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  });
  expect_refused("layer_00", "'keys' is not a dataset");
}

TEST_F(HostileFile, ImpossibleCountsAreRefused) {
  change([](hid_t file) { set_integer(file, "/entry/model", "n_kv_heads", 3); });
  expect_refused("/entry/model", "4 query heads do not divide over 3 KV heads");
  change([](hid_t file) { set_integer(file, "/entry/model", "n_kv_heads", -2); });
  expect_refused("/entry/model", "attribute 'n_kv_heads' is -2");
}

TEST_F(HostileFile, BlocksThatContradictTheTokensAreRefused) {
  change([](hid_t file) { set_integer(file, kRun, "n_prompt", 31); });
  expect_refused(kRun, "attribute 'n_prompt' is 31");
  change([](hid_t file) {
    set_integer(file, kRun, "n_prompt", 30);
    set_integer(file, kRun, "n_prompt_blocks", 3);
  });
  expect_refused(kRun, "the prompt of 30 tokens ends after 24");
}

TEST_F(HostileFile, BlocksThatDoNotAscendAreRefused) {
  const std::vector<std::int32_t> start{0, 8, 8, 24, 30, 31, 32};
  change([&](hid_t file) {
    overwrite(file, "/entry/runs/keydiff/block_start", H5T_NATIVE_INT32, start.data());
  });
  expect_refused(kRun, "block 1 covers tokens [8, 8)");
}

TEST_F(HostileFile, OffsetsThatDoNotAscendAreRefused) {
  std::vector<std::int64_t> offset(31, 0);
  change([&](hid_t file) { overwrite(file, "/entry/tokens/text_offset", H5T_NATIVE_INT64, offset.data()); });
  expect_refused("/entry/tokens/text_offset", "offsets must ascend");
  offset[3] = std::int64_t{1} << 60;
  change([&](hid_t file) { overwrite(file, "/entry/tokens/text_offset", H5T_NATIVE_INT64, offset.data()); });
  expect_refused("/entry/tokens/text_offset", "offsets must ascend");
}

TEST_F(HostileFile, NegativeIdsAreRefused) {
  const std::vector<std::int32_t> id(30, -3);
  change([&](hid_t file) { overwrite(file, "/entry/tokens/id", H5T_NATIVE_INT32, id.data()); });
  expect_refused("/entry/tokens", "token 0 has id -3");
}

TEST_F(HostileFile, EvictionsThatCannotBeAreRefused) {
  for (const std::int32_t at : {-2, 7, 1000000}) {
    std::vector<std::int32_t> evicted_at(66, -1);
    evicted_at[40] = at;
    change([&](hid_t file) { overwrite(file, kEvictedAt, H5T_NATIVE_INT32, evicted_at.data()); });
    expect_refused(kEvictedAt, "token 7 is evicted at block " + std::to_string(at) + " of 7");
  }
  std::vector<std::int32_t> too_early(66, -1);
  too_early[20] = 1;
  change([&](hid_t file) { overwrite(file, kEvictedAt, H5T_NATIVE_INT32, too_early.data()); });
  expect_refused(kEvictedAt, "token 20 is evicted at block 1");
}

TEST_F(HostileFile, JsonThatIsNoneIsRefused) {
  for (const std::string& text : {std::string("{broken"), std::string(65, '[') + std::string(65, ']')}) {
    change([&](hid_t file) {
      H5Adelete_by_name(file, kRun, "parameters", H5P_DEFAULT);
      const hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
      H5Tset_size(type, text.size() + 1);
      const hid_t attribute =
          H5Acreate_by_name(file, kRun, "parameters", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
      H5Awrite(attribute, type, text.c_str());
      H5Aclose(attribute), H5Sclose(space), H5Tclose(type);
    });
    expect_refused(kRun, "attribute 'parameters' is no JSON");
  }
}

}  // namespace

// Files that are cut short, overwritten, or something else: refused, and nothing else happens.

namespace {

using DamagedFile = HostileFile;

TEST_F(DamagedFile, OtherFilesAreNoRecordings) {
  std::ofstream(path_, std::ios::trunc) << "hello";
  expect_refused("", "is no HDF5 file");
  std::ofstream(path_, std::ios::trunc) << "";
  EXPECT_NE(message(), "");
  std::filesystem::remove(path_);
  H5Fclose(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  expect_refused("", "not a Keyscope recording");
}

TEST_F(DamagedFile, TruncatedAnywhereItIsRefused) {
  const auto size = std::filesystem::file_size(path_);
  for (int i = 49; i >= 0; --i) {
    std::filesystem::resize_file(path_, size * static_cast<std::uintmax_t>(i) / 50);
    EXPECT_THAT(message(), testing::AllOf(testing::StartsWith(path_),
                                          testing::HasSubstr(i == 0 ? "is no HDF5 file" : "so copy it anew")))
        << i;
  }
}

// Most flips hit numbers, where any value is possible; none may do more than be refused. So that one that
// does is counted, and the others still tried, every file is read by a process of its own.
TEST_F(DamagedFile, FlippedBytesDoNoHarm) {
  std::ifstream file(path_, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(file), {}};
  std::mt19937_64 random(7);
  int n_refused = 0, n_died = 0;
  constexpr int kRounds = 100;
  for (int round = 0; round < kRounds; ++round) {
    std::string bad = good;
    // Half of them near the start, where the metadata is densest.
    const std::size_t range = round % 2 == 0 ? bad.size() : std::min<std::size_t>(bad.size(), 20000);
    for (int i = 0; i <= round % 4; ++i) bad[random() % range] = static_cast<char>(random());
    std::filesystem::remove(path_);  // some file systems wait for the disk when a file is replaced in place
    std::ofstream(path_, std::ios::binary).write(bad.data(), static_cast<std::streamsize>(bad.size()));
    const pid_t child = fork();
    if (child == 0) {
      try {
        _exit(message().empty() ? 0 : 1);
      } catch (...) {
        _exit(2);
      }
    }
    int status = 0;
    waitpid(child, &status, 0);
    n_refused += WIFEXITED(status) && WEXITSTATUS(status) == 1;
    n_died += !WIFEXITED(status);
    ASSERT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) > 1)
        << "round " << round << " let something else out";
  }
  EXPECT_GT(n_refused, 5);
  EXPECT_EQ(n_died, 0);
}

}  // namespace

}  // namespace keyscope::recording
