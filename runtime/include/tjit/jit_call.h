// One call of a function that tjit::jit() wraps, between the template in jit.h
// and the library. Nothing here is for users.
// Threads: the caller's. Ownership: a JitCall lies on the stack of who calls
// and points to the arguments.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <cstdint>
#include <functional>
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

class GraphCalls;
class JitNode;
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

// What a call knows of a graph for gradients behind its results.
struct JitCallGraph {
  // Before the call: the arguments can be kept for a backward pass.
  bool may_run_again = false;
  // Behind it: End() has put tensors in the place of those that were returned.
  bool has_new_results = false;
  // It was replayed: who keeps what runs the function again; else null.
  JitNode* node = nullptr;
  const runtime::FunctionPlan* replayed = nullptr;
  // Of a backward pass: it is replayed or not looked at, and these arguments
  // are no tensors of the program's.
  bool only_replays = false;
  std::size_t own_begin = 0, own_end = 0;
  // What the call before it has made of numbers, and its graph keeps.
  const std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>>* numbers =
      nullptr;
};
// `run`: runs the function as in this call, and returns its results in order.
TJIT_API void KeepRun(JitNode* node,
                      std::function<std::vector<at::Tensor>()> run);

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

  JitCallGraph& graph() { return graph_; }

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
  friend class GraphCalls;

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
  JitCallGraph graph_;
};

}  // namespace internal

}  // namespace tjit
