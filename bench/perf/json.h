// The results as a JSON file, close to version 3 of nccl-tests' format.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "options.h"
#include "result.h"
#include "team.h"

namespace tbccl::perf {

class JsonFile {
 public:
  JsonFile();
  ~JsonFile();

  // Creates `path`, or path.1, path.2, ... if it exists; an existing file is never written.
  Status create(const std::string& path);
  void begin(const Options& options, const std::vector<std::string>& arguments,
             const std::vector<RankInfo>& ranks);
  void add(const Options& options, const Row& row);
  void add_error(const std::string& text);
  Status finish(const Summary& summary);
  bool is_open() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A whole file at once, under the name that create() would give it.
Status write_json(const std::string& path, const std::string& text);

// Local time as 2026-01-31 23:59:59.
std::string time_text();

}  // namespace tbccl::perf
