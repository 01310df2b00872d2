// The main function of every unit-test program, and the guard of a rule that Catch has: assertions
// belong to the thread that runs the tests. Another thread's would be a race that seldom shows.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Listener = Catch::EventListenerBase;
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
using Listener = Catch::TestEventListenerBase;
#endif

#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

class OneThread : public Listener {
 public:
  using Listener::Listener;
  void assertionStarting(const Catch::AssertionInfo& info) override {
    if (std::this_thread::get_id() == main_) return;
    std::fprintf(stderr, "%s:%zu: an assertion outside the thread that runs the tests\n",
                 info.lineInfo.file, info.lineInfo.line);
    std::abort();
  }

 private:
  const std::thread::id main_ = std::this_thread::get_id();
};

CATCH_REGISTER_LISTENER(OneThread)

}  // namespace

int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
