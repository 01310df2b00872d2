// The listener among port scanners; threads and descriptors after the end; fork.
#include <sys/wait.h>

#include <fstream>

#include "bootstrap/unique_id.h"
#include "bootstrap/wire.h"
#include "unit/bootstrap/ranks.h"
#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::bootstrap;
using namespace tbccl::bootstrap::test;
using Kind = MeetingPoint::Kind;

namespace {

// A connection to the loopback port, that has said `words`; closed with the object.
class Stranger {
 public:
  Stranger(uint16_t port, const std::string& words) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in a = {};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&a), sizeof a) == 0;
    if (connected_ && !words.empty())
      (void)!::send(socket_, words.data(), words.size(), MSG_NOSIGNAL);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  ~Stranger() { close(socket_); }
  bool connected() const { return connected_; }
  // What came until the other end closed.
  std::string hear() {
    std::string all;
    char part[256];
    for (ssize_t n; (n = recv(socket_, part, sizeof part, 0)) > 0;)
      all.append(part, static_cast<size_t>(n));
    return all;
  }

 private:
  int socket_;
  bool connected_ = false;
};

std::vector<std::string> rude_words() {
  std::string wrong_version = frame(Type::kOpening, Opening().encode());
  wrong_version[4] = 99;
  std::string endless = frame(Type::kOpening, "");
  endless[8] = endless[9] = endless[10] = endless[11] = '\xff';
  Sealed hello;
  hello.body = Hello{}.encode();
  return {"",
          "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
          std::string(100000, '\0'),
          "tbcc",
          endless,
          wrong_version,
          frame(Type::kUse, ""),
          frame(Type::kTable, "x"),
          frame(Type::kOpening, "short"),
          frame(Type::kOpening, Opening().encode()),
          frame(Type::kOpening, Opening().encode()) + frame(Type::kHello, hello.encode())};
}

// The value of `f` once it is `wanted`, or after ten seconds.
int settles(const std::function<int()>& f, int wanted) {
  for (int i = 0; i < 1000 && f() != wanted; ++i) usleep(10'000);
  return f();
}

// Threads of this process that have the control thread's name.
int control_threads() {
  int found = 0;
  DIR* tasks = opendir("/proc/self/task");
  while (const dirent* task = tasks == nullptr ? nullptr : readdir(tasks)) {
    std::ifstream file("/proc/self/task/" + std::string(task->d_name) + "/comm");
    std::string name;
    std::getline(file, name);
    found += name == "tbccl-control" ? 1 : 0;
  }
  if (tasks != nullptr) closedir(tasks);
  return found;
}

int threads() { return entries("/proc/self/task"); }
int descriptors() { return entries("/proc/self/fd"); }

}  // namespace

TEST_CASE("strangers neither disturb nor delay the ranks, and hear nothing of the job") {
  Job job;
  job.where.kind = Kind::kUniqueId;
  REQUIRE(make_unique_id(job.settings, &job.where.id).ok());
  IdContent id;
  REQUIRE(decode_id(job.where.id, &id).ok());
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int round = 0; round < 3; ++round) {
    for (const std::string& words : rude_words())
      strangers.push_back(std::make_unique<Stranger>(id.port, words));
  }
  auto ranks = meet(4, job);
  for (const Rank& r : ranks) {
    INFO(r.status.text());
    CHECK(r.status.ok());
  }
  const std::string secret(id.session.begin(), id.session.end());
  for (const auto& s : strangers) {
    CHECK(s->connected());
    CHECK(s->hear().find(secret) == std::string::npos);
  }
}

TEST_CASE("hundreds of silent strangers do not keep the ranks out") {
  Job job;
  job.where.kind = Kind::kUniqueId;
  REQUIRE(make_unique_id(job.settings, &job.where.id).ok());
  IdContent id;
  REQUIRE(decode_id(job.where.id, &id).ok());
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 400; ++i) strangers.push_back(std::make_unique<Stranger>(id.port, ""));
  auto ranks = meet(2, job);
  for (const Rank& r : ranks) {
    INFO(r.status.text());
    CHECK(r.status.ok());
  }
}

TEST_CASE("another version is told so") {
  tbcclUniqueId id;
  REQUIRE(make_unique_id({}, &id).ok());
  IdContent content;
  REQUIRE(decode_id(id, &content).ok());
  std::string opening = frame(Type::kOpening, Opening().encode());
  opening[4] = 99;
  Stranger stranger(content.port, opening);
  const std::string answer = stranger.hear();
  FrameHeader header;
  REQUIRE(answer.size() > kFrameHeaderBytes);
  REQUIRE(parse_header(std::string_view(answer).substr(0, kFrameHeaderBytes), &header));
  CHECK(header.type == Type::kRefused);
  CHECK(answer.find("version 99") != std::string::npos);
  // Ends the root, which would otherwise wait for a minute.
  Job job;
  job.where.kind = Kind::kUniqueId;
  job.where.id = id;
  CHECK(meet(2, job)[0].status.ok());
}

#ifdef __linux__
TEST_CASE("after the last control plane no thread and no descriptor is left") {
  meet_as(Kind::kAddress, 2);                 // whatever is made once a process is made now
  REQUIRE(settles(control_threads, 0) == 0);  // roots of earlier tests have ended
  const int threads_before = threads();
  const int before = descriptors();
  for (int i = 0; i < 3; ++i) {
    for (const Kind kind : {Kind::kAddress, Kind::kUniqueId, Kind::kExchange}) {
      auto ranks = meet_as(kind, 3);
      CHECK(control_threads() >= 1);
      in_parallel(3, [&](int r) {
        if (r != 2)
          (void)ranks[static_cast<size_t>(r)].control->goodbye(in_seconds(i == 0 ? 0.05 : 30));
        else if (i > 0)
          (void)ranks[2].control->goodbye(in_seconds(30));
      });
    }
    Job job;
    job.seconds = 0.3;
    job.absent = {1};
    job.where = at(free_address());
    meet(2, job);
  }
  CHECK(settles(descriptors, before) == before);
  CHECK(settles(control_threads, 0) == 0);
  CHECK(settles(threads, threads_before) == threads_before);
}

TEST_CASE("a root that nobody comes to ends by itself") {
  REQUIRE(settles(control_threads, 0) == 0);
  const int before = descriptors();
  Settings settings;
  settings.connect_timeout_ns = 100'000'000;
  tbcclUniqueId id;
  REQUIRE(make_unique_id(settings, &id).ok());
  CHECK(settles(descriptors, before) == before);
}
#endif

TEST_CASE("a forked child is told, and leaves the parent's connections alone") {
  auto ranks = meet_as(Kind::kUniqueId, 2);
  REQUIRE(ranks[0].status.ok());
  const pid_t child = fork();
  if (child == 0) {
    std::vector<std::string> all;
    tbcclUniqueId id;
    std::unique_ptr<Control> control;
    MeetingPoint where;
    where.kind = Kind::kUniqueId;
    bool right = ranks[0].control->all_gather("x", in_seconds(5), &all).code() == tbcclInvalidUsage;
    right = right && ranks[0].control->goodbye(in_seconds(5)).code() == tbcclInvalidUsage;
    right = right && make_unique_id({}, &id).code() == tbcclInvalidUsage;
    ranks[0].control->announce_failure(1, Status(tbcclAborted, "x"));
    ranks[0].control.reset();
    ranks[1].control.reset();
    _exit(right ? 0 : 1);
  }
  REQUIRE(child > 0);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  std::vector<Status> partings(2);
  in_parallel(2, [&](int r) {
    partings[static_cast<size_t>(r)] =
        ranks[static_cast<size_t>(r)].control->goodbye(in_seconds(30));
  });
  CHECK(partings[0].ok());
  CHECK(partings[1].ok());
  CHECK(ranks[0].events->count("gone", 1) == 0);
}
