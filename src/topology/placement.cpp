#include "topology/placement.h"

#include <pthread.h>

#include <cstring>

#include "topology/host.h"

#ifdef TBCCL_HAVE_HWLOC
#include <hwloc.h>
#endif
#ifdef __APPLE__
#include <pthread/qos.h>
#endif

namespace tbccl::topology {
namespace {

#ifdef TBCCL_HAVE_HWLOC
// Loading the topology costs milliseconds, so it is done once; it is never changed afterwards,
// and hwloc allows concurrent readers.
hwloc_topology_t load_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return nullptr;
  if (hwloc_topology_load(topology) != 0) {
    hwloc_topology_destroy(topology);
    return nullptr;
  }
  return topology;
}

hwloc_topology_t machine() {
  static const hwloc_topology_t topology = load_topology();
  return topology;
}

// The core for worker `index`: the index-th of those that this process may use, counted from
// the last one, because interrupts and other programs tend to sit on the first.
hwloc_obj_t core_of(hwloc_topology_t topology, int index, int count) {
  hwloc_const_cpuset_t allowed = hwloc_topology_get_allowed_cpuset(topology);
  hwloc_cpuset_t mine = hwloc_bitmap_alloc();
  if (mine == nullptr) return nullptr;
  if (hwloc_get_cpubind(topology, mine, HWLOC_CPUBIND_PROCESS) != 0)
    hwloc_bitmap_copy(mine, allowed);
  const int cores = hwloc_get_nbobjs_inside_cpuset_by_type(topology, mine, HWLOC_OBJ_CORE);
  hwloc_obj_t core = nullptr;
  if (index >= 0 && cores > count && index < count) {
    core = hwloc_get_obj_inside_cpuset_by_type(topology, mine, HWLOC_OBJ_CORE,
                                               static_cast<unsigned>(cores - 1 - index));
  }
  hwloc_bitmap_free(mine);
  return core;
}
#endif

}  // namespace

void place_worker(int index, int count) {
#ifdef __APPLE__
  pthread_set_qos_class_self_np(QOS_CLASS_USER_INTERACTIVE, 0);
#endif
#ifdef TBCCL_HAVE_HWLOC
  // Binding workers where callers also need a core would make the two fight for it.
  if (usable_cores() <= count) return;
  const hwloc_topology_t topology = machine();
  if (topology == nullptr) return;
  const hwloc_obj_t core = core_of(topology, index, count);
  if (core != nullptr) hwloc_set_cpubind(topology, core->cpuset, HWLOC_CPUBIND_THREAD);
#else
  (void)index;
  (void)count;
#endif
}

void name_thread(const char* name) {
  char text[16] = {};
  std::strncpy(text, name, sizeof text - 1);
#ifdef __APPLE__
  pthread_setname_np(text);
#else
  pthread_setname_np(pthread_self(), text);
#endif
}

}  // namespace tbccl::topology
