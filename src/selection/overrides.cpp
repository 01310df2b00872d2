#include "selection/overrides.h"

#include <algorithm>
#include <array>
#include <string>

#include "algorithms/algorithms.h"
#include "base/formatted.h"
#include "base/numbers.h"
#include "selection/selection.h"

namespace tbccl::selection {

namespace {

struct Operation {
  tbcclOperation_t operation;
  std::string_view key;  // in the grammar
  const char* name;      // in messages
};
constexpr std::array kOperations = {
    Operation{tbcclOpAllReduce, "allreduce", "all-reduce"},
    Operation{tbcclOpBroadcast, "broadcast", "broadcast"},
    Operation{tbcclOpBarrier, "barrier", "barrier"},
    Operation{tbcclOpReduce, "reduce", "reduce"},
    Operation{tbcclOpAllGather, "allgather", "all-gather"},
    Operation{tbcclOpReduceScatter, "reducescatter", "reduce-scatter"},
    Operation{tbcclOpAllToAll, "alltoall", "all-to-all"},
    Operation{tbcclOpGather, "gather", "gather"},
    Operation{tbcclOpScatter, "scatter", "scatter"},
    Operation{tbcclOpAllGatherV, "allgatherv", "all-gather-v"},
    Operation{tbcclOpReduceScatterV, "reducescatterv", "reduce-scatter-v"},
    Operation{tbcclOpAllToAllV, "alltoallv", "all-to-all-v"},
    Operation{tbcclOpGatherV, "gatherv", "gather-v"},
    Operation{tbcclOpScatterV, "scatterv", "scatter-v"},
    Operation{tbcclOpScan, "scan", "scan"},
    Operation{tbcclOpExScan, "exscan", "exclusive scan"}};

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

// Takes the text before the next `separator` off the front of `rest`.
std::string_view take(std::string_view& rest, char separator) {
  const size_t at = rest.find(separator);
  const std::string_view part = trimmed(rest.substr(0, at));
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return part;
}

// Names as users write them: case, '-' and '_' do not matter.
bool same_word(std::string_view written, std::string_view name) {
  size_t at = 0;
  for (char c : written) {
    if (c == '_' || c == '-') continue;
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (at < name.size() && name[at] == '_') at++;
    if (at == name.size() || name[at] != c) return false;
    at++;
  }
  return at == name.size();
}

const Operation* find_operation(std::string_view written) {
  for (const Operation& o : kOperations)
    if (same_word(written, o.key)) return &o;
  return nullptr;
}

template <class Wanted>
std::string names_where(Wanted wanted) {
  std::string text;
  for (const algorithms::Algorithm& a : algorithms::table())
    if (wanted(a)) text += (text.empty() ? "" : ", ") + std::string(a.name);
  return text;
}

Status wrong(std::string_view grammar, const std::string& what) {
  return {tbcclInvalidArgument,
          formatted("TBCCL_ALGO (or algorithms in the configuration) = \"{}\": {}", grammar, what)};
}

struct Section {
  const Operation* operation = nullptr;  // nullptr: all
  bool exclude = false;
  std::string_view list;
};

std::string operation_keys() {
  std::string text;
  for (const Operation& o : kOperations) text += (text.empty() ? "" : ", ") + std::string(o.key);
  return text;
}

// One name of a list, with the sizes it is for.
struct Item {
  std::string_view name;
  uint64_t from = 0, to = UINT64_MAX;  // bytes, ends included
  bool fits(uint64_t bytes) const { return from <= bytes && bytes <= to; }
};

// "ring", "ring@1M-", "direct@-4K" or "tree@4K-64K".
Status read_item(std::string_view grammar, std::string_view text, Item* item) {
  const size_t at = text.find('@');
  *item = {trimmed(text.substr(0, at))};
  if (at == std::string_view::npos) return {};
  const std::string_view range = trimmed(text.substr(at + 1));
  const size_t dash = range.find('-');
  const auto read = [](std::string_view size, uint64_t* bytes) {
    if (size.empty()) return true;
    const auto parsed = parse_bytes(size, uint64_t{1} << 62);
    if (parsed) *bytes = *parsed;
    return parsed.has_value();
  };
  if (dash != std::string_view::npos && range.size() > 1 &&
      read(trimmed(range.substr(0, dash)), &item->from) &&
      read(trimmed(range.substr(dash + 1)), &item->to) && item->from <= item->to)
    return {};
  return wrong(grammar, formatted("\"{}\" is not a range of sizes; write @1M- or @-4K or @4K-1M, "
                                  "in bytes with K, M or G, both ends included",
                                  text.substr(at)));
}

Status read_section(std::string_view grammar, std::string_view text, Section* section) {
  const size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    const std::string_view key = trimmed(text.substr(0, colon));
    section->operation = find_operation(key);
    if (section->operation == nullptr)
      return wrong(grammar, formatted("\"{}\" is not an operation with a choice of algorithms; "
                                      "possible: {}",
                                      key, operation_keys()));
    text = trimmed(text.substr(colon + 1));
  }
  if (!text.empty() && text.front() == '^') {
    section->exclude = true;
    text = trimmed(text.substr(1));
  }
  section->list = text;
  return {};
}

Status check_name(std::string_view grammar, const Section& section, std::string_view name) {
  const algorithms::Algorithm* algorithm = find_written(name);
  if (section.operation == nullptr) {
    if (algorithm != nullptr) return {};
    return wrong(grammar,
                 formatted("\"{}\" is not an algorithm; possible: {}", name,
                           names_where([](const algorithms::Algorithm&) { return true; })));
  }
  const tbcclOperation_t operation = section.operation->operation;
  if (algorithm != nullptr && algorithm->serves(operation)) return {};
  return wrong(
      grammar,
      formatted("\"{}\" is not an algorithm for {}; possible: {}", name, section.operation->name,
                names_where([&](const algorithms::Algorithm& a) { return a.serves(operation); })));
}

bool serves(std::string_view name, tbcclOperation_t operation) {
  const algorithms::Algorithm* const a = find_written(name);
  return a != nullptr && a->serves(operation);
}

// Where one algorithm serves there is nothing to choose, and only a section of its own speaks.
bool has_choice(tbcclOperation_t operation) {
  return std::count_if(algorithms::table().begin(), algorithms::table().end(),
                       [&](const algorithms::Algorithm& a) { return a.serves(operation); }) > 1;
}

// Checks a section; `speaks`: it is about the operation. Its items go to `items`.
Status read_items(std::string_view grammar, std::string_view text, tbcclOperation_t operation,
                  Section* section, std::vector<Item>* items, bool* speaks) {
  if (Status s = read_section(grammar, text, section); !s.ok()) return s;
  if (section->list.empty()) return wrong(grammar, formatted("\"{}\" names no algorithm", text));
  items->clear();
  *speaks = section->operation != nullptr && section->operation->operation == operation;
  for (std::string_view rest = section->list; !rest.empty();) {
    Item item;
    if (Status s = read_item(grammar, take(rest, ','), &item); !s.ok()) return s;
    if (Status s = check_name(grammar, *section, item.name); !s.ok()) return s;
    *speaks = *speaks || (section->operation == nullptr && serves(item.name, operation) &&
                          has_choice(operation));
    items->push_back(item);
  }
  return {};
}

}  // namespace

const char* operation_name(tbcclOperation_t operation) {
  for (const Operation& o : kOperations)
    if (o.operation == operation) return o.name;
  return "this operation";
}

const char* operation_key(tbcclOperation_t operation) {
  for (const Operation& o : kOperations)
    if (o.operation == operation) return o.key.data();
  return "";
}

bool find_operation(std::string_view written, tbcclOperation_t* operation) {
  const Operation* const found = find_operation(written);
  if (found != nullptr) *operation = found->operation;
  return found != nullptr;
}

std::vector<tbcclOperation_t> operations() {
  std::vector<tbcclOperation_t> all;
  for (const Operation& o : kOperations) all.push_back(o.operation);
  return all;
}

std::string operation_keys() {
  std::string text;
  for (const Operation& o : kOperations) text += (text.empty() ? "" : ", ") + std::string(o.key);
  return text;
}

const algorithms::Algorithm* find_written(std::string_view written) {
  for (const algorithms::Algorithm& a : algorithms::table())
    if (same_word(written, a.name)) return &a;
  return nullptr;
}

bool Override::allows(std::string_view name) const {
  if (!given) return true;
  for (std::string_view one : names)
    if (same_word(one, name)) return !exclude;
  return exclude;
}

Status override_for(std::string_view grammar, tbcclOperation_t operation, uint64_t bytes,
                    Override* result) {
  *result = {};
  std::vector<Item> items;
  for (std::string_view rest = grammar; !rest.empty();) {
    const std::string_view text = take(rest, ';');
    if (text.empty()) continue;
    Section section;
    bool speaks = false;
    if (Status s = read_items(grammar, text, operation, &section, &items, &speaks); !s.ok())
      return s;
    if (!speaks) continue;
    *result = {false, section.exclude, {}};
    for (const Item& item : items)
      if (item.fits(bytes)) result->names.push_back(item.name);
    result->given = !result->names.empty();
  }
  return {};
}

// Sizes at which something begins or ends.
std::vector<uint64_t> edges(std::string_view grammar, tbcclOperation_t operation) {
  std::vector<uint64_t> sizes = {0, UINT64_MAX};
  std::vector<Item> items;
  for (std::string_view rest = grammar; !rest.empty();) {
    Section section;
    bool speaks = false;
    const std::string_view text = take(rest, ';');
    if (text.empty() || !read_items(grammar, text, operation, &section, &items, &speaks).ok())
      continue;
    for (const Item& item : items) {
      sizes.push_back(item.from);
      sizes.push_back(item.to);
    }
  }
  return sizes;
}

Status check_overrides(const std::string& grammar) {
  for (const Operation& o : kOperations)
    for (uint64_t bytes : edges(grammar, o.operation)) {
      Override section;
      if (Status s = override_for(grammar, o.operation, bytes, &section); !s.ok()) return s;
      bool any = false;
      for (const algorithms::Algorithm& a : algorithms::table())
        any = any || (a.serves(o.operation) && section.allows(a.name));
      if (any) continue;
      const auto served = [&](const algorithms::Algorithm& a) { return a.serves(o.operation); };
      return wrong(grammar, formatted("this leaves no algorithm for {}; possible: {}", o.name,
                                      names_where(served)));
    }
  return {};
}

}  // namespace tbccl::selection
