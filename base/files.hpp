#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <istream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace keyscope {

// Checks, before long work, that a file can be made at `path` later on, and gives its place: `path` itself,
// or what it links to, so that replacing a link's target leaves the link.
//   replace: whether an existing file may be replaced
//   throws FileError where it exists and may not be replaced, is no regular file (a folder, a device, a
//   pipe), or its folder does not exist
std::filesystem::path output_path(const std::filesystem::path& path, bool replace);

// `path` from the root, without `.` and `..`; `path` itself where the working folder is gone.
std::filesystem::path full_path(const std::filesystem::path& path);

// Where a path leads, whether it is there or not: links are followed as far as they are there, so that all
// paths of one file have one place.
std::filesystem::path place_of(const std::filesystem::path& path);

// The folder that holds `path`; "." where it names none.
std::filesystem::path folder_of(const std::filesystem::path& path);

// What a file beside `path` is called until it may have that name: as no other process and no recording's
// `.part` is. What killed processes left so is removed when a process first asks for such a name in the
// folder: at once where they were of this machine, after a day where they were another's.
std::filesystem::path own_part(const std::filesystem::path& path);

// A file that appears under its name when it is complete, and not before: until then it has its own_part's.
class AtomicFile {
 public:
  //   throws FileError as output_path does
  AtomicFile(const std::filesystem::path& path, bool replace);
  ~AtomicFile();  // what was not committed is removed
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& part() const { return part_; }

  // Gives the written file its name, once its bytes are on the disk.
  //   throws FileError if that fails, or if `replace` was not given and a file has appeared meanwhile
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path part_;
  bool replace_;
  bool committed_ = false;
};

// The project's assets: where they were built from, or beside an executable that was moved with its checkout.
//   throws FileError where they are in neither place
std::filesystem::path assets_folder();

// The path itself where no such file exists, else the first free one of run-2.h5, run-3.h5 …
std::filesystem::path free_name(const std::filesystem::path& path);

// Paths that begin with what was typed: of folders alone, with a slash at the end, or of files as well. Six
// at most, none once it names a file.
std::vector<std::string> suggested_paths(const std::string& typed, bool folders_only);

// Writes bytes as a whole file by way of AtomicFile.
void write_file(const std::filesystem::path& path, std::string_view bytes, bool replace);

// A file descriptor that closes itself; its id is negative where the file could not be opened, and errno says
// why.
class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags);
  explicit Descriptor(int id) : id_(id) {}  // an open one, that is closed by this from now on
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int id() const { return id_; }

 private:
  int id_;
};

// A file's bytes, mapped for reading only: none of them is read before it is touched. Where one that is
// touched is gone, since the file was cut meanwhile, the process ends with a sentence and status 1.
class MappedFile {
 public:
  //   throws FileError where it cannot be opened or mapped; what is no regular file has no bytes
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// Throws FileError: "WHERE: cannot ACTION: " and the system's words for the error.
[[noreturn]] void fail_to(std::string_view action, const std::string& where, int error);

// Waits until the data of an open file, of a file, or the entries of a folder lie on the disk.
//   where: the file's name, for messages
//   throws FileError
void sync_data(int descriptor, const std::string& where);
void sync_path(const std::filesystem::path& file_or_folder);

// Writes all bytes to an open file, however often it takes. The first returns what went wrong, as errno says
// it; 0: nothing.
//   where: the file's name, for messages
//   throws FileError
int try_write_all(int descriptor, std::string_view bytes);
void write_all(int descriptor, std::string_view bytes, const std::string& where);

// Whether this process now holds a file's lock, which goes with the descriptor. Some file systems of clusters
// (NFS, Lustre) have no locks: who is told so works on without. Where it is not held, errno says why.
enum class FileLock { kHeld, kBusy, kNone };
FileLock try_lock(int descriptor);

// Whether what is open is what has that name by now.
bool same_file(int descriptor, const std::filesystem::path& path);

// A file opened to be read.
//   expected: what it should be, for the message: "a text file"
//   throws FileError where it is a folder or cannot be opened
std::ifstream open_file(const std::filesystem::path& path, std::string_view expected);

//   throws FileError where reading a file of that name has failed before its end
void require_read(const std::istream& stream, const std::string& name);

// All that is left of a stream. A disk that fails midway (EIO) would pass for an end where characters are
// taken one after another.
//   throws FileError naming the file where it cannot be read to its end
std::string read_to_end(std::istream& stream, const std::string& name);

// All bytes of a file.
//   throws FileError where it cannot be read
std::string read_file(const std::filesystem::path& path);

// The first bytes of a file.
//   throws FileError where it has fewer
std::string read_file(const std::filesystem::path& path, std::size_t n_bytes);

// Without the byte order mark that some editors put in front of UTF-8; it is no part of the text.
std::string_view without_byte_order_mark(std::string_view text);

// A whole file of text, without a byte order mark.
//   throws FileError where it is a folder, cannot be read or is not UTF-8
std::string read_text_file(const std::filesystem::path& path);

// A file's name or a text of the command line that results name or hold: they are JSON, which is UTF-8.
//   throws UsageError naming the option where it is not
void check_utf8(std::string_view value, std::string_view option);

// A text file, or stdin for "-", with the name that error messages give it.
class TextInput {
 public:
  //   throws FileError where the file cannot be opened
  explicit TextInput(const std::string& path);

  const std::string& name() const { return name_; }
  std::istream& stream() { return file_.is_open() ? file_ : standard_input(); }

  //   throws FileError where it cannot be read to its end, or is no UTF-8
  std::string read_all();
  void check();  // after reading: that nothing was lost

 private:
  static std::istream& standard_input();

  std::string name_ = "standard input";
  std::ifstream file_;
};

// Text that does not mean what it was written as would be read as something else.
//   throws FileError naming the place of the first byte that is no UTF-8
void require_utf8(const std::string& text, const std::string& name);

}  // namespace keyscope
