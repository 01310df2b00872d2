// Variables of the environment, for the length of a block.
#pragma once

#include <cstdlib>
#include <initializer_list>
#include <utility>
#include <vector>

// Sets variables for the communicators made during its life.
class Variables {
 public:
  Variables(std::initializer_list<std::pair<const char*, const char*>> list) {
    for (const auto& [name, value] : list) {
      setenv(name, value, 1);
      names_.push_back(name);
    }
  }
  ~Variables() {
    for (const char* name : names_) unsetenv(name);
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::vector<const char*> names_;
};
