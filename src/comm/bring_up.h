// How a communicator comes to life:
//
//   1. meet        all ranks find each other                              (bootstrap/)
//   2. introduce   hosts, cores and settings are exchanged; rank 0's cabling, algorithm choice and
//                  costs (a tuning file's, a tuner's choices) become everybody's basis,
//                  differences are reported
//   3. listen      one listener per address that a trunk ends at; handles are exchanged
//   4. connect     trunks per pair: shared memory within a host without cables; else one per
//                  cable, and one over the rendezvous network, which is a fallback where the pair
//                  has cables; the lower rank connects
//   5. agree       everybody is connected, or everybody gives up; if all share a board it is used
//
// Every step has the connect time-out's deadline; every failure names the ranks it is about.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "comm/communicator.h"
#include "topology/cabling.h"

namespace tbccl::comm {

class BringUp {
 public:
  BringUp(Communicator& communicator, const bootstrap::MeetingPoint& where);
  Status run();

 private:
  Status meet();
  Status introduce();
  Status tune();
  Status make_lane();
  Status listen();
  Status connect();
  Status agree();
  Status add_trunks(link::Links& links, int peer);
  Status add_shared_trunk(link::Links& links, int peer);
  // By what is allowed; and whether both ends can.
  bool wants_shared(int a, int b) const;
  bool shares(int a, int b) const;
  Status check_transports(bool (BringUp::*share)(int, int) const) const;
  bool every_pair(bool (BringUp::*holds)(int, int) const) const;
  Status listen_shared();
  Status gather(const std::string& mine, std::vector<std::string>* all);
  Status early_failure();

  Communicator& c_;
  Family& f_;
  const bootstrap::MeetingPoint& where_;
  const uint64_t deadline_;
  std::string cabling_text_;                 // rank 0's file
  std::string tuning_text_;                  // likewise
  bool has_tuner_ = false;                   // rank 0 has
  std::vector<topology::CableSpec> cables_;  // of the whole job
  std::vector<int> uncabled_;                // peers without a cable, where there are cables
  std::vector<std::string> hosts_;           // identity of each rank's host
  std::vector<bool> tcp_, shm_;              // what each rank allows
  std::vector<uint64_t> users_;              // whose process each rank is
  bool on_board_ = false;                    // this rank shares one with all others
  struct Listener {
    std::string address;
    std::vector<std::byte> handle;
  };
  std::vector<Listener> mine_;                    // [0] is the rendezvous network's
  std::vector<std::vector<Listener>> listeners_;  // of each rank
  // Where each rank can be reached by shared memory; empty: nowhere.
  std::vector<std::vector<std::byte>> shared_;
};

}  // namespace tbccl::comm
