// Cablings to try algorithms on, by name.
#pragma once

#include <map>
#include <string>

#include "unit/algorithms/group.h"

namespace tbccl::testing {

inline schedule::Basis cabled(int n, std::vector<std::pair<int, int>> pairs) {
  schedule::Basis basis = ranks(n);
  for (const auto& [a, b] : pairs) basis.cables.push_back({a, b, 0.125});
  for (int r = 0; r < n; r++) basis.host.push_back(r);
  basis.index_cables();
  return basis;
}

inline std::vector<std::pair<int, int>> line(int n) {
  std::vector<std::pair<int, int>> pairs;
  for (int r = 0; r + 1 < n; r++) pairs.emplace_back(r, r + 1);
  return pairs;
}

inline std::vector<std::pair<int, int>> ring(int n) {
  auto pairs = line(n);
  pairs.emplace_back(0, n - 1);
  return pairs;
}

inline std::vector<std::pair<int, int>> mesh(int n, bool without_first = false) {
  std::vector<std::pair<int, int>> pairs;
  for (int a = 0; a < n; a++)
    for (int b = a + 1; b < n; b++)
      if (!without_first || a != 0 || b != 1) pairs.emplace_back(a, b);
  return pairs;
}

inline std::vector<std::pair<int, int>> star(int n) {
  std::vector<std::pair<int, int>> pairs;
  for (int r = 1; r < n; r++) pairs.emplace_back(0, r);
  return pairs;
}

inline std::vector<std::pair<int, int>> torus_2x4() {
  std::vector<std::pair<int, int>> pairs;
  for (int r = 0; r < 4; r++) {
    pairs.emplace_back(r, r + 4);
    for (int row : {0, 4}) pairs.emplace_back(row + r, row + (r + 1) % 4);
  }
  return pairs;
}

// Connected, all of them.
inline std::map<std::string, schedule::Basis> cablings() {
  auto doubled = ring(4);
  doubled.emplace_back(0, 1);
  std::map<std::string, schedule::Basis> all = {
      {"pair", cabled(2, line(2))},
      {"ring:4", cabled(4, ring(4))},
      {"ring of four, 0 2 1 3", cabled(4, {{0, 2}, {2, 1}, {1, 3}, {3, 0}})},
      {"ring:4 with a second cable 0-1", cabled(4, doubled)},
      {"ring:5", cabled(5, ring(5))},
      {"chain:4", cabled(4, line(4))},
      {"mesh:4", cabled(4, mesh(4))},
      {"mesh:4 without 0-1", cabled(4, mesh(4, true))},
      {"star:5", cabled(5, star(5))},
      {"torus:2x4", cabled(8, torus_2x4())},
      {"ring:11", cabled(11, ring(11))},
      {"mesh:6 without 0-1", cabled(6, mesh(6, true))}};
  schedule::Basis uneven = cabled(4, mesh(4));
  uneven.cables[1].rate = 0.3;
  uneven.cables[4].rate = 0.07;
  uneven.index_cables();
  all.emplace("mesh:4 with unequal rates", uneven);
  // Two hosts of three and two ranks, on a cable between one of each.
  schedule::Basis hosts = cabled(5, {{1, 3}});
  hosts.host = {0, 0, 0, 1, 1};
  all.emplace("hosts on a cable", hosts);
  schedule::Basis network = ranks(5);
  network.host = {0, 0, 0, 1, 1};
  all.emplace("two hosts of three and two", network);
  return all;
}

}  // namespace tbccl::testing
