#include "comm/rates.h"

#include "base/formatted.h"
#include "base/log.h"

namespace tbccl::comm {
namespace {

// Bytes per nanosecond are gigabytes per second.
std::string rate_text(double rate) {
  return rate < 1 ? formatted("{:.3g} MB/s", rate * 1e3) : formatted("{:.3g} GB/s", rate);
}

}  // namespace

std::vector<RateRemark> RateWatch::remarks(const std::vector<link::TrunkCounters>& trunks) {
  std::vector<RateRemark> all;
  for (const link::TrunkCounters& trunk : trunks) {
    if (trunk.rate_bytes < kEnoughBytes || told_.count({trunk.peer, trunk.id}) != 0) continue;
    const schedule::Cable* const cable =
        trunk.id < basis_.cables.size() ? &basis_.cables[trunk.id] : nullptr;
    const bool stated = cable != nullptr && cable->rate > 0;
    // What a cable's fallback carries says nothing about the cable.
    if (cable == nullptr && !basis_.cables.empty() && basis_.joined(rank_, trunk.peer)) continue;
    double expected = cable != nullptr ? basis_.cable.rate : basis_.rate(rank_, trunk.peer);
    if (stated) expected = cable->rate;
    if (trunk.rate <= expected * kRatio && trunk.rate * kRatio >= expected) continue;
    told_.insert({trunk.peer, trunk.id});
    const char* const how = trunk.rate < expected ? "less" : "more";
    std::string text = formatted(
        "rank {}: trunk {} to rank {} carries {}, {} than the {} that algorithms are chosen by",
        rank_, trunk.name, trunk.peer, rate_text(trunk.rate), how, rate_text(expected));
    text += stated ? "; correct its rate in the cabling file, or look for what slows it"
                   : " (a guess: nothing states its rate)";
    all.push_back({stated, std::move(text)});
  }
  return all;
}

void RateWatch::look(const std::vector<link::TrunkCounters>& trunks) {
  for (const RateRemark& remark : remarks(trunks)) {
    if (remark.stated) {
      log::warn("{}", remark.text);
    } else {
      log::info("{}", remark.text);
    }
  }
}

}  // namespace tbccl::comm
