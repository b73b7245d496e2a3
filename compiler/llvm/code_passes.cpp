#include "compiler/llvm/code_passes.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include "compiler/llvm/llvm_versions.h"
#include "llvm/CodeGen/AsmPrinter.h"
#include "llvm/CodeGen/MachineModuleInfo.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/MC/MCAsmBackend.h"
#include "llvm/MC/MCCodeEmitter.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCObjectWriter.h"
#include "llvm/MC/MCStreamer.h"
#include "llvm/MC/TargetRegistry.h"

namespace tjit::llvm_backend {
namespace {

// By Pass::getPassName(), sorted, as those below. Note [Passes that find
// nothing].
constexpr std::string_view kFindNothing[] = {
    "Analyze Machine Code For Garbage Collection",
    "Argument Stack Rebase",
    "Check CFA info and insert CFI instructions if needed",
    "Contiguously Lay Out Funclets",
    "Detect Dead Lanes",
    "Early If-Conversion",
    "Exception handling preparation",
    "Expand Atomic instructions",
    "Expand indirectbr instructions",
    "Expand large div/rem",
    "Expand large fp convert",
    "Expand memcmp() to load/stores",
    "Expand reduction intrinsics",
    "Expand vector predication intrinsics",
    "Fixup Statepoint Caller Saved",
    "Implement the 'patchable-function' attribute",
    "Init Undef Pass",
    "Insert KCFI indirect call checks",
    "Insert XRay ops",
    "Insert fentry calls",
    "Insert stack protectors",
    "Instrument function entry/exit with calls to e.g. mcount() (post "
    "inlining)",
    "Interleaved Access Pass",
    "Live DEBUG_VALUE analysis",
    "Local Dynamic TLS Access Clean-up",
    "Local Stack Slot Allocation",
    "Lower AMX intrinsics",
    "Lower AMX type for load/store",
    "Lower Garbage Collection Instructions",
    "Lower constant intrinsics",
    "Machine Instruction Scheduler",
    "Machine Sanitizer Binary Metadata",
    "Merge disjoint stack slots",
    "Optimize machine instruction PHIs",
    "Pre-ISel Intrinsic Lowering",
    "Prepare callbr",
    "Pseudo Probe Inserter",
    "Register Allocation Pass Scoring",
    "Remove Redundant DEBUG_VALUE analysis",
    "Rename Disconnected Subregister Components",
    "Replace intrinsics with calls to vector library",
    "Safe Stack instrumentation pass",
    "Shadow Stack GC Lowering",
    "Stack Frame Layout Analysis",
    "StackMap Liveness Analysis",
    "TLS Variable Hoist",
    "Tail Duplication",
    "Tile Register Configure",
    "Tile Register Pre-configure",
    "Unpack machine instruction bundles",
    "X86 Atom pad short functions",
    "X86 Avoid Store Forwarding Blocks",
    "X86 Discriminate Memory Operands",
    "X86 Domain Reassignment Pass",
    "X86 Fixup SetCC",
    "X86 Indirect Branch Tracking",
    "X86 Indirect Thunks",
    "X86 Insert Cache Prefetches",
    "X86 LEA Optimize",
    "X86 Load Value Injection (LVI) Load Hardening",
    "X86 Load Value Injection (LVI) Ret-Hardening",
    "X86 Lower Tile Copy",
    "X86 Optimize Call Frame",
    "X86 PIC Global Base Reg Initialization",
    "X86 Partial Reduction",
    "X86 Return Thunks",
    "X86 Speculative Execution Side Effect Suppression",
    "X86 Windows Fixup Buffer Security Check",
    "X86 insert wait instruction",
    "X86 speculative load hardening",
};

// Note [Passes that are not worth it].
constexpr std::string_view kNotWorthIt[] = {
    "BreakFalseDeps",
    "Early Machine Loop Invariant Code Motion",
    "Early Tail Duplication",
    "Live Range Shrink",
    "Machine Common Subexpression Elimination",
    "Machine Copy Propagation Pass",
    "Machine InstCombiner",
    "Machine Late Instructions Cleanup Pass",
    "Machine Loop Invariant Code Motion",
    "Machine code sinking",
    "PostRA Machine Sink",
    "Shrink Wrapping analysis",
    "X86 Byte/Word Instruction Fixup",
    "X86 Execution Dependency Fix",
    "X86 Fixup Inst Tuning",
    "X86 cmov Conversion",
};

template <std::size_t n>
bool Has(const std::string_view (&names)[n], const llvm::Pass& pass) {
  const llvm::StringRef name = pass.getPassName();
  return std::binary_search(std::begin(names), std::end(names),
                            std::string_view(name.data(), name.size()));
}

// Takes the passes of LLVM's configuration and hands on those that are wanted.
class Chooser : public llvm::legacy::PassManagerBase {
 public:
  Chooser(llvm::legacy::PassManager* chosen, bool takes_all)
      : chosen_(*chosen), takes_all_(takes_all) {}

  void add(llvm::Pass* pass) override {
    if (Has(kNotWorthIt, *pass) || (!takes_all_ && Has(kFindNothing, *pass))) {
      delete pass;
    } else {
      chosen_.add(pass);
    }
  }

 private:
  llvm::legacy::PassManager& chosen_;
  const bool takes_all_;
};

std::unique_ptr<llvm::MCStreamer> ObjectStreamer(
    const llvm::TargetMachine& machine, llvm::MCContext* context,
    llvm::raw_pwrite_stream* to) {
  const llvm::Target& target = machine.getTarget();
  const llvm::MCSubtargetInfo& subtarget = *machine.getMCSubtargetInfo();
  const llvm::MCTargetOptions& options = machine.Options.MCOptions;
  std::unique_ptr<llvm::MCCodeEmitter> emitter(
      target.createMCCodeEmitter(*machine.getMCInstrInfo(), *context));
  std::unique_ptr<llvm::MCAsmBackend> backend(target.createMCAsmBackend(
      subtarget, *machine.getMCRegisterInfo(), options));
  if (emitter == nullptr || backend == nullptr) return nullptr;
  std::unique_ptr<llvm::MCObjectWriter> writer =
      backend->createObjectWriter(*to);
  return std::unique_ptr<llvm::MCStreamer>(target.createMCObjectStreamer(
      machine.getTargetTriple(), *context, std::move(backend),
      std::move(writer), std::move(emitter), subtarget));
}

}  // namespace

bool AddCodePasses(llvm::TargetMachine* machine, bool takes_all,
                   llvm::CodeGenFileType kind, llvm::raw_pwrite_stream* to,
                   llvm::legacy::PassManager* passes) {
  auto* const llvm_machine = static_cast<CodeMachine*>(machine);
  Chooser chooser(passes, takes_all);
  auto* module_info = new llvm::MachineModuleInfoWrapperPass(llvm_machine);
  llvm::MCContext& context = module_info->getMMI().getContext();
  llvm::TargetPassConfig* config = llvm_machine->createPassConfig(chooser);
  config->setDisableVerify(true);
  passes->add(config);
  passes->add(module_info);
  if (config->addISelPasses()) return false;
  config->addMachinePasses();
  config->setInitialized();
  if (kind == llvm::CodeGenFileType::AssemblyFile) {
    return !llvm_machine->addAsmPrinter(*passes, *to, nullptr, kind, context);
  }
  auto streamer = ObjectStreamer(*machine, &context, to);
  if (streamer == nullptr) return false;
  llvm::FunctionPass* printer =
      machine->getTarget().createAsmPrinter(*machine, std::move(streamer));
  if (printer == nullptr) return false;
  passes->add(printer);
  passes->add(llvm::createFreeMachineFunctionPass());
  return true;
}

}  // namespace tjit::llvm_backend
