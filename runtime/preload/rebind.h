// Leads the calls of libraries that were loaded before the shim to the shim.
//
// The loader has bound them already, in slots of each library: of its calls, of
// the addresses that it keeps, of its virtual tables. Each slot that names one
// of the interposed functions gets the shim's address, as the loader would have
// written it had the shim come first.
//
// Invariant: nothing is changed before all slots are known to be writable.
// Threading: the caller is the only one that decides (preload.cpp). Other
// threads may run through the slots meanwhile: each changes in one store.
// Tested by: tests/python/package_test.py
#pragma once

#include <cstddef>

namespace tjit::preload {

// How many of the loaded libraries' slots lead to `addresses` from now on:
// addresses[i] is the shim's function of the name symbols[i]. -1, and nothing
// has changed, if the memory of one cannot be written.
int Rebind(const char* const* symbols, void* const* addresses,
           std::size_t count);

}  // namespace tjit::preload
