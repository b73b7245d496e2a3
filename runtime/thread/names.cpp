// The public functions of name.h.
#include <c10/util/Exception.h>

#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/memory/tensor_names.h"
#include "runtime/report/log.h"
#include "runtime/thread/recorded_names.h"
#include "support/printed_name.h"
#include "tjit/name.h"

namespace tjit {

void name(const at::Tensor& tensor, std::string_view name) {
  const std::string wrong = WhatIsWrongWithName(name);
  TORCH_CHECK(wrong.empty(), "tjit::name: the name ", wrong,
              "; write UTF-8 of 1 to ", kLongestName, " bytes");
  const std::string text(name);
  TORCH_CHECK(tensor.defined(), "tjit::name: ", PrintedName(text),
              " is to name an undefined tensor; name it once it is defined");
  TORCH_CHECK(tensor.has_storage(), "tjit::name: ", PrintedName(text),
              " is to name a tensor of layout ", tensor.layout(),
              ", which has no memory of its own; name the tensors that it is "
              "made of");
  if (!runtime::SetTensorName(tensor.unsafeGetTensorImpl(), text)) {
    static std::atomic<bool> said{false};
    if (!said.exchange(true)) {
      runtime::LogWarning(absl::StrCat(
          "tjit::name: ", PrintedName(text),
          " and names behind it are not "
          "kept: ",
          runtime::kMostNamedStorages, " tensors that live have names, or ",
          runtime::kMostNamesOfStorage, " over one storage"));
    }
    return;
  }
  runtime::RecordName(tensor.unsafeGetTensorImpl(), text);
}

std::string name_of(const at::Tensor& tensor) {
  return tensor.defined() ? runtime::TensorNameOf(tensor.unsafeGetTensorImpl())
                          : std::string();
}

}  // namespace tjit
