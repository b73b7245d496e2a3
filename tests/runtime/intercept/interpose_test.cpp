// The interposed functions, against a runtime that only counts: they win over
// libtorch's own, for calls from inside libtorch, too. This program exports
// its symbols and stands before libtorch, as libtjit does.
#include "runtime/call/interpose.h"
#include "runtime/intercept/interposed_functions.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <c10/core/DefaultDtype.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/library.h>

#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/intercept/direct_calls.h"
#include "runtime/intercept/foreign_kernels.h"
#include "runtime/memory/block.h"
#include "runtime/memory/deferred_storage.h"
#include "runtime/platform/thread_context.h"
#include "runtime/thread/materialize.h"

namespace at::native {
bool cpu_equal(const Tensor& a, const Tensor& b);
}

namespace tjit::runtime {

// ------------------------------------------------------------ a fake runtime

struct Seen {
  bool pending = true;
  std::vector<const void*> reads;
  std::vector<const void*> writes;
  std::vector<FlushReason> flushes, own_flushes;
  int forgotten_teams = 0;
  std::vector<std::string> late_kernels;
  int hooks_outside = 0;
};
Seen seen;

std::atomic<bool> g_enabled{true};
thread_local ThreadContext t_context
    __attribute__((tls_model("initial-exec")));

bool MayHavePending() noexcept { return seen.pending; }
void RecordGlobalFlags() {}
void FlushThisThread(FlushReason reason) {
  seen.own_flushes.push_back(reason);
}
void ForgetTeam() { ++seen.forgotten_teams; }
int ThreadsOfThisThread() { return 1; }
void MaterializeForRead(c10::StorageImpl* s, FlushReason) {
  seen.reads.push_back(s);
}
void MaterializeForRead(const c10::TensorImpl* t, FlushReason) {
  if (t != nullptr) seen.reads.push_back(t);
}
void MaterializeForWrite(const c10::TensorImpl* t, FlushReason) {
  if (t != nullptr) seen.writes.push_back(t);
}
void RecordHostRead() {}
bool IsExposed(const c10::TensorImpl*) { return false; }
void ForgetFill(const at::TensorBase&) {}
void RecordForeignKernel() {}
void FlushAllThreads(FlushReason reason) { seen.flushes.push_back(reason); }
void FlushAllBeforeChange() {
  seen.flushes.push_back(FlushReason::kContextChange);
}
void MakeAllReady(FlushReason reason) { seen.flushes.push_back(reason); }
void MaterializeHook(c10::StorageImpl*) {
  if (t_context.reader == 0) ++seen.hooks_outside;
}
bool TakeOverDeadBlock(Block*) { return false; }
void OnKernelRegistered(const c10::OperatorName&,
                        std::optional<c10::DispatchKey>) {}
c10::KernelFunction WrapLateKernel(const c10::OperatorName& name,
                                   c10::DispatchKey,
                                   c10::KernelFunction kernel,
                                   const std::string&) {
  seen.late_kernels.push_back(c10::toString(name));
  return kernel;
}

namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

class InterposeTest : public testing::Test {
 protected:
  InterposeTest() {
    InstallAllocator();
    seen = Seen();
  }
  ~InterposeTest() override { seen.pending = false; }
};

const std::vector<const char*> kSymbols = {
#define TJIT_CONST_POINTER(symbol) #symbol,
#define TJIT_TENSOR_MAKER(symbol) #symbol,
#define TJIT_BOOL_SETTER(symbol) #symbol,
#define TJIT_INTERPOSED_AS_IS(symbol) #symbol,
#include "runtime/intercept/interposed.def"
};

TEST_F(InterposeTest, AllAreActiveAndLibtorchHasThem) {
  EXPECT_TRUE(InterpositionIsComplete()) << ActiveInterposers();
  for (const char* symbol : kSymbols) {
    std::atomic<void*> cache{nullptr};
    EXPECT_NE(NextDefinition(symbol, cache), dlsym(RTLD_DEFAULT, symbol));
  }
  EXPECT_THAT(ActiveInterposers(),
              testing::StartsWith(std::to_string(kSymbols.size()) + " of "));
}

TEST_F(InterposeTest, AMissingSymbolIsSaidOnceAndThrown) {
  std::atomic<void*> cache{nullptr};
  testing::internal::CaptureStderr();
  EXPECT_THROW(NextDefinition("_ZN4none5suchEv", cache), c10::Error);
  EXPECT_THROW(NextDefinition("_ZN4none5suchEv", cache), c10::Error);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, testing::HasSubstr("does not export _ZN4none5suchEv"));
  EXPECT_EQ(said.find("export", said.find("export") + 1), std::string::npos);
}

template <class T>
bool ConstPointerIsSeen() {
  at::Tensor t = at::empty({4}, c10::CppTypeToScalarType<T>::value);
  seen.reads.clear();
  const T* p = t.const_data_ptr<T>();
  const bool first = p == t.const_data_ptr() &&
                     seen.reads.size() == 1 &&
                     seen.reads[0] == t.unsafeGetTensorImpl();
  t.const_data_ptr<const T>();
  return first && seen.reads.size() == 2;
}

TEST_F(InterposeTest, ConstPointersOfEveryType) {
#define TJIT_CASE(T, name) EXPECT_TRUE(ConstPointerIsSeen<T>()) << #name;
  AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_EXCEPT_COMPLEX_HALF_F8NZ(TJIT_CASE)
#undef TJIT_CASE
}

TEST_F(InterposeTest, NothingIsLookedAtWhileNothingIsPending) {
  at::Tensor t = at::ones({4});
  seen = Seen();
  seen.pending = false;
  t.const_data_ptr<float>();
  std::ostringstream out;
  out << t;
  at::globalContext().setUserEnabledMkldnn(true);
  EXPECT_THAT(seen.reads, IsEmpty());
  EXPECT_THAT(seen.flushes, IsEmpty());
}

TEST_F(InterposeTest, PrintingReadsAndLibtorchsOwnCallsAreSeen) {
  at::Tensor t = at::ones({2});
  seen = Seen();
  std::ostringstream out;
  out << t;
  EXPECT_EQ(seen.reads.front(), t.unsafeGetTensorImpl());
  // at::print reads a copy in double through const_data_ptr<double>.
  EXPECT_THAT(seen.reads, Contains(Not(t.unsafeGetTensorImpl())));
  EXPECT_THAT(out.str(), testing::HasSubstr("CPUFloatType{2}"));
}

TEST_F(InterposeTest, SavingReadsFromInsideLibtorch) {
  at::Tensor t = at::ones({100});
  seen = Seen();
  const std::vector<char> bytes = torch::jit::pickle_save(t);
  EXPECT_GT(bytes.size(), 400u);
  EXPECT_THAT(seen.reads, Contains(t.unsafeGetTensorImpl()));
  EXPECT_THAT(seen.flushes, Each(FlushReason::kConstRead));
  EXPECT_GE(seen.flushes.size(), 2u);  // writeRecord
  EXPECT_EQ(seen.hooks_outside, 0);
}

TEST_F(InterposeTest, AProgramsOwnIteratorsAreSeenAfterTheyAreBuilt) {
  at::Tensor out = at::empty({3});
  at::Tensor in = at::ones({3});
  seen = Seen();
  auto iterator =
      at::TensorIteratorConfig().add_output(out).add_const_input(in).build();
  EXPECT_THAT(seen.writes, ElementsAre(out.unsafeGetTensorImpl()));
  EXPECT_THAT(seen.reads, ElementsAre(in.unsafeGetTensorImpl()));
}

TEST_F(InterposeTest, ResizingReadsTheOldBytes) {
  at::Tensor t = at::ones({3});
  seen = Seen();
  c10::StorageImpl* storage = t.storage().unsafeGetStorageImpl();
  at::native::resize_bytes_cpu(storage, 100);
  EXPECT_THAT(seen.reads, Contains(storage));
  EXPECT_EQ(storage->nbytes(), 100u);
  // From inside libtorch: the kernel of resize_.
  seen = Seen();
  t.resize_({1000});
  EXPECT_THAT(seen.reads, Contains(storage));
}

TEST_F(InterposeTest, EqualOutsideTheDispatcher) {
  at::Tensor a = at::ones({3});
  at::Tensor b = at::ones({3});
  seen = Seen();
  EXPECT_TRUE(at::native::cpu_equal(a, b));
  EXPECT_EQ(seen.reads[0], a.unsafeGetTensorImpl());
  EXPECT_EQ(seen.reads[1], b.unsafeGetTensorImpl());
}

TEST_F(InterposeTest, MakersOfTensorsDoNotExpose) {
  const at::Tensor t = at::tensor({1.f, 2.f, 3.f});
  EXPECT_EQ(seen.hooks_outside, 0);
  EXPECT_TRUE(t.storage().unsafeGetStorageImpl()->has_materializer());
  EXPECT_EQ(t.const_data_ptr<float>()[2], 3);
  t.mutable_data_ptr();
  EXPECT_EQ(seen.hooks_outside, 1);
}

TEST_F(InterposeTest, NothingIsArmedWhileTjitIsOff) {
  g_enabled = false;
  const at::Tensor t = at::tensor({1.f, 2.f});
  std::ostringstream out;
  out << t;
  EXPECT_FALSE(t.storage().unsafeGetStorageImpl()->has_materializer());
  g_enabled = true;
}

TEST_F(InterposeTest, EverySetterFlushesBeforeTheChange) {
  at::Context& context = at::globalContext();
  const auto flushes = [](auto&& change) {
    seen = Seen();
    change();
    EXPECT_THAT(seen.flushes, Each(FlushReason::kContextChange));
    return seen.flushes.size();
  };
  const std::map<std::string, std::function<void()>> setters = {
      {"threads",
       [] { at::set_num_threads(at::get_num_threads() == 2 ? 1 : 2); }},
      {"dtype", [] { c10::set_default_dtype(c10::get_default_dtype()); }},
      {"deterministic",
       [&] { context.setDeterministicAlgorithms(false, false); }},
      {"fill", [&] { context.setDeterministicFillUninitializedMemory(true); }},
      {"mkldnn", [&] { context.setUserEnabledMkldnn(true); }},
      {"mkldnn det", [&] { context.setDeterministicMkldnn(false); }},
      {"nnpack", [&] { context.setUserEnabledNNPACK(true); }},
      {"matmul", [&] { context.setFloat32MatmulPrecision("highest"); }},
      {"fp32",
       [&] {
         context.setFloat32Precision(at::Float32Backend::MKLDNN,
                                     at::Float32Op::ALL,
                                     at::Float32Precision::NONE);
       }},
      {"tf32", [&] { context.setAllowTF32OneDNN(false); }},  // warns
      {"fp16", [&] { context.setAllowFP16ReductionCPU(false); }},
      {"flash", [&] { context.setSDPUseFlash(true); }},
      {"math", [&] { context.setSDPUseMath(true); }},
      {"mem", [&] { context.setSDPUseMemEfficient(true); }},
      {"overrideable", [&] { context.setSDPUseOverrideable(true); }},
      {"sdp fp16", [&] { context.setAllowFP16BF16ReductionMathSDP(false); }},
      {"sdp order", [&] { context.setSDPPriorityOrder({1, 2, 0, 3, 4}); }},
      {"qengine", [&] { context.setQEngine(context.qEngine()); }},
      {"sparse", [&] { context.setCheckSparseTensorInvariants(false); }},
      {"linalg",
       [&] { context.setLinalgPreferredBackend(at::LinalgBackend::Default); }},
      {"prepack", [&] { context.setReleaseWeightsWhenPrepacking(true); }},
  };
  for (const auto& [name, change] : setters) {
    EXPECT_GE(flushes(change), 1u) << name;
  }
}

// A thread's first question for the number sets it once more, and may come from
// a team that somebody's flush waits for.
TEST_F(InterposeTest, TheSameNumberOfThreadsIsNoChange) {
  at::set_num_threads(2);
  seen = Seen();
  at::set_num_threads(2);
  EXPECT_THAT(seen.flushes, IsEmpty());
  EXPECT_THAT(seen.own_flushes, ElementsAre(FlushReason::kContextChange));
  std::thread([] { at::get_num_threads(); }).join();
  EXPECT_THAT(seen.flushes, IsEmpty());
}

// It changes the arithmetic of one thread.
TEST_F(InterposeTest, FlushDenormalIsOfThisThread) {
  seen = Seen();
  at::Context::setFlushDenormal(false);
  EXPECT_THAT(seen.own_flushes, ElementsAre(FlushReason::kContextChange));
  EXPECT_THAT(seen.flushes, IsEmpty());
  EXPECT_EQ(seen.forgotten_teams, 1);
}

at::Tensor Same(const at::Tensor& t) { return t; }

TEST_F(InterposeTest, LateKernelsAreOffered) {
  torch::Library library(torch::Library::DEF, "tjit_interpose_test",
                         std::nullopt, __FILE__, __LINE__);
  library.def("same(Tensor t) -> Tensor");
  seen = Seen();
  torch::Library kernels(torch::Library::IMPL, "tjit_interpose_test",
                         c10::DispatchKey::CPU, __FILE__, __LINE__);
  kernels.impl("same", &Same);
  EXPECT_THAT(seen.late_kernels, ElementsAre("tjit_interpose_test::same"));
}

}  // namespace
}  // namespace tjit::runtime
