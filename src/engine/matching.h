// Which message meets which receive: see "Point-to-point" in README.md. Belongs to a channel; the
// holder of the token only.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "link/links.h"

namespace tbccl::engine {

struct Request;

// A message that was announced, or a send to oneself, and that no receive has met.
struct Arrival {
  int peer = 0;  // rank of the links
  uint64_t number = 0;
  Request* self = nullptr;  // the sending request, if this is a message to oneself
};

// A receive that got its message.
struct Match {
  Request* receive = nullptr;
  int peer = 0;
  uint64_t number = 0;
  Request* self = nullptr;
};

class Matching {
 public:
  explicit Matching(int self) : self_(self) {}  // this rank, among the links

  uint64_t next_send(int peer, int tag);
  // `peer` is TBCCL_ANY_SOURCE or a rank of the links. Appends what can be decided now.
  void receive(Request* request, int peer, int tag, std::vector<Match>* matches);
  void announced(int tag, const Arrival& arrival, std::vector<Match>* matches);
  // The request completes with an error: nothing may be matched to it any more.
  void forget(Request* request, int tag);

 private:
  struct Pending {
    Request* request = nullptr;
    int peer = 0;  // or TBCCL_ANY_SOURCE
  };
  struct Numbered {
    uint64_t number = 0;
    Request* request = nullptr;
  };
  // A list that keeps its nodes: in steady state nothing is allocated.
  template <class T>
  struct Keeping {
    std::list<T> items, spare;
    void push_back(const T& item) {
      if (spare.empty()) spare.emplace_back();
      items.splice(items.end(), spare, spare.begin());
      items.back() = item;
    }
    void erase(typename std::list<T>::iterator at) { spare.splice(spare.begin(), items, at); }
  };
  struct Tag {
    Keeping<Pending> pending;  // in the order posted; the first one is from any source
    Keeping<Arrival> arrivals;
    Keeping<Numbered> awaiting_self;                 // numbered receives from this rank
    std::unordered_map<int, uint64_t> next_receive;  // number of the next message, by peer
    std::unordered_map<int, uint64_t> next_send;
  };

  bool match_one(Tag& tag, std::vector<Match>* matches);
  // A receive whose source is known takes the next number, announced or not.
  void assign(Tag& tag, Request* request, int peer, std::vector<Match>* matches);

  const int self_;
  std::unordered_map<int, Tag> tags_;
};

}  // namespace tbccl::engine
