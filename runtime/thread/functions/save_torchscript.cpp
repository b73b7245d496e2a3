// Writes a function of tjit::jit() as a module of TorchScript.
#include <c10/core/ScalarType.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/platform/thread_context.h"
#include "runtime/thread/functions/function_graph.h"
#include "runtime/thread/functions/jit_core.h"
#include "runtime/thread/functions/jit_match.h"
#include "runtime/thread/functions/parts.h"
#include "tjit/tjit.h"
#include "tjit/torchscript.h"

namespace tjit::internal {

using runtime::FunctionArgument;
using runtime::FunctionModule;
using runtime::FunctionPlan;
using runtime::GraphArgument;

namespace {

// `x.size(1) == 8` and its like for each that matters, joined by `and`.
std::string IsOfForm(const std::string& name, const TensorGeometry& g) {
  std::vector<std::string> same = {
      absl::StrFormat("%s.dtype == %d", name, g.dtype),
      absl::StrFormat("%s.dim() == %d", name, g.ndim)};
  for (int d = 0; d < g.ndim; ++d) {
    same.push_back(absl::StrFormat("%s.size(%d) == %d", name, d, g.sizes[d]));
  }
  for (int d = 0; d < g.ndim; ++d) {
    if (g.sizes[d] <= 1) continue;  // no kernel steps along it
    same.push_back(
        absl::StrFormat("%s.stride(%d) == %d", name, d, g.strides[d]));
  }
  return absl::StrJoin(same, " and ");
}

std::string FormText(const TensorGeometry& g) {
  return absl::StrFormat("a tensor of %s with sizes [%s] and strides [%s]",
                         c10::toString(static_cast<c10::ScalarType>(g.dtype)),
                         absl::StrJoin(g.sizes, g.sizes + g.ndim, ", "),
                         absl::StrJoin(g.strides, g.strides + g.ndim, ", "));
}

// The line that checks argument `a`; empty: it may be any.
std::string CheckOf(const FunctionPlan& plan, const GraphArgument& a) {
  if (a.is_tensor) {
    const TensorGeometry& g = plan.key.arguments[a.index].geometry;
    return absl::StrFormat(
        "    assert %1$s, \"%2$s has to be %3$s, but got sizes {} and strides "
        "{}\".format(%2$s.size(), %2$s.stride())\n",
        IsOfForm(a.name, g), a.name, FormText(g));
  }
  const runtime::FunctionNumber& number = plan.key.numbers[a.index];
  if (number.is_free) return "";
  const std::string is_it =
      std::isnan(number.value)
          ? absl::StrFormat("%1$s != %1$s", a.name)
          : absl::StrFormat("%s == float(\"%.17g\")", a.name, number.value);
  return absl::StrFormat(
      "    assert %1$s, \"%2$s has to be %3$.17g, with which it was recorded, "
      "but got {}\".format(%2$s)\n",
      is_it, a.name, number.value);
}

// `forward`, in TorchScript: checks what the ops were recorded for.
std::string ForwardSource(const FunctionPlan& plan,
                          const std::vector<GraphArgument>& arguments) {
  std::string parameters = "self", checks, names;
  for (const GraphArgument& a : arguments) {
    absl::StrAppend(&parameters, ", ", a.name, ": ",
                    a.is_tensor ? "Tensor" : "float");
    absl::StrAppend(&checks, CheckOf(plan, a));
    absl::StrAppend(&names, names.empty() ? "" : ", ", a.name);
  }
  return absl::StrCat("def forward(", parameters, "):\n", checks,
                      "    return self.ops(", names, ")\n");
}

}  // namespace

}  // namespace tjit::internal

namespace tjit::runtime {
namespace {

std::vector<std::string> OpsOf(const torch::jit::Module& module) {
  std::vector<std::string> ops;
  for (const torch::jit::Node* node :
       module.get_method("ops").graph()->nodes()) {
    const c10::FunctionSchema* const schema = node->maybeSchema();
    if (schema == nullptr || !node->kind().is_aten()) continue;
    ops.push_back(absl::StrCat(schema->name(), ".", schema->overload_name()));
  }
  return ops;
}

}  // namespace

std::string BytesOf(const torch::jit::Module& module,
                    const torch::jit::ExtraFilesMap& files) {
  std::ostringstream out;
  module.save(out, files);
  return std::move(out).str();
}

void WriteBytes(const char* who, const std::string& path,
                const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  TORCH_CHECK(file.good(), who, ": ", path,
              ": cannot be written: ", std::strerror(errno));
}

// A module is saved as source code.
void CheckReadBack(const std::string& bytes, const torch::jit::Module& module) {
  std::istringstream in(bytes);
  const std::vector<std::string> expected = OpsOf(module),
                                 actual = OpsOf(torch::jit::load(in));
  const std::size_t least = std::min(expected.size(), actual.size());
  std::size_t i = 0;
  while (i < least && expected[i] == actual[i]) ++i;
  TORCH_CHECK(i == expected.size() && i == actual.size(),
              "tjit::save_torchscript: TorchScript reads op ", i, " (",
              i < expected.size() ? expected[i] : "none", ") back as ",
              i < actual.size() ? actual[i] : "none",
              "; nothing was written. Leave this op out of the function");
}

}  // namespace tjit::runtime

namespace tjit::internal {

const FunctionPlan* JitCall::PlanToSave(const char* who) const {
  const runtime::FunctionInputs inputs = Inputs();
  for (const at::Tensor* t : tensors_) {
    TORCH_CHECK(
        !t->defined() || runtime::MayBeRecorded(t->unsafeGetTensorImpl()), who,
        ": an argument is no plain tensor on the CPU, and no function is "
        "replayed with it");
  }
  const MutexLock lock(core_->mutex);
  for (const auto& plan : core_->plans) {
    if (plan->is_dropped.load(std::memory_order_relaxed) ||
        plan->gradients != nullptr) {
      continue;
    }
    const runtime::FunctionKey& key = plan->key;
    if (runtime::Compare(key, key.context, key.global, inputs) ==
            runtime::Likeness::kSame &&
        !plan->record->store.expired() && runtime::HoldsCaptured(*plan)) {
      return plan.get();
    }
  }
  TORCH_CHECK(false, who, ": \"", core_->options.name,
              "\" is not replayed for these arguments",
              core_->why.empty() ? "" : absl::StrCat(" (", core_->why, ")"),
              "; call it with them until stats().replays grows");
}

const void* JitCall::ReturnedToSave(const char* who) const {
  return PlanToSave(who)->returned.get();
}

FunctionModule JitCall::MakeModule(const char* who,
                                   const TorchscriptOptions& options) const {
  const FunctionPlan& plan = *PlanToSave(who);
  // Its steps are the store's.
  const auto store = plan.record->store.lock();
  TORCH_CHECK(store != nullptr, who, ": \"", core_->options.name,
              "\" has just been forgotten; call it again "
              "until stats().replays grows");
  const std::string parts = runtime::PartsText(*plan.record);
  TORCH_CHECK(parts.empty(), who, ": \"", core_->options.name, "\" has ", parts,
              ", which a file has not; wrap what lies before the op");
  TORCH_CHECK(plan.record->reads.empty(), who, ": \"", core_->options.name,
              "\" reads numbers on the host and may decide by them, which the "
              "ops of one call do not say; wrap the part that does not");
  TORCH_CHECK(
      plan.key.refs.empty(), who, ": \"", core_->options.name,
      "\" reads numbers by tjit::ref(), which a file has not; pass them "
      "as arguments");
  TORCH_CHECK(plan.leaves.empty(), who, ": \"", core_->options.name,
              "\" has a backward pass inside, whose "
              "gradients have no form in TorchScript; wrap the function that "
              "predicts");
  sync();
  FunctionModule made = runtime::MakeFunctionModule(plan, options);
  made.module.define(ForwardSource(plan, made.arguments));
  for (GraphArgument& a : made.arguments) {
    if (a.is_tensor) {
      a.geometry = plan.key.arguments[a.index].geometry;
    } else {
      a.is_free = plan.key.numbers[a.index].is_free;
    }
  }
  return made;
}

void JitCall::SaveTorchscript(const std::string& path,
                              const TorchscriptOptions& options) const {
  const char* const who = "tjit::save_torchscript";
  const FunctionModule made = MakeModule(who, options);
  const std::string bytes = runtime::BytesOf(made.module, {});
  runtime::CheckReadBack(bytes, made.module);
  runtime::WriteBytes(who, path, bytes);
}

}  // namespace tjit::internal
