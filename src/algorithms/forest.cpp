#include "algorithms/forest.h"

#include <array>

namespace tbccl::algorithms {

namespace {

using Make = Forest (*)(const schedule::Basis&, const std::vector<int>&);

struct Key {
  Make make = nullptr;
  std::vector<int> blocks;
  int32_t size = 0;
  std::vector<schedule::Cable> cables;
  std::vector<int32_t> host;
  schedule::LinkCost local, network, cable;

  bool is(Make other, const std::vector<int>& roots, const schedule::Basis& basis) const {
    return make == other && size == basis.size && blocks == roots && host == basis.host &&
           local == basis.local && network == basis.network && cable == basis.cable &&
           cables == basis.cables;
  }
};

struct Entry {
  Key key;
  std::shared_ptr<const Forest> forest;
};

constexpr size_t kRemembered = 32;

}  // namespace

std::shared_ptr<const Forest> remembered(Make make, const schedule::Collective& collective,
                                         const schedule::Basis& basis) {
  thread_local std::array<Entry, kRemembered> entries;
  thread_local size_t oldest = 0;
  std::vector<int> blocks;
  for (int b = 0; b < forest_blocks(collective, basis.size); b++)
    blocks.push_back(forest_root(collective, b));
  for (const Entry& e : entries)
    if (e.key.is(make, blocks, basis)) return e.forest;
  Entry& e = entries[oldest++ % kRemembered];
  e.forest = std::make_shared<const Forest>(make(basis, blocks));
  e.key = {make,       std::move(blocks), basis.size,    basis.cables,
           basis.host, basis.local,       basis.network, basis.cable};
  return e.forest;
}

}  // namespace tbccl::algorithms
