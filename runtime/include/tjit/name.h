// Names of tensors, for what tjit prints:
//
//   tjit::name(stress, "eq::state/stress");
//   tjit::name(*net);                       // "layer1.weight", "layer1.bias"
//
// Dumps (TJIT_DUMP) and graphs, `tjit explain`, the instruction log and the
// texts of errors call them so instead of "slot 3" (docs/looking-inside.md). A
// name changes no result, and never which sequence is found: tensors of other
// names share one, whose texts have the names with which it was recorded. So
// name tensors before the loop that uses them, and results right behind their
// op.
//
// A name belongs to the memory of a tensor: views that begin where it does have
// it, too, and all others while that memory has one name only. It ends with the
// memory. What gives a parameter other memory,
// as module->to(dtype), takes its name away.
//
// Threads: any. Tested by: tests/runtime/name_test.cpp
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <type_traits>

#include "tjit/export.h"

namespace tjit {

// The tensor is called so from now on; a name that it had before is gone. Two
// tensors may have one name. Works before and after enable(). At most 65,536
// tensors that live have names; stderr says once that more have none. THROWS:
// c10::Error if the tensor is undefined or has no memory of its own (a sparse
// one), or the name is empty, longer than 200 bytes or no UTF-8. Characters
// that would end a line or a string are escaped where it is printed.
TJIT_API void name(const at::Tensor& tensor, std::string_view name);

// The name of the tensor; "" if it has none.
TJIT_API std::string name_of(const at::Tensor& tensor);

namespace internal {

template <class M>
concept HasNamedTensors = requires(const M& module) {
  module.named_parameters(true).begin();
  module.named_buffers(true).begin();
};

// "" in front of nothing, else with a dot behind.
inline std::string WithDot(std::string_view prefix) {
  return prefix.empty() ? std::string() : std::string(prefix) + ".";
}

}  // namespace internal

// All parameters and buffers of a torch::nn::Module, by their names with dots;
// `prefix` and a dot stand in front, if it is not empty. Those without memory
// of their own are left out. THROWS: as above.
template <class M>
  requires internal::HasNamedTensors<M>
void name(const M& module, std::string_view prefix = {}) {
  const auto name_all = [&](const auto& tensors) {
    for (const auto& item : tensors) {
      if (!item.value().has_storage()) continue;
      name(item.value(), internal::WithDot(prefix) + item.key());
    }
  };
  name_all(module.named_parameters(/*recurse=*/true));
  name_all(module.named_buffers(/*recurse=*/true));
}

// The same of a pointer to a module, as torch::nn::Linear is one.
template <class P>
  requires(!internal::HasNamedTensors<P> &&
           requires(const P& pointer) {
             requires internal::HasNamedTensors<
                 std::remove_cvref_t<decltype(*pointer)>>;
           })
void name(const P& module, std::string_view prefix = {}) {
  name(*module, prefix);
}

}  // namespace tjit
