#include "runtime/intercept/foreign_kernels.h"

#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <array>
#include <atomic>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/intercept/kernel_wrap.h"
#include "runtime/intercept/registration.h"
#include "runtime/memory/block_cache.h"
#include "runtime/memory/deferred_storage.h"
#include "runtime/platform/thread_context.h"
#include "runtime/platform/torch_compat.h"
#include "runtime/report/log.h"
#include "runtime/thread/materialize.h"
#include "support/mutex.h"

namespace tjit::runtime {
namespace {

using c10::DispatchKey;
using c10::IValue;
using c10::OperatorHandle;
using torch::jit::Stack;

constexpr std::array kForeignKeys = {
    DispatchKey::SparseCPU, DispatchKey::SparseCsrCPU,
    DispatchKey::QuantizedCPU, DispatchKey::MkldnnCPU,
    DispatchKey::NestedTensorCPU};

// Metadata at these keys: neither reads bytes nor gives a tensor away.
constexpr std::array<std::string_view, 17> kMetadata = {
    "aten::_dimI",          "aten::_dimV",
    "aten::_nnz",           "aten::dense_dim",
    "aten::empty",          "aten::empty_like",
    "aten::empty_quantized", "aten::empty_strided",
    "aten::_empty_affine_quantized",
    "aten::is_coalesced",   "aten::is_pinned",
    "aten::is_same_size",   "aten::q_per_channel_axis",
    "aten::q_scale",        "aten::q_zero_point",
    "aten::qscheme",        "aten::sparse_dim"};

// Metadata that gives a dense tensor away.
constexpr std::array<std::string_view, 16> kGiveTensors = {
    "aten::_indices",
    "aten::_nested_tensor_size",
    "aten::_nested_tensor_storage_offsets",
    "aten::_nested_tensor_strides",
    "aten::_values",
    "aten::alias",
    "aten::as_strided",
    "aten::ccol_indices",
    "aten::col_indices",
    "aten::crow_indices",
    "aten::detach",
    "aten::indices",
    "aten::q_per_channel_scales",
    "aten::q_per_channel_zero_points",
    "aten::row_indices",
    "aten::values"};

template <std::size_t N>
bool Contains(const std::array<std::string_view, N>& names,
              std::string_view name) {
  for (std::string_view n : names) {
    if (n == name) return true;
  }
  return false;
}

thread_local int quiet_depth = 0;

// ------------------------------------------------------------ wrappers

void ArmValue(const IValue& value) {
  if (value.isTensor()) {
    Arm(value.toTensor().unsafeGetTensorImpl());
  } else if (value.isTensorList()) {
    for (const at::Tensor& t : value.toTensorVector()) {
      Arm(t.unsafeGetTensorImpl());
    }
  } else if (value.isList()) {
    for (const IValue& element : value.toListRef()) ArmValue(element);
  } else if (value.isTuple()) {
    for (const IValue& element : value.toTupleRef().elements()) {
      ArmValue(element);
    }
  }
}

std::size_t FirstArgument(const OperatorHandle& op, const Stack& stack) {
  return stack.size() - op.schema().arguments().size();
}

// Keeps the arguments of a boxed call and arms them when it is over, and the
// results, which lie on the stack then.
class RearmScope {
 public:
  RearmScope(const OperatorHandle& op, Stack* stack)
      : stack_(stack), base_(FirstArgument(op, *stack)) {
    for (std::size_t i = base_; i < stack->size(); ++i) {
      const IValue& value = (*stack)[i];
      if (value.isTensor() || value.isList()) arguments_.push_back(value);
    }
  }
  ~RearmScope() {
    for (const IValue& value : arguments_) ArmValue(value);
    for (std::size_t i = base_; i < stack_->size(); ++i) ArmValue((*stack_)[i]);
  }
  RearmScope(const RearmScope&) = delete;
  RearmScope& operator=(const RearmScope&) = delete;

 private:
  Stack* const stack_;
  const std::size_t base_;
  Stack arguments_;
};

// False where a wrapper has nothing to do on this thread.
bool TakesPart() {
  return g_enabled.load(std::memory_order_relaxed) && t_context.inside == 0;
}

// A kernel of another key or namespace: everything is made ready first.
class ForeignKernel final : public c10::OperatorKernel {
 public:
  explicit ForeignKernel(c10::KernelFunction kernel)
      : kernel_(std::move(kernel)) {}

  void operator()(const OperatorHandle& op, c10::DispatchKeySet keys,
                  Stack* stack) {
    if (!TakesPart()) return kernel_.callBoxed(op, keys, stack);
    if (t_context.in_function) RecordForeignKernel();
    MakeAllReady(FlushReason::kForeignKey);
    RearmScope rearm(op, stack);
    KernelScope inside;
    kernel_.callBoxed(op, keys, stack);
  }

 private:
  const c10::KernelFunction kernel_;
};

// Metadata that gives away a tensor held inside.
class TensorGiver final : public c10::OperatorKernel {
 public:
  explicit TensorGiver(c10::KernelFunction kernel)
      : kernel_(std::move(kernel)) {}

  void operator()(const OperatorHandle& op, c10::DispatchKeySet keys,
                  Stack* stack) {
    const std::size_t base = FirstArgument(op, *stack);
    kernel_.callBoxed(op, keys, stack);
    if (!TakesPart()) return;
    for (std::size_t i = base; i < stack->size(); ++i) ArmValue((*stack)[i]);
  }

 private:
  const c10::KernelFunction kernel_;
};

// ------------------------------------------------------------ composites

// max_pool1d reads the bytes of plain CPU tensors that need no gradient, and
// calls other ops for all else (the condition of its source).
bool PoolReads(const at::Tensor& t) {
  return t.is_cpu() && !(t.requires_grad() && at::GradMode::is_enabled()) &&
         !t._fw_grad(0).defined() && !at::isTensorSubclassLike(t);
}

// A composite of aten that reads bytes itself. `Kind`: what it reads.
enum class Composite : std::uint8_t {
  kPool,     // the first argument, where PoolReads() it
  kIndices,  // the second argument; views of the first
  kLengths,  // arguments 2 and 3, converted to int64
  kAll,      // everything; runs as a kernel
};

void MakeReady(const at::Tensor& t) {
  if (t.defined()) {
    MaterializeForRead(t.unsafeGetTensorImpl(), FlushReason::kConstRead);
  }
}

// Lengths as the composite wants them, and ready; those that it refuses stay.
at::Tensor ReadyLengths(at::Tensor lengths) {
  if (!lengths.defined() || !lengths.is_cpu() ||
      !c10::isIntegralType(lengths.scalar_type(), /*includeBool=*/false)) {
    return lengths;
  }
  lengths = lengths.to(c10::kLong).contiguous();
  MakeReady(lengths);
  return lengths;
}

class CompositeKernel final : public c10::OperatorKernel {
 public:
  CompositeKernel(c10::KernelFunction kernel, Composite kind)
      : kernel_(std::move(kernel)), kind_(kind) {}

  void operator()(const OperatorHandle& op, c10::DispatchKeySet keys,
                  Stack* stack) {
    const std::size_t base = FirstArgument(op, *stack);
    if (!TakesPart() || (kind_ == Composite::kPool &&
                         !PoolReads((*stack)[base].toTensor()))) {
      return kernel_.callBoxed(op, keys, stack);
    }
    if (t_context.in_function) RecordHostRead();
    RearmScope rearm(op, stack);
    if (kind_ == Composite::kPool || kind_ == Composite::kAll) {
      if (kind_ == Composite::kPool) {
        MakeReady((*stack)[base].toTensor());
      } else {
        MakeAllReady(FlushReason::kConstRead);
      }
      KernelScope inside;
      return kernel_.callBoxed(op, keys, stack);
    }
    if (kind_ == Composite::kIndices) {
      MakeReady((*stack)[base + 1].toTensor());
    } else {
      (*stack)[base + 2] = ReadyLengths((*stack)[base + 2].toTensor());
      (*stack)[base + 3] = ReadyLengths((*stack)[base + 3].toTensor());
    }
    ReaderScope reader;
    kernel_.callBoxed(op, keys, stack);
  }

 private:
  const c10::KernelFunction kernel_;
  const Composite kind_;
};

struct CompositeName {
  const char* name;
  const char* overload;
  Composite kind;
};

constexpr CompositeName kComposites[] = {
    {"aten::_pad_packed_sequence", "", Composite::kIndices},
    {"aten::choose_qparams_optimized", "", Composite::kAll},
    {"aten::ctc_loss", "Tensor", Composite::kLengths},
    {"aten::fbgemm_linear_quantize_weight", "", Composite::kAll},
    {"aten::fbgemm_pack_gemm_matrix_fp16", "", Composite::kAll},
    {"aten::max_pool1d", "", Composite::kPool},
    {"aten::tensor_split", "tensor_indices_or_sections", Composite::kIndices},
};

// ------------------------------------------------------------ registration

class Installer {
 public:
  void Install() {
    const MutexLock lock(mutex_);
    is_installed_ = true;
    WrapComposites();
    WrapForeign();
  }
  void Rescan() {
    const MutexLock lock(mutex_);
    if (is_installed_) WrapForeign();
  }
  bool installed() {
    const MutexLock lock(mutex_);
    return is_installed_;
  }

 private:
  void WrapComposites() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WrapForeign() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WrapKey(DispatchKey key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  bool is_installed_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::pair<DispatchKey, std::string>> wrapped_
      ABSL_GUARDED_BY(mutex_);
};

Installer& TheInstaller() {
  static auto* installer = new Installer;
  return *installer;
}

c10::BoxedKernel Wrap(const c10::OperatorName& name,
                      c10::KernelFunction kernel) {
  if (Contains(kGiveTensors, name.name)) {
    return c10::BoxedKernel::makeFromFunctor(
        std::make_unique<TensorGiver>(std::move(kernel)));
  }
  return c10::BoxedKernel::makeFromFunctor(
      std::make_unique<ForeignKernel>(std::move(kernel)));
}

bool IsOurBusiness(const c10::OperatorName& name, DispatchKey key) {
  if (key == DispatchKey::CPU) return name.getNamespace() != "aten";
  for (DispatchKey foreign : kForeignKeys) {
    if (key == foreign) return !Contains(kMetadata, name.name);
  }
  return false;
}

void Installer::WrapKey(DispatchKey key) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name :
       dispatcher.getRegistrationsForDispatchKey(key)) {
    if (!IsOurBusiness(name, key)) continue;
    const auto op = dispatcher.findOp(name);
    if (!op.has_value() || !op->hasSchema()) continue;
    if (!wrapped_.emplace(key, c10::toString(name)).second) continue;
    const auto safe = op->getComputedKernelForDispatchKey(key);
    const c10::KernelFunction& kernel = compat::KernelOf(safe);
    if (!kernel.isValid() || kernel.isFallthrough()) continue;
    RegisterKernel(
        name, key,
        {c10::KernelFunction::makeFromBoxedKernel(Wrap(name, kernel)),
         std::nullopt});
  }
}

void Installer::WrapForeign() {
  QuietOverrides quiet;
  WrapKey(DispatchKey::CPU);
  for (DispatchKey key : kForeignKeys) WrapKey(key);
}

void Installer::WrapComposites() {
  QuietOverrides quiet;
  constexpr auto kKey = DispatchKey::CompositeImplicitAutograd;
  for (const CompositeName& c : kComposites) {
    const auto op =
        c10::Dispatcher::singleton().findOp({c.name, c.overload});
    if (!op.has_value() || !op->hasKernelForDispatchKey(kKey)) continue;
    const auto safe = op->getComputedKernelForDispatchKey(DispatchKey::CPU);
    RegisterKernel(op->operator_name(), kKey,
                   {c10::KernelFunction::makeFromBoxedFunctor(
                        std::make_unique<CompositeKernel>(
                            compat::KernelOf(safe), c.kind)),
                    std::nullopt});
  }
}

}  // namespace

void InstallForeignKernels() { TheInstaller().Install(); }

void RescanLateKernels() { TheInstaller().Rescan(); }

void MakeAllReady(FlushReason reason) {
  if (!MayHavePending()) return;
  FlushAllThreads(reason);
  RevealAllBlocks();
}

namespace {

// True if calls of the op with CPU tensors have ended in a kernel so far.
// libtorch itself registers some late (Python's nested tensors do) for ops that
// had none: these replace nothing.
bool HadKernel(const c10::OperatorName& name) {
  const auto op = c10::Dispatcher::singleton().findOp(name);
  return op.has_value() &&
         op->hasComputedKernelForDispatchKey(DispatchKey::CPU);
}

// Once: the second op of a library comes with the first. `place` is what the
// dispatcher is told: "registered at FILE:LINE".
void PrintReplacedLate(const std::string& op, const std::string& place) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  LogWarning("the CPU kernel of " + op + " is replaced while tjit is on (" +
             place +
             "): such ops run at the call, and what is deferred runs before "
             "them");
}

}  // namespace

c10::KernelFunction WrapLateKernel(const c10::OperatorName& name,
                                   DispatchKey key,
                                   c10::KernelFunction kernel,
                                   const std::string& place) {
  if (quiet_depth > 0 || !kernel.isValid() || kernel.isFallthrough() ||
      !TheInstaller().installed()) {
    return kernel;
  }
  // A program's own kernel of an aten op at the CPU key stands in front of our
  // wrapper: foreign, too.
  if (key != DispatchKey::CPU && !IsOurBusiness(name, key)) return kernel;
  if (key == DispatchKey::CPU && name.getNamespace() == "aten" &&
      HadKernel(name)) {
    RecordReplaced(c10::toString(name));
    PrintReplacedLate(c10::toString(name), place);
  }
  return c10::KernelFunction::makeFromBoxedKernel(
      Wrap(name, std::move(kernel)));
}

QuietOverrides::QuietOverrides()
    : outer_(c10::WarningUtils::get_warning_handler()) {
  c10::WarningUtils::set_warning_handler(this);
  ++quiet_depth;
}

QuietOverrides::~QuietOverrides() {
  --quiet_depth;
  c10::WarningUtils::set_warning_handler(outer_);
}

void QuietOverrides::process(const c10::Warning& warning) {
  if (warning.msg().find("previously registered kernel") == std::string::npos) {
    outer_->process(warning);
  }
}

}  // namespace tjit::runtime
