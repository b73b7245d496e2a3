#include "runtime/library_calls/own_product.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/bit_exact/product_probe.h"
#include "runtime/bit_exact/product_verdicts.h"
#include "runtime/bit_exact/same_bits.h"
#include "runtime/call/kernel_state.h"
#include "runtime/library_calls/product_candidates.h"
#include "runtime/library_calls/trial.h"
#include "runtime/platform/settings.h"
#include "support/counters.h"
#include "support/log.h"
#include "support/mutex.h"
#include "support/planted_defect.h"
#include "support/policy.h"

namespace tjit::runtime {
namespace {

std::string PlaceOf(const SlotAddress& address) {
  return absl::StrCat(
      "+", static_cast<std::uint64_t>(address.byte_offset) % kProductAlignment);
}

// All that the bits depend on stands here, but for what the key of the store
// has. `call`: as eager has it, since libraries treat equal products over other
// strides, or of another op, in another way.
std::string QuestionOf(const Request& request, const ProductCall& call) {
  const Product& p = call.product;
  std::string text = absl::StrCat(
      "product ", p.m, "x", p.k, "x", p.n, call.is_double ? " f64" : " f32",
      " a ", p.a_row, ",", p.a_term, PlaceOf(call.a), " b ", p.b_term, ",",
      p.b_column, PlaceOf(call.b), " c ", p.c_row, PlaceOf(call.c));
  if (call.has_scalars) absl::StrAppend(&text, " addmm");
  if (HasAddend(call)) {
    absl::StrAppend(&text, call.z.slot == call.c.slot ? " in place" : " z ",
                    p.z_row, PlaceOf(call.z));
  }
  if (request.step.args.back().geometry->ndim == 3) {
    absl::StrAppend(&text, " batch ", call.batches, " ", call.a_batch, ",",
                    call.b_batch, ",", call.c_batch);
  }
  return absl::StrCat(text, " state ", absl::Hex(GlobalContext::Now().word));
}

// What the process knows of a question. Never destroyed.
struct KnownProduct {
  std::string question;
  std::optional<std::size_t> candidate;
  std::atomic<bool> is_off{false};  // a check found a difference
};

class KnownProducts {
 public:
  KnownProduct* Find(const std::string& question) {
    const MutexLock lock(mutex_);
    const auto at = known_.find(question);
    return at == known_.end() ? nullptr : at->second.get();
  }
  // Of two threads the first one's holds.
  KnownProduct* Add(const std::string& question,
                    std::optional<std::size_t> candidate) {
    auto made = std::make_unique<KnownProduct>();
    made->question = question;
    made->candidate = candidate;
    const MutexLock lock(mutex_);
    return known_.emplace(question, std::move(made)).first->second.get();
  }

 private:
  Mutex mutex_;
  std::map<std::string, std::unique_ptr<KnownProduct>> known_
      ABSL_GUARDED_BY(mutex_);
};

KnownProducts& Known() {
  static auto& known = *new KnownProducts;  // never destroyed, as op tables
  return known;
}

struct FreeMemory {
  void operator()(char* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<char, FreeMemory>;

// Null if there is none.
Memory Allocate(std::uint64_t bytes) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return Memory(static_cast<char*>(std::aligned_alloc(kAlignment, size)));
}

// A candidate that runs over the memory of the slots.
template <class T>
class BoundProduct {
 public:
  BoundProduct(const ProductCall& call, const ProductCandidate& candidate)
      : call_(call),
        parts_(candidate.parts),
        function_(FunctionOf<T>(*candidate.table)),
        scratch_(static_cast<std::uint64_t>(ScratchOf(parts_)) * sizeof(T)) {}
  const ProductCall& call() const { return call_; }

  // The verdict holds for such addresses.
  bool IsFor(char* const* slots) const {
    const auto is_as_asked = [&](const SlotAddress& address) {
      return (reinterpret_cast<std::uintptr_t>(address.In(slots)) -
              static_cast<std::uint64_t>(address.byte_offset)) %
                 kProductAlignment ==
             0;
    };
    return is_as_asked(call_.a) && is_as_asked(call_.b) &&
           is_as_asked(call_.c) && (!HasAddend(call_) || is_as_asked(call_.z));
  }

  // Bytes that Run() needs.
  std::uint64_t scratch() const { return scratch_; }

  // `scratch`: as many bytes, aligned to 64; null where there are none.
  void Run(char* const* slots, char* scratch) const {
    auto* a = reinterpret_cast<const T*>(call_.a.In(slots));
    auto* b = reinterpret_cast<const T*>(call_.b.In(slots));
    auto* c = reinterpret_cast<T*>(call_.c.In(slots));
    const T* z = HasAddend(call_)
                     ? reinterpret_cast<const T*>(call_.z.In(slots))
                     : nullptr;
    for (std::int64_t i = 0; i < call_.batches; ++i) {
      for (const ProductPart& part : parts_) {
        function_(part.product, a, b + part.first * part.product.b_column,
                  z == nullptr ? nullptr : z + part.first, c + part.first,
                  reinterpret_cast<T*>(scratch));
      }
      a += call_.a_batch;
      b += call_.b_batch;
      c += call_.c_batch;
    }
    if (Planted(Defect::kWrongProduct)) c[-call_.c_batch] += T(1);
  }

 private:
  ProductCall call_;
  std::vector<ProductPart> parts_;
  ProductFn<T> function_;
  std::uint64_t scratch_;
};

template <class T>
class OwnProductStep final : public PreparedStep {
 public:
  OwnProductStep(const Request& request, const ProductCall& call,
                 const ProductCandidate& candidate, KnownProduct* known,
                 std::unique_ptr<PreparedStep> library)
      : own_(call, candidate),
        known_(known),
        library_(std::move(library)),
        tensors_(request.tensors),
        context_(request.step.context),
        slots_(request.slots()),
        scalars_(ScalarsOf(request)),
        counters_(request.trials == nullptr ? nullptr
                                            : request.trials->counters) {}

  void Run(char* const* slots, const ScalarValue* scalars) override {
    if (!IsOwn(scalars) || !own_.IsFor(slots) || !HasScratch()) {
      return RunLibrary(slots, scalars);
    }
    if (counters_ != nullptr) counters_->products_own.Add();
    if (++runs_ % policy::kProductRunsPerCheck == 0) {
      return Check(slots, scalars);
    }
    own_.Run(slots, scratch_);
  }
  std::vector<std::uint64_t> Scratch() const override {
    if (own_.scratch() == 0) return {};
    return {own_.scratch()};
  }
  void Lend(char* data, std::uint64_t bytes) override {
    scratch_ = bytes >= own_.scratch() ? data : nullptr;
    if (scratch_ != nullptr) memory_.reset();
  }
  bool takes_scratch() const override { return own_.scratch() != 0; }
  // The library's step is bound here when it runs, which is seldom.
  bool uses_tensors() const override { return false; }

 private:
  bool IsOwn(const ScalarValue* scalars) const {
    if (own_.call().has_scalars && !(scalars[0].SameBits(scalars_[0]) &&
                                     scalars[1].SameBits(scalars_[1]))) {
      return false;
    }
    return g_settings.own_products() &&
           !known_->is_off.load(std::memory_order_relaxed);
  }
  // Who is not planned, and so is lent none, has memory of its own.
  bool HasScratch() {
    if (own_.scratch() == 0 || scratch_ != nullptr) return true;
    memory_ = Allocate(own_.scratch());
    scratch_ = memory_.get();
    return scratch_ != nullptr;
  }
  void RunLibrary(char* const* slots, const ScalarValue* scalars) {
    ContextScope scope;  // ops within it see the state of the call
    if (library_->uses_tensors()) {
      scope.Switch(context_);
      for (const std::int32_t slot : slots_) tensors_->Bind(slot, slots[slot]);
    }
    library_->Run(slots, scalars);
  }
  // *rows: those of the result, side by side. It has room for them.
  void TakeResult(char* const* slots, std::vector<T>* rows) const;
  void PutResult(const std::vector<T>& rows, char* const* slots) const;
  template <class F>
  void ForEachRow(char* const* slots, F&& f) const;
  // Runs both, and keeps the library's.
  void Check(char* const* slots, const ScalarValue* scalars);
  void SwitchOff();

  BoundProduct<T> own_;
  KnownProduct* const known_;
  const std::unique_ptr<PreparedStep> library_;
  ExecutorTensors* const tensors_;
  const std::uint32_t context_;
  const std::vector<std::int32_t> slots_;
  const std::vector<ScalarValue> scalars_;
  Counters* const counters_;
  std::int64_t runs_ = 0;    // of own code
  char* scratch_ = nullptr;  // lent, or memory_
  Memory memory_;
};

template <class T>
template <class F>
void OwnProductStep<T>::ForEachRow(char* const* slots, F&& f) const {
  const ProductCall& call = own_.call();
  auto* c = reinterpret_cast<T*>(call.c.In(slots));
  for (std::int64_t i = 0; i < call.batches; ++i) {
    for (std::int64_t row = 0; row < call.product.m; ++row) {
      f(c + i * call.c_batch + row * call.product.c_row);
    }
  }
}

template <class T>
void OwnProductStep<T>::TakeResult(char* const* slots,
                                   std::vector<T>* rows) const {
  rows->clear();
  ForEachRow(slots, [&](const T* row) {
    rows->insert(rows->end(), row, row + own_.call().product.n);
  });
}

template <class T>
void OwnProductStep<T>::PutResult(const std::vector<T>& rows,
                                  char* const* slots) const {
  const T* from = rows.data();
  ForEachRow(slots, [&](T* row) {
    std::copy(from, from + own_.call().product.n, row);
    from += own_.call().product.n;
  });
}

template <class T>
void OwnProductStep<T>::Check(char* const* slots, const ScalarValue* scalars) {
  const ProductCall& call = own_.call();
  const auto count =
      static_cast<std::size_t>(call.batches * call.product.m * call.product.n);
  std::vector<T> before, ours, librarys;
  try {
    for (std::vector<T>* rows : {&before, &ours, &librarys}) {
      rows->reserve(count);
    }
  } catch (const std::bad_alloc&) {
    return own_.Run(slots, scratch_);  // the next run that is due is checked
  }
  if (counters_ != nullptr) counters_->products_checked.Add();
  TakeResult(slots, &before);  // an op in place adds to it
  own_.Run(slots, scratch_);
  TakeResult(slots, &ours);
  PutResult(before, slots);
  RunLibrary(slots, scalars);
  TakeResult(slots, &librarys);
  if (FirstDifference(ours.data(), librarys.data(), count) != count) {
    SwitchOff();
  }
}

template <class T>
void OwnProductStep<T>::SwitchOff() {
  if (known_->is_off.exchange(true)) return;  // another thread has said so
  if (counters_ != nullptr) counters_->products_switched_off.Add();
  LogLine(LogLevel::kError,
          absl::StrCat("tjit: own code of ", known_->question,
                       " has other bits than the library, which runs it from "
                       "now on; please report this"));
  const std::string answer =
      absl::StrCat(kNoCandidate, kBecause, "a run had other bits");
  VerdictsOfProducts().Add(known_->question, answer);
  VerdictsOfProducts().Record(known_->question, answer);
  VerdictsOfProducts().Save();
}

// Runs both over memory of its own.
template <class T>
class RequestTrial final : public ProductTrial {
 public:
  RequestTrial(const Request& request, const ProductCall& call,
               const std::vector<ProductCandidate>& candidates,
               PreparedStep* library)
      : request_(request),
        call_(call),
        library_(library),
        scalars_(ScalarsOf(request)) {
    std::uint64_t most = 0;
    for (const ProductCandidate& c : candidates) {
      most = std::max(most, candidates_.emplace_back(call, c).scratch());
    }
    if (most != 0) scratch_ = Allocate(most);
    if (most != 0 && scratch_ == nullptr) throw std::bad_alloc();
  }

  std::vector<Range> Place() override {
    memory_.reset();  // gives the tensors back first
    memory_.emplace(request_, DummyMemory::Use::kRuns);
    std::vector<Range> ranges;
    for (const ByteRange& range : RangesOf(request_)) {
      ranges.push_back({range.first.In(memory_->slots()), range.bytes});
    }
    return ranges;
  }
  void FillFactors(int turn) override {
    const Product& p = call_.product;
    auto* a = reinterpret_cast<T*>(call_.a.In(memory_->slots()));
    auto* b = reinterpret_cast<T*>(call_.b.In(memory_->slots()));
    const auto number = [](bool is_zero) { return is_zero ? T(0) : T(-1); };
    for (std::int64_t i = 0; i < call_.batches; ++i) {
      for (std::int64_t t = 0; t < p.k; ++t) {
        for (std::int64_t row = 0; row < p.m; ++row) {
          a[row * p.a_row + t * p.a_term] = number(row % 2 == 0);
        }
        for (std::int64_t column = 0; column < p.n; ++column) {
          b[t * p.b_term + column * p.b_column] = number(column % 2 != turn);
        }
      }
      a += call_.a_batch;
      b += call_.b_batch;
    }
  }
  void RunLibrary() override {
    library_->Run(memory_->slots(), scalars_.data());
  }
  void Run(std::size_t candidate) override {
    candidates_[candidate].Run(memory_->slots(), scratch_.get());
  }

 private:
  const Request& request_;
  const ProductCall& call_;
  PreparedStep* const library_;
  const std::vector<ScalarValue> scalars_;
  std::vector<BoundProduct<T>> candidates_;
  Memory scratch_;  // for the candidate that runs
  std::optional<DummyMemory> memory_;
};

// A trial writes all bytes of the operands many times over, gaps too.
constexpr std::int64_t kMostTrialBytes = std::int64_t{64} << 20;

bool IsTooLargeToTry(const Request& request) {
  std::int64_t bytes = 0;
  for (const ByteRange& range : RangesOf(request)) {
    bytes += static_cast<std::int64_t>(range.bytes);
  }
  return bytes > kMostTrialBytes;
}

// Null if the question may not be answered now.
template <class T>
KnownProduct* Ask(const Request& request, const std::string& question,
                  const ProductCall& call,
                  const std::vector<ProductCandidate>& candidates,
                  PreparedStep* library) {
  Trials* const trials = request.trials;
  if (trials != nullptr && !trials->are_allowed) {
    trials->are_wanted = true;
    return nullptr;
  }
  std::vector<std::string> names;
  for (const ProductCandidate& c : candidates) names.push_back(c.name);
  RequestTrial<T> trial(request, call, candidates, library);
  bool was_tried = false;
  const std::optional<std::size_t> found = FindProduct(
      {question, call.is_double, call.product.m * call.product.n * call.batches,
       call.product.k},
      names, &VerdictsOfProducts(), &trial, &was_tried);
  if (was_tried && trials != nullptr && trials->counters != nullptr) {
    trials->counters->products_tried.Add();
    if (!found) trials->counters->products_refused.Add();
  }
  return Known().Add(question, found);
}

// `call`: with plain strides.
template <class T>
std::unique_ptr<PreparedStep> Prepare(const Request& request,
                                      const std::string& question,
                                      const ProductCall& call,
                                      std::unique_ptr<PreparedStep>* library) {
  KnownProduct* known = Known().Find(question);
  if (known != nullptr && (!known->candidate || known->is_off.load())) {
    return nullptr;
  }
  const std::vector<ProductCandidate> candidates = CandidatesFor(call);
  if (candidates.empty()) return nullptr;
  if (known == nullptr) {
    if (IsTooLargeToTry(request)) return nullptr;
    known = Ask<T>(request, question, call, candidates, library->get());
  }
  if (known == nullptr || !known->candidate ||
      *known->candidate >= candidates.size()) {
    return nullptr;
  }
  return std::make_unique<OwnProductStep<T>>(
      request, call, candidates[*known->candidate], known, std::move(*library));
}

// A dim of one element may have any stride; the functions want those of dense
// operands.
Product WithPlainStrides(Product p) {
  if (p.m == 1 && p.a_term != 1) p.a_row = 1;
  if (p.k == 1 && p.a_row != 1) p.a_term = 1;
  if (p.n == 1 && p.b_term != 1) p.b_column = 1;
  if (p.k == 1) p.b_term = p.n;
  if (p.m == 1) p.c_row = p.n;
  return p;
}

}  // namespace

std::unique_ptr<PreparedStep> PrepareOwnProduct(
    const Request& request, const ProductCall& call,
    std::unique_ptr<PreparedStep>* library) {
  if (!g_settings.own_products() || *library == nullptr ||
      call.c.slot == call.a.slot || call.c.slot == call.b.slot) {
    return nullptr;
  }
  ProductCall plain = call;
  plain.product = WithPlainStrides(call.product);
  const std::string question = QuestionOf(request, call);
  return call.is_double ? Prepare<double>(request, question, plain, library)
                        : Prepare<float>(request, question, plain, library);
}

}  // namespace tjit::runtime
