// Counts every operator new of the program that links count_allocations.cc.
#pragma once

namespace hv::test {

long allocations_of_this_thread();

}  // namespace hv::test
