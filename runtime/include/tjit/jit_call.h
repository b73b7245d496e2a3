// One call of a function that tjit::jit() wraps, between the template in jit.h
// and the library. Nothing here is for users.
// Threads: the caller's. Ownership: a JitCall lies on the stack of who calls
// and points to the arguments.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tjit/export.h"
#include "tjit/fields.h"

namespace tjit {

struct JitOptions;
struct JitStats;
struct PackageOptions;
struct TorchscriptOptions;

namespace runtime {
struct FunctionInputs;
struct FunctionModule;
struct FunctionPlan;
struct FunctionRecord;
class ThreadState;
enum class Refusal : std::uint8_t;
}  // namespace runtime

namespace internal {

struct JitCore;
struct JitSession;

// Where tjit is off it is made ready for jit() alone.
void TurnOnForJit();

TJIT_API std::shared_ptr<JitCore> MakeJitCore(JitOptions options);
TJIT_API void ResetJitCore(JitCore* core);
TJIT_API JitStats StatsOfJitCore(const JitCore& core);

// Hands `text` on as words: its length, then eight bytes each.
template <class TakeWord>
void SplitIntoWords(std::string_view text, const TakeWord& take) {
  take(text.size());
  for (std::size_t i = 0; i < text.size(); i += 8) {
    std::uint64_t word = 0;
    __builtin_memcpy(&word, text.data() + i,
                     text.size() - i < 8 ? text.size() - i : 8);
    take(word);
  }
}

// Its address tells one list of types from another.
template <class...>
inline constexpr char kTypes = 0;

// One call, on the stack of who calls.
class TJIT_API JitCall {
 public:
  explicit JitCall(JitCore* core) : core_(core) {}
  ~JitCall() {
    if (session_ != nullptr || is_scoped_) Leave();
  }
  JitCall(const JitCall&) = delete;
  JitCall& operator=(const JitCall&) = delete;

  // Arguments, in order.
  void Tensor(const at::Tensor& t) { tensors_.push_back(&t); }
  void Number(double n) { numbers_.push_back(n); }
  // One that an argument computes. Of two with one value nobody could say which
  // of them an op uses, so they are one; which are is a word.
  void ComputedNumber(double n) {
    std::size_t first = 0;
    while (first < computed_.size() &&
           __builtin_memcmp(&numbers_[computed_[first]], &n, sizeof(n)) != 0) {
      ++first;
    }
    Word(first);
    if (first < computed_.size()) return;
    computed_.push_back(numbers_.size());
    Number(n);
  }
  // An argument has a state on the host. False if it was passed before.
  bool AddState(const void* state) {
    for (const void* known : states_) {
      if (known == state) return false;
    }
    states_.push_back(state);
    return true;
  }
  void Word(std::uint64_t w) { words_.push_back(w); }
  void Text(std::string_view text) {
    SplitIntoWords(text, [this](std::uint64_t w) { Word(w); });
  }

  // True: the call was replayed, returned() and TakeResult() have its results.
  // False: the function is to be run, then End() is to be called.
  bool Begin();
  // The object that the function returned, without its tensors.
  const void* returned() const { return returned_; }
  at::Tensor TakeResult() { return std::move(results_[next_result_++]); }

  // Behind the fields of each argument. Once the function has run, Check...()
  // compare them: field `i` of each kind.
  struct Fields3 {
    std::uint32_t tensors, numbers, words;
  };
  Fields3 fields() const {
    return {static_cast<std::uint32_t>(tensors_.size()),
            static_cast<std::uint32_t>(numbers_.size()),
            static_cast<std::uint32_t>(words_.size())};
  }
  // REQUIRES: wants_results().
  void CheckTensor(std::size_t i, const at::Tensor& t);
  void CheckNumber(std::size_t i, double n);
  void CheckWord(std::size_t i, std::uint64_t w);

  // The function may write into `parameter`, although that asks for gradients,
  // and may change its gradient.
  // REQUIRES: wants_results().
  void AllowUpdates(const at::Tensor& parameter);
  // Whether the state of an argument is what a replay would make of it.
  // REQUIRES: wants_results().
  void CheckState(bool is_as_expected);

  // True if End() wants the results.
  bool wants_results() const { return session_ != nullptr; }
  void AddResult(const at::Tensor& t) { results_.push_back(t); }
  void AddResultWord(std::uint64_t w) { result_words_.push_back(w); }
  void End(std::shared_ptr<const void> returned);

  // What the function returned, without its tensors, where it is replayed for
  // these arguments. The core has it. THROWS: c10::Error from `who` where not.
  const void* ReturnedToSave(const char* who) const;
  // Instead of Begin(): writes what such a call replays (torchscript.h).
  void SaveTorchscript(const std::string& path,
                       const TorchscriptOptions& options) const;
  // The same for package.h.
  void SavePackage(const std::string& path,
                   const PackageOptions& options) const;

 private:
  struct Found;
  const runtime::FunctionPlan* PlanToSave(const char* who) const;
  runtime::FunctionModule MakeModule(const char* who,
                                     const TorchscriptOptions& options) const;
  runtime::FunctionInputs Inputs() const;
  Found Find(const runtime::ThreadState& state, std::uint32_t context) const;
  void FindRecord(const runtime::ThreadState& state, std::uint32_t context,
                  Found* found) const;
  bool Replay(runtime::ThreadState* state, Found* found);
  std::shared_ptr<const runtime::FunctionRecord> FindOtherRecord(
      const runtime::ThreadState& state, const runtime::FunctionRecord& follows,
      std::size_t read, std::uint64_t bits) const;
  const runtime::FunctionPlan* FindOther(const runtime::FunctionPlan& plan,
                                         std::size_t read,
                                         std::uint64_t bits) const;
  void Observe(runtime::ThreadState* state, Found found, std::uint32_t context,
               bool is_verified);
  void MakeResults(const runtime::FunctionPlan& plan,
                   c10::ArrayRef<at::Tensor> made);
  void SetGradients(const runtime::FunctionPlan& plan);
  std::vector<bool> KeptResults(const std::vector<at::Tensor>& leaves) const;
  void Publish(const JitSession& session,
               std::unique_ptr<runtime::FunctionPlan> plan);
  void EndInVain(const JitSession& session);
  void RecordRefusal(std::uint64_t form, runtime::Refusal why,
                     std::uint32_t op);
  void Leave();

  JitCore* const core_;
  c10::SmallVector<const at::Tensor*, 8> tensors_;
  c10::SmallVector<double, 12> numbers_;
  c10::SmallVector<std::size_t, 12> computed_;  // which numbers are
  c10::SmallVector<const void*, 2> states_;
  c10::SmallVector<std::uint64_t, 12> words_;
  c10::SmallVector<at::Tensor, 4> results_;
  c10::SmallVector<std::uint64_t, 4> result_words_;
  std::size_t next_result_ = 0;
  const void* returned_ = nullptr;
  JitSession* session_ = nullptr;  // owned
  bool is_scoped_ = false;
};

// Visits an argument again: the function may have changed it.
struct ArgumentChecker {
  JitCall& call;
  JitCall::Fields3 at;
  void Tensor(const at::Tensor& t) { call.CheckTensor(at.tensors++, t); }
  void Number(double n) { call.CheckNumber(at.numbers++, n); }
  void Word(std::uint64_t w) { call.CheckWord(at.words++, w); }
  void Text(std::string_view text) {
    SplitIntoWords(text, [this](std::uint64_t w) { Word(w); });
  }
};

// Visits an argument with a state on the host.
struct HostVisitor {
  JitCall& call;
  void Tensor(const at::Tensor& t) { call.Tensor(t); }
  void Number(double n) { call.ComputedNumber(n); }
  void Word(std::uint64_t w) { call.Word(w); }
  // The object has to be the same one.
  void Object(const void* object) {
    Word(reinterpret_cast<std::uintptr_t>(object));
  }
};

// One argument of a call, before and behind it. `Argument` is a reference where
// the caller's own object is passed.
template <class Argument>
class ArgumentWatch {
 public:
  using Type = std::remove_cvref_t<Argument>;

  ArgumentWatch(JitCall& call, const Type& argument) : at_(call.fields()) {
    if constexpr (HasHostState<Type>) {
      moves_on_ = call.AddState(&argument);
      HostVisitor visitor{call};
      Fields<Type>::Visit(argument, visitor);
    } else {
      Fields<Type>::Visit(argument, call);
    }
  }

  // The function is about to run, and to be looked at.
  void Begin(JitCall& call, const Type& argument) {
    if constexpr (HasHostState<Type>) {
      before_ = HostState<Type>::Note(argument, call);
    }
  }
  // It has returned. What it did not get by reference may be gone.
  void End(JitCall& call, const std::remove_reference_t<Argument>& argument) {
    if constexpr (HasHostState<Type>) {
      call.CheckState(HostState<Type>::HasMovedOn(before_, argument));
    } else if constexpr (std::is_lvalue_reference_v<Argument>) {
      ArgumentChecker checker{call, at_};
      FieldsOf<Argument>::Visit(argument, checker);
    }
  }
  // The call was replayed.
  void MoveOn(Type& argument) {
    if constexpr (HasHostState<Type>) {
      if (moves_on_) HostState<Type>::MoveOn(argument);
    }
  }
  void MoveOn(const Type&) {
    static_assert(!HasHostState<Type>,
                  "tjit::jit: pass the optimizer as one that may be changed");
  }

 private:
  JitCall::Fields3 at_;
  bool moves_on_ = false;
  [[no_unique_address]] typename HostState<Type>::Before before_;
};

// Hands the results of a call to End().
struct ResultReader {
  JitCall& call;
  void Tensor(const at::Tensor& t) { call.AddResult(t); }
  void Number(double n) {
    std::uint64_t bits = 0;
    static_assert(sizeof(bits) == sizeof(n));
    __builtin_memcpy(&bits, &n, sizeof(bits));
    call.AddResultWord(bits);
  }
  void Word(std::uint64_t w) { call.AddResultWord(w); }
  void Text(std::string_view text) {
    SplitIntoWords(text, [this](std::uint64_t w) { Word(w); });
  }
};
struct TensorClearer {
  void Tensor(at::Tensor& t) { t.reset(); }
  void Number(double) {}
  void Word(std::uint64_t) {}
  void Text(std::string_view) {}
};
struct ResultWriter {
  JitCall& call;
  void Tensor(at::Tensor& t) { t = call.TakeResult(); }
  void Number(double) {}
  void Word(std::uint64_t) {}
  void Text(std::string_view) {}
};

}  // namespace internal

}  // namespace tjit
