#include "runtime/thread/exit_notes.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "recorder/log_word.h"
#include "recorder/trace_text.h"
#include "runtime/library_calls/call_names.h"
#include "runtime/memory/block.h"
#include "runtime/memory/tensor_names.h"
#include "runtime/report/events.h"
#include "runtime/report/instruction_log.h"
#include "runtime/thread/match.h"
#include "support/mutex.h"
#include "support/printed_name.h"

namespace tjit::runtime {
namespace {

constexpr std::size_t kMaxNoted = 100;
constexpr int kMaxFrames = 64;
constexpr std::size_t kMaxSymbol = 160;

struct Noted {
  std::uint64_t lineage;
  ExplainedExit exit;
};
struct Notes {
  Mutex mutex;
  std::vector<Noted> noted ABSL_GUARDED_BY(mutex);
};
Notes& TheNotes() {
  static auto* notes = new Notes;
  return *notes;
}

std::string TextOf(const TensorRef& ref) {
  return ref.impl == nullptr ? "none" : ToText(GeometryOf(ref.impl));
}
std::string TextOf(const ArgRecord& arg) {
  return arg.slot == kNoSlot ? "none" : ToText(arg.geometry);
}

// " called layer1.weight"; "" if it has no name.
std::string NameText(const TensorRef& ref) {
  const std::string name = TensorNameOf(ref.impl);
  return name.empty() ? "" : absl::StrCat(" called ", PrintedName(name));
}

std::string Numbered(const char* what, std::size_t i, const std::string& text) {
  return absl::StrCat(what, " ", i + 1, " ", text);
}

void CompareTensors(const TraceNode& node, const CallFrame& frame,
                    ExplainedExit* exit) {
  const StepRecord& step = node.step;
  if (frame.tensors.size() != step.args.size()) {
    exit->expected = absl::StrCat(step.args.size(), " tensors");
    exit->actual = absl::StrCat(frame.tensors.size(), " tensors");
    return;
  }
  for (std::uint32_t i = 0; i < frame.tensors.size(); ++i) {
    const std::string then = TextOf(step.args[i]);
    const std::string now = TextOf(frame.tensors[i]);
    if (then == now) continue;
    exit->expected =
        then + RecordedNameText(" recorded as ", node, /*is_result=*/false, i);
    exit->actual = Numbered("tensor", i, now + NameText(frame.tensors[i]));
    return;
  }
}

void CompareScalars(const StepRecord& step, const CallFrame& frame,
                    ExplainedExit* exit) {
  for (std::uint32_t i = 0;
       i < frame.scalars.size() && i < step.scalars.size(); ++i) {
    if (frame.scalars[i].SameBits(step.scalars[i].value)) continue;
    exit->expected = PlainText(step.scalars[i].value);
    exit->actual = Numbered("number", i, PlainText(frame.scalars[i]));
    return;
  }
}

// The first tensor that does not lie where the step had it.
void CompareSlots(const TraceNode& node, const CallFrame& frame, const Run& run,
                  ExplainedExit* exit) {
  const StepRecord& step = node.step;
  for (std::uint32_t i = 0;
       i < frame.tensors.size() && i < step.args.size(); ++i) {
    const auto s = static_cast<std::size_t>(step.args[i].slot);
    const c10::TensorImpl* impl = frame.tensors[i].impl;
    if (step.args[i].slot == kNoSlot || impl == nullptr ||
        s >= run.slots.size()) {
      continue;
    }
    const c10::StorageImpl* storage = StorageOf(impl);
    if (storage != nullptr && BlockOf(storage) == run.slots[s].block) continue;
    exit->actual = Numbered(
        "tensor", i, TextOf(frame.tensors[i]) + NameText(frame.tensors[i]));
    exit->expected = absl::StrCat(
        "the one in slot ", s,
        RecordedNameText(", recorded as ", node, /*is_result=*/false, i));
    return;
  }
}

void Compare(const TraceNode& node, const CallFrame& frame, const Run& run,
             BailReason why, ExplainedExit* exit) {
  const StepRecord& step = node.step;
  exit->op = std::string(OpName(step.op));
  switch (why) {
    case BailReason::kOpDiffers:
      exit->expected = exit->op;
      exit->actual = frame.entry.name;
      return;
    case BailReason::kMetaDiffers:
    case BailReason::kPlaceDiffers:
      return CompareTensors(node, frame, exit);
    case BailReason::kScalarDiffers:
      return CompareScalars(step, frame, exit);
    case BailReason::kSlotDiffers:
    case BailReason::kInputExposed:
    case BailReason::kInputForeign:
      return CompareSlots(node, frame, run, exit);
    default:
      return;
  }
}

// "libx.so" of "/usr/lib/libx.so".
std::string_view BaseName(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool IsBetween(std::string_view module) {
  for (const std::string_view known :
       {"libtjit", "libtorch", "libc10", "libgomp", "libstdc++", "libc.so",
        "libgcc"}) {
    if (module.starts_with(known)) return true;
  }
  return false;
}

std::string Demangled(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), &std::free);
  std::string name = status == 0 ? text.get() : symbol;
  if (name.size() > kMaxSymbol) name = name.substr(0, kMaxSymbol) + "...";
  return name;
}

bool IsPython(std::string_view module) {
  return module.starts_with("libpython") || module.starts_with("python");
}

// Looked for among what is loaded.
struct Module {
  std::uintptr_t address;
  bool is_found;
  const char* path;  // "" for the program itself
};

// Sets `is_found` and `path` of the Module at `wanted`, if it is this one.
int FindIn(dl_phdr_info* loaded, std::size_t, void* wanted) {
  auto* const module = static_cast<Module*>(wanted);
  for (int i = 0; i < loaded->dlpi_phnum; ++i) {
    const auto& part = loaded->dlpi_phdr[i];
    const std::uintptr_t begin = loaded->dlpi_addr + part.p_vaddr;
    if (part.p_type != PT_LOAD || module->address < begin ||
        module->address >= begin + part.p_memsz) {
      continue;
    }
    module->is_found = true;
    module->path = loaded->dlpi_name;
    return 1;
  }
  return 0;
}

// dladdr() would say it too, but looks for a symbol: through all that libtorch
// has, which takes a millisecond.
bool IsLibraryBetween(void* address) {
  Module module{reinterpret_cast<std::uintptr_t>(address), false, ""};
  dl_iterate_phdr(&FindIn, &module);
  return !module.is_found || IsBetween(BaseName(module.path));
}

// True the first time that a run leaves the trace for that reason.
bool IsToBeNoted(const Trace& trace, BailReason why) {
  if (trace.left[static_cast<std::size_t>(why)].load(
          std::memory_order_relaxed) != 0) {
    return false;
  }
  Notes& notes = TheNotes();
  // A child of a fork may find it locked for ever: then nothing is noted.
  if (!notes.mutex.try_lock()) return false;
  const MutexLock lock(notes.mutex, std::adopt_lock);
  return notes.noted.size() < kMaxNoted;
}

}  // namespace

std::string PlaceOfCall() {
  std::array<void*, kMaxFrames> frames;
  const int count = backtrace(frames.data(), kMaxFrames);
  for (int i = 0; i < count; ++i) {
    if (IsLibraryBetween(frames[i])) continue;
    Dl_info info;
    if (dladdr(frames[i], &info) == 0 || info.dli_fname == nullptr) continue;
    const std::string_view module = BaseName(info.dli_fname);
    if (IsPython(module)) return "";
    const auto* at = static_cast<const char*>(frames[i]);
    if (info.dli_sname == nullptr) {
      return absl::StrCat(
          std::string(module), "+0x",
          absl::Hex(at - static_cast<const char*>(info.dli_fbase)));
    }
    return absl::StrCat(
        Demangled(info.dli_sname), "+0x",
        absl::Hex(at - static_cast<const char*>(info.dli_saddr)), " in ",
        std::string(module));
  }
  return "";
}

void RecordExit(const TraceNode& node, const CallFrame& frame, const Run& run,
                BailReason why, std::uint64_t lineage) {
  const Trace* trace = node.owner.load(std::memory_order_acquire);
  const TraceNode* next = node.likely.load(std::memory_order_relaxed);
  if (next == nullptr) next = node.first_child.load(std::memory_order_acquire);
  if (trace == nullptr || next == nullptr) return;
  const bool is_noted = IsToBeNoted(*trace, why);
  const bool is_told = TellsEvents() && IsFirstFallback(lineage, *trace, why);
  if (!is_noted && !is_told) return;
  ExplainedExit exit;
  exit.sequence = trace->id;
  exit.after_ops = node.depth + 1;
  exit.reason = BailName(why);
  Compare(*next, frame, run, why, &exit);
  if (is_told) {
    KeepDifference(*trace, why, exit.op, exit.expected, exit.actual);
  }
  if (!is_noted) return;
  exit.place = PlaceOfCall();
  if (InstructionLogOn()) {
    LogTraceEvent(
        LogEvent::kDetect, "Differs", trace,
        absl::StrCat("after=", exit.after_ops, " reason=", exit.reason, " op=",
                     LogWordOf(exit.op), " expected=", LogWordOf(exit.expected),
                     " actual=", LogWordOf(exit.actual),
                     " place=", LogWordOf(exit.place)));
  }
  Notes& notes = TheNotes();
  if (!notes.mutex.try_lock()) return;
  const MutexLock lock(notes.mutex, std::adopt_lock);
  notes.noted.push_back({lineage, std::move(exit)});
}

std::vector<ExplainedExit> RecordedExits(std::uint64_t lineage) {
  Notes& notes = TheNotes();
  std::vector<ExplainedExit> exits;
  if (!notes.mutex.try_lock()) return exits;
  const MutexLock lock(notes.mutex, std::adopt_lock);
  for (const Noted& noted : notes.noted) {
    if (noted.lineage == lineage) exits.push_back(noted.exit);
  }
  return exits;
}

}  // namespace tjit::runtime
