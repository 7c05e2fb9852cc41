#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/files.hpp"

namespace keyscope {

// A file that is whole and on the disk, and the name that it is to get.
struct NewFile {
  std::filesystem::path part;  // where it lies, in the folder of `path`
  std::filesystem::path path;
  bool replace = false;                   // whether `path` may be there
  bool keeps_part = false;                // whether a file that gets no name stays where it lies
  std::shared_ptr<Descriptor> lock = {};  // of the file, kept until it has its name; null: none
};

// Gives files their names, in this order, and waits until the names are on the disk: all or none. Where one
// cannot be given, those before it are taken back and what they replaced is there again (but where the file
// system cannot exchange names, as NFS cannot). A kill leaves those that were given: what points to others
// comes last.
//   throws FileError where a name cannot be given, or is there and may not be replaced. Where one cannot be
//   taken back either, it says what stays where, and the part that holds an older file becomes one that is
//   kept
void give_names(std::span<NewFile> files);

// While it lives, files that this thread completes (AtomicFile, recordings) get no names before `commit`,
// which gives all of them theirs. For the outputs of one command, which are all there or none is.
class OutputsTogether {
 public:
  OutputsTogether();
  ~OutputsTogether();  // what was not committed gets no name
  OutputsTogether(const OutputsTogether&) = delete;
  OutputsTogether& operator=(const OutputsTogether&) = delete;

  //   throws FileError as give_names does
  void commit();

  // Leaves the files to the one that this stands in, whose `commit` gives them their names; where there is
  // none, commits.
  //   throws FileError as complete_file does
  void leave_to_outer();

  // Where a file that waits for its name lies by now; empty: none of that name waits.
  std::filesystem::path part_of(const std::filesystem::path& path) const;

 private:
  friend void complete_file(NewFile& file);
  std::vector<NewFile> files_;
  OutputsTogether* outer_;
};

// Gives a file its name by itself, or has it wait for the OutputsTogether of this thread. Its bytes are on
// the disk by then.
//   throws FileError as give_names does, and where one that waits has the same name, or lies where this one
//   does
void complete_file(NewFile& file);

}  // namespace keyscope
