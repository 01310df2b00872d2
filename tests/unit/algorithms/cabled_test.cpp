// Algorithms that follow the cables, proven on many cablings.
#include "unit/algorithms/cablings.h"
#include "unit/catch.h"

using namespace tbccl;
using namespace tbccl::testing;
using algorithms::Algorithm;
using schedule::Basis;
using schedule::Collective;

namespace {

constexpr const char* kFollowers[] = {"spanning", "shallow", "hierarchical",
                                      "cube",     "routed",  "doubling"};
bool has_root(tbcclOperation_t o) {
  return o == tbcclOpBroadcast || o == tbcclOpReduce || o == tbcclOpGather || o == tbcclOpScatter;
}

void prove(const Algorithm& a, tbcclOperation_t operation, int root, bool scale, int mix,
           const Basis& basis, const std::string& cabling) {
  std::vector<Collective> each;
  std::vector<schedule::Schedule> all;
  for (int r = 0; r < basis.size; r++) {
    each.push_back({operation, (mix >> r % 5 & 1) != 0, scale, root});
    all.push_back(a.make(each.back(), r, basis.size, basis));
  }
  const Status s = schedule::verify(all, each);
  INFO(a.name << ", operation " << operation << " on " << cabling << ", root " << root << ", scale "
              << scale << ", in place " << mix << ": " << s.text());
  REQUIRE(s.ok());
}

}  // namespace

TEST_CASE("algorithms that follow cables are right on every cabling, from every root") {
  for (const auto& [cabling, basis] : cablings())
    for (const char* name : kFollowers) {
      const Algorithm& a = *algorithms::find(name);
      for (tbcclOperation_t operation : a.operations)
        for (int root = 0; root < (has_root(operation) ? basis.size : 1); root++)
          for (bool scale : {false, true})
            for (int mix : {0, 31, 11})
              if (!scale || schedule::reduces(operation))
                prove(a, operation, root, scale, mix, basis, cabling);
    }
}

TEST_CASE("a vector crosses a slow network once a host") {
  const Basis basis = cablings().at("two hosts of three and two");
  const Collective c{tbcclOpAllGather, false, false, 0};
  int crossing = 0;
  for (int rank = 0; rank < basis.size; rank++)
    for (const auto& p : algorithms::find("hierarchical")->make(c, rank, basis.size, basis).phases)
      for (int i = 0; i < p.repeat && p.kind == schedule::Kind::kSend; i++)
        if (basis.medium(rank, p.peer.at(i)) == schedule::Medium::kNetwork) crossing += p.pieces;
  REQUIRE(crossing == basis.size);  // each block to the one other host
}
