// Views that go around libtorch's dispatcher.
//
// Note [Direct views]. x.select(0, i) calls the dispatcher four times: for
// autograd, for what notes whose view it is, for select itself, and for the
// as_strided that it is made of: 4,400 instructions with those that free the
// view. Where Note [Direct calls] (direct_calls.h) holds, autograd has nothing
// to do, and the rest is done here, in 1,900: the sizes, the tensor object, and
// libtorch's own as_view(), which gives it the metadata of a view. tjit has no
// other part in views: they are no ops of a trace, and their storage is that of
// their base. What is unusual goes on to libtorch: wrong arguments, for its
// words; symbolic sizes, more than kMostDims dims, sizes and strides whose
// products might overflow, storages that are too small.
//
// Thread: any.
// Tested by: tests/runtime/intercept/direct_views_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tjit::runtime {

// All views but those that are made of an op in `closed`: another library has
// a kernel for it.
void OpenDirectViews(const std::set<std::string>& closed);

// Those that are made of the op. "": all.
void CloseDirectViews(std::string_view name);

// Adds the qualified names of those that are closed.
void AddClosedViews(std::vector<std::string>* names);

// Made by this thread so far.
std::uint64_t DirectViewsMade();

}  // namespace tjit::runtime
