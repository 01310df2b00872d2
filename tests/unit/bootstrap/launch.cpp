// What launchers' variables say, with made environments.
#include "bootstrap/launch.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "base/clock.h"
#include "bootstrap/nodelist.h"
#include "bootstrap/pmi.h"
#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::bootstrap;

namespace {

using Variables = std::map<std::string, std::string>;

Lookup among(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

Status read(const Variables& variables, Launch* launch, const Settings& settings = {}) {
  return read_launch(among(variables), settings, launch);
}

// InvalidArgument whose text has this in it.
void refused(const Variables& variables, const std::string& text, const Settings& settings = {}) {
  Launch launch;
  const Status status = read(variables, &launch, settings);
  INFO(status.text());
  REQUIRE(status.code() == tbcclInvalidArgument);
  REQUIRE(status.text().find(text) != std::string::npos);
}

const Variables kTorchrun = {
    {"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                            {"OMPI_COMM_WORLD_SIZE", "3"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                            {"PMIX_NAMESPACE", "4711"}};
const Variables kMpich = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_FD", "9"}};
const Variables kSlurm = {{"SLURM_PROCID", "3"},
                          {"SLURM_NTASKS", "4"},
                          {"SLURM_JOB_ID", "12"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_JOB_NODELIST", "n[08-11],m"}};

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}
Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

std::string port_of(const std::string& address) { return address.substr(address.rfind(':') + 1); }

}  // namespace

TEST_CASE("Without variables a process is alone") {
  Launch launch;
  REQUIRE(read({}, &launch).ok());
  REQUIRE(launch.size == 1);
  Settings none;
  none.launcher = "none";
  REQUIRE(read(kTorchrun, &launch, none).ok());
  REQUIRE(launch.size == 1);
  Settings wrong;
  wrong.launcher = "torch";
  refused({}, "TBCCL_LAUNCHER=torch", wrong);
}

TEST_CASE("TBCCL_RANK comes before every launcher, TBCCL_RENDEZVOUS is used under each") {
  Settings own;
  own.rank = 0;
  own.size = 2;
  own.rendezvous = "h:1";
  Launch launch;
  REQUIRE(read(kOpenMpi, &launch, own).ok());
  REQUIRE(launch.rank == 0);
  Settings place;
  place.rendezvous = "h:1";
  for (const Variables& variables : {kTorchrun, kOpenMpi, kMpich, kSlurm}) {
    Launch under;
    REQUIRE(read(variables, &under, place).ok());
    REQUIRE(under.where.address == "h:1");
    REQUIRE(under.post.empty());
    REQUIRE_FALSE(under.pmi);
  }
  own.size = -1;
  REQUIRE(read({}, &launch, own).code() == tbcclInvalidUsage);
}

TEST_CASE("torchrun: its host, never its port; a file where all ranks are on one host") {
  Launch launch;
  REQUIRE(read(kTorchrun, &launch).ok());
  REQUIRE(launch.launcher == "torchrun");
  REQUIRE(launch.rank == 1);
  REQUIRE(launch.size == 4);
  REQUIRE(launch.where.address.substr(0, 6) == "node7:");
  REQUIRE(port_of(launch.where.address) != "29500");
  Settings narrow;
  narrow.port_range = "29500-29501";
  Launch other;
  REQUIRE(read(kTorchrun, &other, narrow).ok());
  REQUIRE(port_of(other.where.address) == "29501");
  narrow.port_range = "29500-29500";
  refused(kTorchrun, "TBCCL_PORT_RANGE", narrow);
  Launch v6;
  REQUIRE(read(with(kTorchrun, "MASTER_ADDR", "fe80::1"), &v6).ok());
  REQUIRE(v6.where.address.substr(0, 10) == "[fe80::1]:");
  Launch local;
  REQUIRE(read(with(kTorchrun, "LOCAL_WORLD_SIZE", "4"), &local).ok());
  REQUIRE(local.where.address.empty());
  REQUIRE_FALSE(local.post.empty());
  refused(without(kTorchrun, "MASTER_ADDR"), "MASTER_ADDR");
  refused(without(kTorchrun, "MASTER_PORT"), "MASTER_PORT");
  refused(without(kTorchrun, "RANK"), "RANK");
  refused(with(kTorchrun, "RANK", "4"), "RANK=4");
  refused(with(kTorchrun, "WORLD_SIZE", "four"), "WORLD_SIZE=four");
  refused(with(kTorchrun, "LOCAL_WORLD_SIZE", "5"), "LOCAL_WORLD_SIZE=5");
}

TEST_CASE("Open MPI: a file on one host, the command to type on several") {
  Launch launch;
  REQUIRE(read(kOpenMpi, &launch).ok());
  REQUIRE(launch.launcher == "openmpi");
  REQUIRE(launch.post == "openmpi 4711");
  refused(with(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "2"), "mpirun -n 3 -x TBCCL_RENDEZVOUS");
  refused(without(kOpenMpi, "PMIX_NAMESPACE"), "PMIX_NAMESPACE");
  refused(with(kOpenMpi, "OMPI_COMM_WORLD_RANK", "-1"), "OMPI_COMM_WORLD_RANK=-1");
}

TEST_CASE("MPICH and Slurm; the inner launcher is chosen, TBCCL_LAUNCHER overrides") {
  Launch launch;
  REQUIRE(read(kMpich, &launch).ok());
  REQUIRE(launch.pmi);
  refused(without(kMpich, "PMI_FD"), "PMI_FD");
  Launch slurm;
  REQUIRE(read(kSlurm, &slurm).ok());
  REQUIRE(slurm.where.address.substr(0, 4) == "n08:");
  refused(with(kSlurm, "SLURM_JOB_NODELIST", "n[1-"), "SLURM_JOB_NODELIST=n[1-");
  refused(without(kSlurm, "SLURM_JOB_ID"), "SLURM_JOBID");
  Variables both = kSlurm;
  both.insert(kOpenMpi.begin(), kOpenMpi.end());
  Launch inner;
  REQUIRE(read(both, &inner).ok());
  REQUIRE(inner.launcher == "openmpi");
  Settings chosen;
  chosen.launcher = "slurm";
  Launch outer;
  REQUIRE(read(both, &outer, chosen).ok());
  REQUIRE(outer.rank == 3);
  Launch script;  // a batch script's own variables are no step
  REQUIRE(read(without(kSlurm, "SLURM_STEP_ID"), &script).ok());
  REQUIRE(script.size == 1);
}

TEST_CASE("mlx.launch: size and place from its files") {
  char name[] = "/tmp/tbccl-unit-XXXXXX";
  const int file = mkstemp(name);
  REQUIRE(file >= 0);
  close(file);
  const auto content = [&](const char* text) { std::ofstream(name) << text; };
  const Variables ring = {{"MLX_RANK", "1"}, {"MLX_HOSTFILE", name}};
  content(R"([["10.0.0.1:5000","10.0.1.1:5001"],["10.0.0.2:5000"]])");
  Launch launch;
  REQUIRE(read(ring, &launch).ok());
  REQUIRE(launch.size == 2);
  REQUIRE(launch.where.address.substr(0, 9) == "10.0.0.1:");
  Launch jaccl;
  REQUIRE(read({{"MLX_RANK", "0"},
                {"MLX_IBV_DEVICES", name},
                {"MLX_JACCL_COORDINATOR", "10.9.0.1:7000"}},
               &jaccl)
              .ok());
  REQUIRE(jaccl.where.address.substr(0, 9) == "10.9.0.1:");
  refused(with(ring, "MLX_RANK", "2"), "MLX_RANK=2");
  refused(without(ring, "MLX_HOSTFILE"), "MLX_HOSTFILE");
  for (const char* bad : {"", "{}", "[]", "[1,2]", "[[],[]]", "[[\"nothing\"],[\"x\"]]", "[[["}) {
    content(bad);
    refused(ring, "MLX_HOSTFILE");
  }
  unlink(name);
}

TEST_CASE("Lists of hosts: the first, or refused") {
  std::string host;
  const std::pair<const char*, const char*> good[] = {{"n1", "n1"},
                                                      {"n[1-4]", "n1"},
                                                      {"n[007,9-12],m[1]", "n007"},
                                                      {"a,b,c", "a"},
                                                      {"r[1-2]n[3-4]", "r1n3"},
                                                      {"a-b.c_d", "a-b.c_d"},
                                                      {"n[1-2]-ib,x", "n1-ib"}};
  for (const auto& [list, first] : good) {
    REQUIRE(first_host(list, &host));
    REQUIRE(host == first);
  }
  for (const char* bad : {"", ",", "a,", ",a", "n[", "n[]", "n[1", "n[1-", "n[1-]", "n[4-1]",
                          "n[1,]", "n]", "n[a]", "n[1;2]", "a b", "-oops", "n[12345678901]"}) {
    INFO(bad);
    REQUIRE_FALSE(first_host(bad, &host));
  }
  // Anything: no crash, and whatever is accepted is a name.
  uint32_t state = 1;
  for (int round = 0; round < 20'000; ++round) {
    std::string list;
    for (int i = 0; i < 12; ++i) {
      state = state * 1664525u + 1013904223u;
      list.push_back("n1[]-,x0. "[(state >> 16) % 10]);
    }
    if (first_host(list, &host)) REQUIRE(host.find_first_of("[], ") == std::string::npos);
    PmiWords words;
    parse_pmi(list + "=cmd=", &words);
  }
}

TEST_CASE("Lines of PMI-1") {
  PmiWords words;
  REQUIRE(parse_pmi("cmd=maxes kvsname_max=256 vallen_max=1024 ", &words));
  REQUIRE(words["vallen_max"] == "1024");
  REQUIRE(parse_pmi("cmd=get_result rc=-1 msg=key a not found value=unknown", &words));
  REQUIRE(words["msg"] == "key a not found");
  REQUIRE(words["value"] == "unknown");
  for (const char* bad : {"", "cmd", "=x", "rc=0", "a b=c"}) REQUIRE_FALSE(parse_pmi(bad, &words));
}

TEST_CASE("An id left by a living rank 0 is read, one left by a dead one is not") {
  char folder[] = "/tmp/tbccl-unit-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  std::string path;
  REQUIRE(Post::path(folder, "job", &path).ok());
  tbcclUniqueId id{}, got{};
  id.internal[5] = 42;
  REQUIRE(Post::read(path, now_ns(), &got).code() == tbcclTimeout);
  {
    std::unique_ptr<Post> post;
    REQUIRE(Post::write(path, id, &post).ok());
    REQUIRE(Post::read(path, now_ns(), &got).ok());
    REQUIRE(got.internal[5] == 42);
  }
  REQUIRE(access(path.c_str(), F_OK) != 0);
  std::ofstream(path) << std::string(128, 'x');  // nobody holds it
  REQUIRE(Post::read(path, now_ns(), &got).code() == tbcclTimeout);
  unlink(path.c_str());
  const std::string inner = path.substr(0, path.rfind('/'));
  REQUIRE(chmod(inner.c_str(), 0777) == 0);
  REQUIRE(Post::path(folder, "job", &path).code() == tbcclSystemError);
  rmdir(inner.c_str());
  rmdir(folder);
}
