#include "compiler/llvm/engine.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/llvm/code_passes.h"
#include "compiler/llvm/llvm_versions.h"
#include "compiler/llvm/planted_flag.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ExecutionEngine/JITEventListener.h"
#include "llvm/ExecutionEngine/RuntimeDyld.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "support/log.h"

namespace tjit::llvm_backend {
namespace {

using llvm::TargetMachine;

// Where this thread goes on when LLVM has given up, and why it has. Nothing is
// allocated on the way there: there may be no memory.
struct RecoveryPoint {
  std::jmp_buf place;
  char why[256] = "";
};

thread_local RecoveryPoint* t_recovery_point = nullptr;

// Sets the recovery point for as long as this lives, whatever ends it: a
// return, a long jump or an exception.
class RecoveryPointScope {
 public:
  explicit RecoveryPointScope(RecoveryPoint* recovery_point) {
    t_recovery_point = recovery_point;
  }
  ~RecoveryPointScope() { t_recovery_point = nullptr; }
  RecoveryPointScope(const RecoveryPointScope&) = delete;
  RecoveryPointScope& operator=(const RecoveryPointScope&) = delete;
};

// Note [Half made]. What is made once, by the first that needs it, stays half
// made if memory runs out in the middle: a long jump, and an exception in LLVM,
// pass by the guards of static variables, and whoever comes next waits for
// them forever. So LLVM is not asked again if it happens before a first kernel
// was made, from its text to code in memory. All of it is of the one thread
// that compiles.
bool g_has_emitted = false;
bool g_has_loaded = false;  // what may have come from the disk
bool g_is_half_made = false;

void GoBack(const char* reason) {
  if (t_recovery_point == nullptr) return;  // not one of ours: LLVM aborts
  std::snprintf(t_recovery_point->why, sizeof(t_recovery_point->why),
                "LLVM gave up: %s", reason);
  std::longjmp(t_recovery_point->place, 1);
}

void OnFatal(void*, const char* reason, bool) {
  g_is_half_made = false;
  GoBack(reason);
}

// LLVM expects of this one that it does not return.
void OnBadAlloc(void*, const char* reason, bool) {
  GoBack(reason);
  std::abort();
}

void PlantFailure(std::uint32_t flags) {
  if (PlantsFailure(flags, kTjitLlvmPlantFatal)) {
    llvm::report_fatal_error("planted by a test");
  }
  if (PlantsFailure(flags, kTjitLlvmPlantNoHeap)) {
    llvm::report_bad_alloc_error("no memory, planted by a test");
  }
  if (PlantsFailure(flags, kTjitLlvmPlantThrow)) throw std::bad_alloc();
}

const llvm::StringMap<bool>& HostFeatures() {
  static const llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  return features;
}

int HostVectorBits() {
  // Masked bytes and words need BW, narrow ones VL.
  const auto has = [](const char* name) { return HostFeatures().lookup(name); };
  if (has("avx512f") && has("avx512bw") && has("avx512vl") && has("avx512dq")) {
    return 512;
  }
  return has("avx2") && has("fma") ? 256 : 128;
}

int BitsFor(int vector_bits) {
  const int host = HostVectorBits();
  return vector_bits == 0 || vector_bits > host ? host : vector_bits;
}

// The host's features without those of wider vectors.
std::string FeaturesFor(int bits) {
  std::string text;
  for (const auto& feature : HostFeatures()) {
    const llvm::StringRef name = feature.getKey();
    const bool is_wide = name.starts_with("avx512") || name == "evex512" ||
                         name.starts_with("avx10") || name.starts_with("amx");
    const bool is_avx = name.starts_with("avx") || name == "fma" ||
                        name == "f16c" || name == "fma4" || name == "xop" ||
                        name == "vaes" || name == "vpclmulqdq" ||
                        name == "sha512" || name == "sm3" || name == "sm4";
    const bool is_off = (bits < 512 && is_wide) || (bits < 256 && is_avx);
    absl::StrAppend(&text, text.empty() ? "" : ",",
                    feature.getValue() && !is_off ? "+" : "-", name.str());
  }
  return text;
}

TargetMachine* MachineFor(int bits, std::string* error) {
  static auto* machines = new std::map<int, std::unique_ptr<TargetMachine>>();
  std::unique_ptr<TargetMachine>& machine = (*machines)[bits];
  if (machine != nullptr) return machine.get();
  // Induction variables are simple here, and the pass over them costs a tenth.
  // So do the schedulers, before and behind the allocation of registers: vector
  // code is in the order of the program, and processors that have vectors
  // reorder it themselves. Preparing, which moves addresses to where they are
  // used, finds them there. Note [Passes that are not worth it] in
  // code_passes.h has the first two.
  const char* const arguments[] = {"tjit",
                                   "-fast-isel",
                                   "-regalloc=basic",
                                   "-disable-lsr",
                                   "-enable-misched=false",
                                   "-disable-post-ra",
                                   "-disable-cgp",
                                   "-disable-constant-hoisting",
                                   "-disable-partial-libcall-inlining",
                                   "-disable-mergeicmps"};
  llvm::cl::ParseCommandLineOptions(static_cast<int>(std::size(arguments)),
                                    arguments, "", &llvm::nulls());
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  const TargetName triple(llvm::sys::getProcessTriple());
  const llvm::Target* target =
      llvm::TargetRegistry::lookupTarget(triple, *error);
  if (target == nullptr) return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  machine.reset(target->createTargetMachine(
      triple, llvm::sys::getHostCPUName(), FeaturesFor(bits), options,
      llvm::Reloc::PIC_, llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default,
      /*JIT=*/true));
  if (machine == nullptr) {
    *error = "no code generator for " + llvm::sys::getProcessTriple();
  }
  return machine.get();
}

// Note [One pipeline]. To set up LLVM's passes takes as long as a small kernel
// takes to go through them, so they are kept, as by llc's -compile-twice. What
// they know of a module goes when they have run; the passes and the memory of
// their machine code context are made anew from time to time.
class Pipeline {
 public:
  Pipeline(TargetMachine* machine, bool takes_all) : stream_(object_) {
    is_usable_ =
        AddCodePasses(machine, takes_all, llvm::CodeGenFileType::ObjectFile,
                      &stream_, &passes_);
  }

  // The pipeline of a machine. One that has not come to its end, as LLVM gave
  // up in it, is left as it is.
  static Pipeline* For(TargetMachine* machine, bool takes_all) {
    using Key = std::pair<TargetMachine*, bool>;
    static auto* all = new std::map<Key, std::unique_ptr<Pipeline>>();
    std::unique_ptr<Pipeline>& pipeline = (*all)[{machine, takes_all}];
    if (pipeline != nullptr && pipeline->is_running_) {
      static_cast<void>(pipeline.release());
    }
    if (pipeline == nullptr || pipeline->runs_ == kMostRuns) {
      pipeline = std::make_unique<Pipeline>(machine, takes_all);
    }
    return pipeline.get();
  }

  std::string Emit(llvm::Module* module, std::uint32_t flags,
                   std::string* object) {
    if (!is_usable_) return "LLVM emits no objects for this machine";
    is_running_ = true;
    PlantFailure(flags);
    object_.clear();
    passes_.run(*module);
    object->assign(object_.data(), object_.size());
    g_has_emitted = true;
    is_running_ = false;
    ++runs_;
    return "";
  }

 private:
  static constexpr int kMostRuns = 256;

  llvm::SmallVector<char, 0> object_;
  llvm::raw_svector_ostream stream_;
  llvm::legacy::PassManager passes_;
  bool is_usable_ = false;
  bool is_running_ = false;
  int runs_ = 0;
};

std::string Assembly(TargetMachine* machine, const llvm::Module& module) {
  const auto copy = llvm::CloneModule(module);
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if (!AddCodePasses(machine, false, llvm::CodeGenFileType::AssemblyFile,
                     &stream, &passes)) {
    return "";
  }
  passes.run(*copy);
  return text.str().str();
}

std::uint64_t KeyOf(const LoadedCode& code) {
  return reinterpret_cast<std::uintptr_t>(&code);
}

llvm::JITEventListener* Debugger() {
  return llvm::JITEventListener::createGDBRegistrationListener();
}

// Everybody may make files in /tmp: what lies there is appended to only if it
// is a file of this user's, and no link to one. perf reads no other either.
std::FILE* OpenPerfMap(const std::string& path) {
  const int fd = open(
      path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW |
                        O_NONBLOCK,
      0666);
  std::string why = fd < 0 ? std::strerror(errno) : "";
  struct stat info {};
  if (fd >= 0 && (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) ||
                  info.st_uid != geteuid())) {
    why = "it is no file of this user's";
    close(fd);
  }
  if (why.empty()) return fdopen(fd, "a");
  static std::atomic<bool> said = false;
  if (!said.exchange(true)) {
    LogLine(LogLevel::kWarning,
            absl::StrCat("tjit: TJIT_PERF_MAP: cannot write \"", path,
                         "\": ", why, "; perf will not know kernels"));
  }
  return nullptr;
}

// Lines of perf's map: where each loop lies, and its name.
void AppendPerfMap(const std::vector<std::string>& names,
                   const LoadedCode& code) {
  std::FILE* file =
      OpenPerfMap(absl::StrCat("/tmp/perf-", getpid(), ".map"));
  if (file == nullptr) return;
  for (const std::string& name : names) {
    const auto start = reinterpret_cast<std::uintptr_t>(code.Find(name));
    const std::size_t end = reinterpret_cast<std::uintptr_t>(
        code.linker->getSectionContent(code.linker->getSymbolSectionID(name))
            .end());
    std::fprintf(file, "%zx %zx %s\n", std::size_t{start}, end - start,
                 name.c_str());
  }
  std::fclose(file);
}

std::string Place(const std::string& bytes, const CompileRequest& request,
                  LoadedCode* code) {
  const llvm::MemoryBufferRef buffer(
      llvm::StringRef(bytes.data(), bytes.size()), "kernel");
  auto object = llvm::object::ObjectFile::createObjectFile(buffer);
  if (!object) return llvm::toString(object.takeError());
  code->memory = std::make_unique<CodeMemory>(code->symbols);
  std::string error = code->memory->Reserve(
      bytes.size(), PlantsFailure(request.flags, kTjitLlvmPlantNoMemory));
  if (!error.empty()) return error;
  code->linker =
      std::make_unique<llvm::RuntimeDyld>(*code->memory, *code->memory);
  const auto info = code->linker->loadObject(**object);
  if (code->linker->hasError()) return code->linker->getErrorString().str();
  code->linker->resolveRelocations();
  if (!code->memory->missing().empty()) {
    return absl::StrCat("the code calls ", code->memory->missing(),
                        ", which is not in the table");
  }
  if (code->linker->hasError()) return code->linker->getErrorString().str();
  Debugger()->notifyObjectLoaded(KeyOf(*code), **object, *info);
  code->is_registered = true;
  return code->memory->Seal(
      PlantsFailure(request.flags, kTjitLlvmPlantNoCode));
}

}  // namespace

VectorTarget TargetFor(int vector_bits) {
  const int bits = BitsFor(vector_bits);
  return {bits / 8, bits == 512};
}

const std::string& TargetText(int vector_bits) {
  static auto* texts = new std::map<int, std::string>();
  const int bits = BitsFor(vector_bits);
  std::string& text = (*texts)[bits];
  if (text.empty()) {
    text = absl::StrCat(llvm::sys::getProcessTriple(), " ",
                        llvm::sys::getHostCPUName().str(), " ", bits, " bits ",
                        FeaturesFor(bits));
  }
  return text;
}

LoadedCode::~LoadedCode() {
  if (is_registered) Debugger()->notifyFreeingObject(KeyOf(*this));
}

TjitKernelFn LoadedCode::Find(const std::string& name) const {
  return reinterpret_cast<TjitKernelFn>(linker->getSymbolLocalAddress(name));
}

std::string Compile(llvm::Module* module, const CompileRequest& request,
                    std::string* object, CodeDump* dump) {
  std::string error;
  TargetMachine* machine = MachineFor(BitsFor(request.vector_bits), &error);
  if (machine == nullptr) return error;
  module->setTargetTriple(NameOf(machine->getTargetTriple()));
  module->setDataLayout(machine->createDataLayout());
  llvm::raw_string_ostream why(error);
  if (llvm::verifyModule(*module, &why)) {
    return absl::StrCat("LLVM does not accept the module: ", error);
  }
  if ((request.flags & kTjitLlvmDumpIr) != 0) {
    llvm::raw_string_ostream(dump->ir) << *module;
  }
  if ((request.flags & kTjitLlvmDumpAssembly) != 0) {
    dump->assembly += Assembly(machine, *module);
  }
  const bool takes_all = (request.flags & kTjitLlvmAllPasses) != 0;
  return Pipeline::For(machine, takes_all)->Emit(module, request.flags, object);
}

std::string Load(const std::string& object, const CompileRequest& request,
                 const std::vector<std::string>& names, LoadedCode* code) {
  std::string error = Place(object, request, code);
  for (const std::string& name : names) {
    if (error.empty() && code->Find(name) == nullptr) {
      error = absl::StrCat("the object has no function ", name);
    }
  }
  if (error.empty() && (request.flags & kTjitLlvmPerfMap) != 0) {
    AppendPerfMap(names, *code);
  }
  g_has_loaded = g_has_loaded || error.empty();
  return error;
}

std::string CatchFatal(const std::function<std::string()>& work) {
  static const bool is_installed = [] {
    llvm::install_fatal_error_handler(OnFatal);
    llvm::install_bad_alloc_error_handler(OnBadAlloc);
    return true;
  }();
  static_cast<void>(is_installed);
  if (t_recovery_point != nullptr) {
    return "the recovery point of an earlier call is open";
  }
  if (g_is_half_made) return "memory ran out while LLVM was set up";
  RecoveryPoint recovery_point;
  const RecoveryPointScope set(&recovery_point);
  g_is_half_made = !g_has_emitted || !g_has_loaded;
  if (setjmp(recovery_point.place) != 0) return recovery_point.why;
  std::string result = work();
  g_is_half_made = false;
  return result;
}

}  // namespace tjit::llvm_backend
