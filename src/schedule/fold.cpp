#include "schedule/fold.h"

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>
#include <utility>

namespace tbccl::schedule {

namespace {

constexpr int32_t kSamples = 64;  // of a phase's iterations: first ones, last ones, spread ones
constexpr int kMostRounds = 64;
constexpr size_t kWorthwhile = 4;  // so many ranks a class, on average, or it is no help

uint64_t mix(uint64_t h, uint64_t value) {
  h = (h ^ value) * 0x9e3779b97f4a7c15u;
  return h ^ (h >> 29);
}
uint64_t mix(uint64_t h, double value) { return mix(h, std::bit_cast<uint64_t>(value)); }

// An iteration of `phase` whose tag is `tag` and whose peer is `peer`; -1: none.
int32_t find_iteration(const Phase& phase, int32_t peer, int32_t tag) {
  const auto meets = [&](int32_t i) {
    return i >= 0 && i < phase.repeat && phase.tag.at(i) == tag && phase.peer.at(i) == peer;
  };
  if (phase.repeat == 1) return meets(0) ? 0 : -1;
  const bool by_tag = phase.tag.stride != 0;
  const Affine& a = by_tag ? phase.tag : phase.peer;
  const int64_t wanted = by_tag ? tag : peer;
  if (a.stride == 1 || a.stride == -1) {
    int64_t i = (wanted - a.base - a.start) * a.stride;
    if (a.modulus > 0 && phase.repeat <= a.modulus) i = (i % a.modulus + a.modulus) % a.modulus;
    if (a.modulus == 0 || phase.repeat <= a.modulus)
      return i >= 0 && i < phase.repeat && meets(static_cast<int32_t>(i)) ? static_cast<int32_t>(i)
                                                                          : -1;
  }
  for (int32_t i = 0; i < phase.repeat; i++)
    if (meets(i)) return i;
  return -1;
}

// The step of `peer` that iteration i of `phase` of `rank` meets: phase and iteration, -1: none.
std::pair<int32_t, int32_t> other_end(const Schedule& rank, const Phase& phase, int32_t i,
                                      const Schedule& peer) {
  const int32_t tag = phase.tag.at(i);
  for (size_t number = 0; number < peer.phases.size(); number++) {
    const Phase& q = peer.phases[number];
    if (!is_message(q.kind) || is_receive(q.kind) == is_receive(phase.kind)) continue;
    if (const int32_t j = find_iteration(q, rank.rank, tag); j >= 0)
      return {static_cast<int32_t>(number), j};
  }
  return {-1, -1};
}

std::vector<int32_t> samples(const Phase& phase) {
  std::vector<int32_t> all;
  if (phase.peer.stride == 0) {  // one peer: its ends tell where the phase meets others
    all = {0};
    if (phase.repeat > 1) all.push_back(phase.repeat - 1);
    return all;
  }
  if (phase.repeat <= 3 * kSamples) {
    for (int32_t i = 0; i < phase.repeat; i++) all.push_back(i);
    return all;
  }
  for (int32_t k = 0; k < kSamples; k++) {
    all.push_back(k);
    all.push_back(kSamples +
                  static_cast<int32_t>(int64_t{phase.repeat - 2 * kSamples} * k / kSamples));
    all.push_back(phase.repeat - 1 - k);
  }
  return all;
}

uint64_t shape(const Schedule& s) {
  uint64_t h = mix(s.phases.size(), static_cast<uint64_t>(s.pieces));
  for (const Phase& p : s.phases) {
    h = mix(h, static_cast<uint64_t>(p.kind));
    for (int32_t value : {p.repeat, p.pieces, p.sources, int32_t{p.consumer}})
      h = mix(h, static_cast<uint64_t>(value));
    for (const Dep& d : p.deps) {
      h = mix(h, static_cast<uint64_t>(d.kind) << 32 | static_cast<uint64_t>(d.phase));
      h = mix(h, static_cast<uint64_t>(d.shift));
    }
  }
  return h;
}

class Colouring {
 public:
  Colouring(std::span<const Schedule> all, const Basis& basis)
      : all_(all), basis_(basis), colours_(all.size()), peers_(all.size()) {
    for (size_t r = 0; r < all.size(); r++) colours_[r] = first_colour(all[r], &peers_[r]);
  }

  // False: more classes than are worth it.
  bool refine() {
    size_t classes = count();
    for (int round = 0; round < kMostRounds; round++) {
      if (classes * kWorthwhile > all_.size()) return false;
      next_round();
      const size_t now = count();
      if (now == classes) return true;
      classes = now;
    }
    return false;
  }

  Fold classes() const {
    Fold result;
    std::unordered_map<uint64_t, int32_t> numbers;
    std::map<uint64_t, int32_t> hosts;
    std::vector<std::pair<int32_t, int32_t>> members;  // host number, class
    for (size_t r = 0; r < all_.size(); r++) {
      const auto fresh = static_cast<int32_t>(result.ranks.size());
      const auto at = numbers.try_emplace(colours_[r], fresh);
      if (at.second) {
        result.ranks.push_back(static_cast<int32_t>(r));
        const auto kind = hosts.try_emplace(host_colour(r), static_cast<int32_t>(hosts.size()));
        result.host.push_back(kind.first->second);
        result.together.push_back(0);
      }
      result.class_of.push_back(at.first->second);
    }
    for (size_t c = 0; c < result.ranks.size(); c++) {
      const auto mine = static_cast<size_t>(result.ranks[c]);
      if (mine >= basis_.host.size()) {
        result.together[c] = 1;
        continue;
      }
      for (size_t r = 0; r < basis_.host.size(); r++)
        if (basis_.host[r] == basis_.host[mine] && result.class_of[r] == static_cast<int32_t>(c))
          result.together[c]++;
    }
    return result;
  }

 private:
  size_t count() const {
    std::vector<uint64_t> sorted(colours_);
    std::sort(sorted.begin(), sorted.end());
    return static_cast<size_t>(std::unique(sorted.begin(), sorted.end()) - sorted.begin());
  }

  // What does not change from round to round; and the peers whose colours are looked at.
  uint64_t first_colour(const Schedule& s, std::vector<int32_t>* peers) {
    uint64_t h = shape(s);
    std::unordered_map<int32_t, uint64_t> known;  // peers, in the order of their first message
    for (const Phase& p : s.phases) {
      if (!is_message(p.kind)) continue;
      for (int32_t i : samples(p)) {
        const int32_t peer = p.peer.at(i);
        peers->push_back(peer);
        h = mix(h, known.try_emplace(peer, known.size()).first->second);
        h = mix(h, basis_.rate(s.rank, peer));
        h = mix(h, basis_.alpha(s.rank, peer));
        const auto [phase, iteration] = other_end(s, p, i, all_[static_cast<size_t>(peer)]);
        h = mix(h, static_cast<uint64_t>(phase) << 32 | static_cast<uint32_t>(iteration));
      }
    }
    return h;
  }

  uint64_t host_colour(size_t rank) const {
    if (rank >= basis_.host.size()) return colours_[rank];
    const auto at = sums_.find(basis_.host[rank]);
    return at == sums_.end() ? colours_[rank] : at->second;
  }

  void next_round() {
    sums_.clear();
    for (size_t r = 0; r < basis_.host.size(); r++)
      sums_[basis_.host[r]] += mix(0x517cc1b727220a95u, colours_[r]);
    std::vector<uint64_t> next(colours_.size());
    for (size_t r = 0; r < next.size(); r++) {
      uint64_t h = mix(colours_[r], host_colour(r));
      for (int32_t peer : peers_[r]) h = mix(h, colours_[static_cast<size_t>(peer)]);
      next[r] = h;
    }
    colours_ = std::move(next);
    sums_.clear();
    for (size_t r = 0; r < basis_.host.size(); r++)
      sums_[basis_.host[r]] += mix(0x517cc1b727220a95u, colours_[r]);
  }

  std::span<const Schedule> all_;
  const Basis& basis_;
  std::vector<uint64_t> colours_;
  std::vector<std::vector<int32_t>> peers_;
  std::unordered_map<int32_t, uint64_t> sums_;  // of each host: its ranks' colours
};

// Exact, message by message, for the ranks that stand for their classes.
bool meet(std::span<const Schedule> all, const Fold& fold,
          std::vector<std::vector<Meeting>>* meetings) {
  std::vector<Steps> steps;
  for (int32_t rank : fold.ranks) steps.emplace_back(all[static_cast<size_t>(rank)]);
  meetings->clear();
  for (const Steps& s : steps) {
    auto& mine = meetings->emplace_back(static_cast<size_t>(s.count()));
    for (int32_t number = 0; number < s.phases(); number++) {
      const Phase& p = s.phase(number);
      if (!is_message(p.kind)) continue;
      for (int32_t i = 0; i < p.repeat; i++) {
        const auto peer = static_cast<size_t>(p.peer.at(i));
        const auto [phase, iteration] = other_end(s.schedule(), p, i, all[peer]);
        if (phase < 0) return false;
        const int32_t other = fold.class_of[peer];
        const Steps& there = steps[static_cast<size_t>(other)];
        if (phase >= there.phases() || iteration >= there.phase(phase).repeat) return false;
        mine[static_cast<size_t>(s.number(number, i))] = {other, there.number(phase, iteration)};
      }
    }
  }
  for (size_t c = 0; c < meetings->size(); c++)
    for (size_t step = 0; step < (*meetings)[c].size(); step++) {
      const Meeting& m = (*meetings)[c][step];
      if (m.rank < 0) continue;
      const Meeting& back = (*meetings)[static_cast<size_t>(m.rank)][static_cast<size_t>(m.step)];
      if (back.rank != static_cast<int32_t>(c) || back.step != static_cast<int32_t>(step))
        return false;
    }
  return true;
}

}  // namespace

Fold unfolded(const Basis& basis) {
  Fold result;
  std::map<int32_t, int32_t> hosts;
  for (int32_t rank = 0; rank < basis.size; rank++) {
    const auto r = static_cast<size_t>(rank);
    // A rank without an entry is alone on its host.
    const int32_t name = r < basis.host.size() ? basis.host[r] : INT32_MIN + rank;
    result.ranks.push_back(rank);
    result.class_of.push_back(rank);
    result.host.push_back(
        hosts.try_emplace(name, static_cast<int32_t>(hosts.size())).first->second);
    result.together.push_back(1);
  }
  return result;
}

bool fold(std::span<const Schedule> all_ranks, const Basis& basis, Fold* result,
          std::vector<std::vector<Meeting>>* meetings) {
  Colouring colouring(all_ranks, basis);
  if (!colouring.refine()) return false;
  *result = colouring.classes();
  return meet(all_ranks, *result, meetings);
}

}  // namespace tbccl::schedule
