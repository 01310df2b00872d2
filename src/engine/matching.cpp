#include "engine/matching.h"

#include <algorithm>

#include "tbccl/tbccl.h"

namespace tbccl::engine {

uint64_t Matching::next_send(int peer, int tag) { return tags_[tag].next_send[peer]++; }

void Matching::receive(Request* request, int peer, int tag, std::vector<Match>* matches) {
  Tag& t = tags_[tag];
  if (peer != TBCCL_ANY_SOURCE && t.pending.items.empty()) {
    assign(t, request, peer, matches);
    return;
  }
  t.pending.push_back({request, peer});
  while (match_one(t, matches)) {
  }
}

void Matching::announced(int tag, const Arrival& arrival, std::vector<Match>* matches) {
  Tag& t = tags_[tag];
  if (arrival.self != nullptr) {
    auto& waiters = t.awaiting_self.items;
    const auto waiting = std::find_if(waiters.begin(), waiters.end(), [&](const Numbered& w) {
      return w.number == arrival.number;
    });
    if (waiting != waiters.end()) {
      matches->push_back({waiting->request, arrival.peer, arrival.number, arrival.self});
      t.awaiting_self.erase(waiting);
      return;
    }
  }
  t.arrivals.push_back(arrival);
  while (match_one(t, matches)) {
  }
}

void Matching::assign(Tag& tag, Request* request, int peer, std::vector<Match>* matches) {
  const uint64_t number = tag.next_receive[peer]++;
  Match match{request, peer, number, nullptr};
  auto& arrivals = tag.arrivals.items;
  const auto at = std::find_if(arrivals.begin(), arrivals.end(), [&](const Arrival& a) {
    return a.peer == peer && a.number == number;
  });
  if (at != arrivals.end()) {
    match.self = at->self;
    tag.arrivals.erase(at);
  }
  if (peer == self_ && match.self == nullptr) {
    tag.awaiting_self.push_back({number, request});
    return;
  }
  matches->push_back(match);
}

// The first pending receive is from any source: it takes the first message, in the order of
// arrival, that is the next one of its source. What then stands first with a known source is
// decided too.
bool Matching::match_one(Tag& tag, std::vector<Match>* matches) {
  if (tag.pending.items.empty()) return false;
  const Pending first = tag.pending.items.front();
  int peer = first.peer;
  if (peer == TBCCL_ANY_SOURCE) {
    const auto& arrivals = tag.arrivals.items;
    const auto at = std::find_if(arrivals.begin(), arrivals.end(), [&](const Arrival& a) {
      const auto next = tag.next_receive.find(a.peer);
      return a.number == (next == tag.next_receive.end() ? 0 : next->second);
    });
    if (at == arrivals.end()) return false;
    peer = at->peer;
  }
  tag.pending.erase(tag.pending.items.begin());
  assign(tag, first.request, peer, matches);
  return true;
}

void Matching::forget(Request* request, int tag) {
  const auto at = tags_.find(tag);
  if (at == tags_.end()) return;
  at->second.pending.items.remove_if([&](const Pending& p) { return p.request == request; });
  at->second.arrivals.items.remove_if([&](const Arrival& a) { return a.self == request; });
  at->second.awaiting_self.items.remove_if([&](const Numbered& w) { return w.request == request; });
}

}  // namespace tbccl::engine
