#include "bootstrap/post.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "base/clock.h"
#include "base/formatted.h"
#include "bootstrap/unique_id.h"

namespace tbccl::bootstrap {
namespace {

Status failed(const char* what, const std::string& path) {
  return {tbcclSystemError,
          formatted("{} {}: {}; set TMPDIR to a folder of yours, or TBCCL_RENDEZVOUS to host:port",
                    what, path, std::generic_category().message(errno))};
}

// True if the file is there, ours, and its writer lives.
bool read_once(const std::string& path, tbcclUniqueId* id) {
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return false;
  struct stat about {};
  const bool ours = fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid();
  // A shared lock that is given means that no writer holds the file.
  const bool alive = ours && flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  const bool whole = alive && pread(file, id->internal, sizeof id->internal, 0) ==
                                  static_cast<ssize_t>(sizeof id->internal);
  close(file);
  return whole;
}

}  // namespace

Status Post::path(const char* temporary, const std::string& name, std::string* path) {
  const bool given = temporary != nullptr && *temporary != '\0';
  const std::string folder = formatted("{}/tbccl-{}", given ? temporary : "/tmp", geteuid());
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return failed("making", folder);
  struct stat about {};
  if (lstat(folder.c_str(), &about) != 0) return failed("looking at", folder);
  if (!S_ISDIR(about.st_mode) || about.st_uid != geteuid() || (about.st_mode & 077) != 0) {
    return {tbcclSystemError,
            formatted("{} is not a folder that this user alone may enter; remove it, or set "
                      "TMPDIR to a folder of yours",
                      folder)};
  }
  *path = formatted("{}/{:016x}", folder, host_hash(name));
  return {};
}

Status Post::write(const std::string& path, const tbcclUniqueId& id, std::unique_ptr<Post>* post) {
  // Locked and whole before it has its name, so that nobody sees less.
  const std::string draft = formatted("{}.{}", path, getpid());
  unlink(draft.c_str());
  const int file = open(draft.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return failed("making", draft);
  if (flock(file, LOCK_EX | LOCK_NB) != 0 ||
      ::write(file, id.internal, sizeof id.internal) != static_cast<ssize_t>(sizeof id.internal) ||
      rename(draft.c_str(), path.c_str()) != 0) {
    const Status status = failed("writing", draft);
    unlink(draft.c_str());
    close(file);
    return status;
  }
  post->reset(new Post(path, file));
  return {};
}

Status Post::read(const std::string& path, uint64_t deadline_ns, tbcclUniqueId* id) {
  while (!read_once(path, id)) {
    if (now_ns() >= deadline_ns) {
      return {tbcclTimeout,
              formatted("rank 0 has not left its address in {}; it did not call "
                        "tbcclCommInitEnv in time, or has another TMPDIR or another /tmp (a "
                        "container?): set TBCCL_RENDEZVOUS to host:port there",
                        path)};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return {};
}

Post::~Post() {
  unlink(path_.c_str());
  close(file_);
}

}  // namespace tbccl::bootstrap
