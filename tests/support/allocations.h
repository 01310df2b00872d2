// This program's operator new and delete, replaced: allocations are counted, or refused to a
// thread.
//
// A program carries the replacement when one of its tests names something of this header; then it
// holds for the whole program. All forms are replaced, since a sanitizer compares what memory came
// from with what gives it back.
#pragma once

namespace tbccl::testing {

// From any thread. count_allocations(true) starts from zero.
void count_allocations(bool on);
int counted_allocations();

// Whether the calling thread gets no memory from operator new.
void refuse_memory(bool on);

}  // namespace tbccl::testing
