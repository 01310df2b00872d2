// The unique id of ranks on one host, left in a file that only this user can have written.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "tbccl/tbccl.h"

namespace tbccl::bootstrap {

// Rank 0's end. The file is locked while this exists: what a killed job left behind has no lock,
// and is not read. The destructor removes it.
class Post {
 public:
  // <temporary or /tmp>/tbccl-<user>/<hash of name>; makes the folder, for this user alone, and
  // refuses one that others own or may enter.
  static Status path(const char* temporary, const std::string& name, std::string* path);
  static Status write(const std::string& path, const tbcclUniqueId& id,
                      std::unique_ptr<Post>* post);
  // Waits for a file that is locked; Timeout at the deadline.
  static Status read(const std::string& path, uint64_t deadline_ns, tbcclUniqueId* id);

  ~Post();
  Post(const Post&) = delete;
  Post& operator=(const Post&) = delete;

 private:
  Post(std::string path, int file) : path_(std::move(path)), file_(file) {}
  std::string path_;
  int file_;
};

}  // namespace tbccl::bootstrap
