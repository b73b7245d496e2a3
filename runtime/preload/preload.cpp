#include "runtime/preload/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <string_view>

#include "runtime/platform/build_id.h"
#include "runtime/preload/rebind.h"
#include "runtime/preload/torch_version.h"
#include "tjit_build_ids.h"

namespace {

using tjit::runtime::BuildId;
using tjit::runtime::BuildIdOf;

constexpr const char* kSymbols[] = {
#define TJIT_CONST_POINTER(symbol) #symbol,
#define TJIT_TENSOR_MAKER(symbol) #symbol,
#define TJIT_BOOL_SETTER(symbol) #symbol,
#define TJIT_INTERPOSED_AS_IS(symbol) #symbol,
#include "runtime/intercept/interposed.def"
};
constexpr std::size_t kCount = sizeof(kSymbols) / sizeof(kSymbols[0]);

constexpr std::size_t IndexOf(std::string_view symbol) {
  std::size_t index = 0;
  while (kSymbols[index] != symbol) ++index;
  return index;
}
// Constructors of libtorch call this one, and no other.
constexpr std::size_t kRegisterImpl = IndexOf(
    "_ZN3c1010Dispatcher12registerImplENS_12OperatorNameESt8optionalINS_"
    "11DispatchKeyEENS_14KernelFunctionES2_INS_4impl12CppSignatureEESt10"
    "unique_ptrINS_14FunctionSchemaESt14default_deleteISA_EENSt7__cxx1112"
    "basic_stringIcSt11char_traitsIcESaIcEEE");

// Starting: the constructors of what the program links are running.
enum State { kStarting, kUndecided, kDeciding, kLoaded, kInert };
std::atomic<int> state{kStarting};
// Threads inside a dlopen() of ours: constructors may be running.
std::atomic<int> loading{0};
std::atomic<void*> next_definitions[kCount];

using DlopenFn = void* (*)(const char*, int);
DlopenFn RealDlopen() {
  static constinit std::atomic<void*> real{nullptr};
  void* found = real.load(std::memory_order_acquire);
  if (found == nullptr) {
    found = dlsym(RTLD_NEXT, "dlopen");
    real.store(found, std::memory_order_release);
  }
  return reinterpret_cast<DlopenFn>(found);
}

// ------------------------------------------------------------ why not

// Why tjit is inert, once it is; written by who decides.
char reason[PATH_MAX + 1024] = "";

// Keeps the reason and prints it.
__attribute__((format(printf, 1, 2))) void BecomeInert(const char* format,
                                                       ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof(reason), format, arguments);
  va_end(arguments);
  dprintf(STDERR_FILENO, "tjit: inert: %s\n", reason);
}

// ------------------------------------------------------------ what is loaded

// A library of the process, by the name of its file.
struct Library {
  const char* name;
  int copies = 0;
  char path[PATH_MAX] = "";
  BuildId id = {};
};

struct Libraries {
  Library torch_cpu{"libtorch_cpu.so"};
  Library c10{"libc10.so"};
  Library tjit{"libtjit.so"};
  // Libtorch was loaded before the shim: its calls are bound already.
  bool torch_is_first = false;
};

// True for `name` itself and with a version behind it: lib.so.2.13.
bool IsFile(const char* path, const char* name) {
  const char* slash = strrchr(path, '/');
  const char* file = slash == nullptr ? path : slash + 1;
  const std::size_t n = strlen(name);
  return strncmp(file, name, n) == 0 && (file[n] == '\0' || file[n] == '.');
}

// The shim itself.
Dl_info OwnInfo() {
  Dl_info info = {};
  dladdr(reinterpret_cast<void*>(&tjit_shim_target), &info);
  return info;
}

int Visit(dl_phdr_info* info, std::size_t, void* data) {
  auto* libraries = static_cast<Libraries*>(data);
  if (reinterpret_cast<void*>(info->dlpi_addr) == OwnInfo().dli_fbase) {
    libraries->torch_is_first = libraries->torch_cpu.copies != 0;
  }
  for (Library* l :
       {&libraries->torch_cpu, &libraries->c10, &libraries->tjit}) {
    if (!IsFile(info->dlpi_name, l->name)) continue;
    ++l->copies;
    l->id = BuildIdOf(info);
    strncpy(l->path, info->dlpi_name, sizeof(l->path) - 1);
  }
  return 0;
}

int SeesTorch(dl_phdr_info* info, std::size_t, void* name) {
  if (!IsFile(info->dlpi_name, "libtorch_cpu.so")) return 0;
  *static_cast<const char**>(name) = info->dlpi_name;
  return 1;
}

// The path of libtorch_cpu if it is loaded, else null.
const char* LoadedTorch() {
  const char* path = nullptr;
  dl_iterate_phdr(&SeesTorch, &path);
  return path;
}

// ------------------------------------------------------------ definitions

// The definition that would be called if neither we nor a libtjit that we
// loaded were there.
void* NextDefinition(std::size_t index) {
  void* next = next_definitions[index].load(std::memory_order_acquire);
  if (next != nullptr) return next;
  const int saved = errno;
  next = dlsym(RTLD_NEXT, kSymbols[index]);
  if (next == nullptr) {
    const char* path = LoadedTorch();
    void* torch =
        path == nullptr ? nullptr : RealDlopen()(path, RTLD_LAZY | RTLD_NOLOAD);
    if (torch != nullptr) {
      next = dlsym(torch, kSymbols[index]);
      dlclose(torch);
    }
    dlerror();
  }
  errno = saved;
  if (next == nullptr) {
    dprintf(STDERR_FILENO,
            "tjit: %s was called, but no libtorch in this process has it\n",
            kSymbols[index]);
    _exit(127);
  }
  next_definitions[index].store(next, std::memory_order_release);
  return next;
}

void SetSlot(std::size_t index, void* target) {
  __atomic_store_n(&tjit_shim_slots[index], target, __ATOMIC_RELEASE);
}

// ------------------------------------------------------------ the decision

// Says why tjit cannot serve this libtorch; false if it can.
bool SaysWhyNot(const Libraries& libraries) {
  const Library& torch = libraries.torch_cpu;
  if (torch.copies > 1) {
    BecomeInert(
        "this process has loaded libtorch_cpu.so %d times, the last from %s",
        torch.copies, torch.path);
    return true;
  }
  const struct {
    const Library* library;
    const char* built;
  } checks[] = {{&torch, TJIT_TORCH_CPU_BUILD_ID},
                {&libraries.c10, TJIT_C10_BUILD_ID}};
  const tjit::preload::TorchVersion version =
      tjit::preload::VersionBeside(torch.path);
  if (tjit::preload::IsTooOld(version)) {
    BecomeInert("libtorch %s (%s) is too old: tjit needs 2.13 or newer",
                version.text, torch.path);
    return true;
  }
  for (const auto& check : checks) {
    const char* id = check.library->id.hex;
    if (check.built[0] == '\0' || id[0] == '\0') continue;
    if (strcmp(check.built, id) == 0) continue;
    BecomeInert(
        "this process loads %s with build-id %s, but libtjit was built for %s "
        "(libtorch %s). Rebuild tjit with CMAKE_PREFIX_PATH set to this "
        "libtorch.",
        check.library->path, id, check.built, TJIT_TORCH_VERSION);
    return true;
  }
  return false;
}

// The file that we are.
const char* OwnFile() {
  const char* const file = OwnInfo().dli_fname;
  return file == nullptr ? "" : file;
}

// libtjit.so of the folder that we lie in; null, and said, if it cannot be.
void* LoadTjit() {
  char path[PATH_MAX];
  const char* const own = OwnFile();
  const char* slash = strrchr(own, '/');
  const int folder = slash == nullptr ? 0 : static_cast<int>(slash - own) + 1;
  snprintf(path, sizeof(path), "%.*slibtjit.so", folder, own);
  void* tjit = RealDlopen()(path, RTLD_NOW | RTLD_LOCAL);
  if (tjit == nullptr) {
    BecomeInert("%s", dlerror());
    return nullptr;
  }
  for (const char* symbol : kSymbols) {
    if (dlsym(tjit, symbol) != nullptr) continue;
    BecomeInert("%s is of another build: no %s", path, symbol);
    dlerror();
    return nullptr;
  }
  return tjit;
}

// False, and said, if the calls of a library that is loaded already cannot be
// led to us.
bool RebindAll() {
  void* const own = RealDlopen()(OwnFile(), RTLD_LAZY | RTLD_NOLOAD);
  void* addresses[kCount];
  bool is_complete = own != nullptr;
  for (std::size_t i = 0; i < kCount && is_complete; ++i) {
    addresses[i] = dlsym(own, kSymbols[i]);
    is_complete = addresses[i] != nullptr;
  }
  if (!is_complete || tjit::preload::Rebind(kSymbols, addresses, kCount) < 0) {
    BecomeInert(
        "libtorch was loaded before tjit, and its calls cannot be led to tjit "
        "in this process. Import tjit before torch, or use `tjit run`.");
    return false;
  }
  return true;
}

// Loads libtjit and fills the slots with its definitions, or leaves the
// program alone. True if loaded.
bool Load() {
  Libraries libraries;
  dl_iterate_phdr(&Visit, &libraries);
  // The program brings a libtjit of its own: the next definitions are its.
  if (libraries.tjit.copies != 0) {
    snprintf(reason, sizeof(reason), "the program has loaded %s by itself",
             libraries.tjit.path);
    return false;
  }
  if (SaysWhyNot(libraries)) return false;
  if (libraries.torch_is_first && !RebindAll()) return false;
  void* tjit = LoadTjit();
  if (tjit == nullptr) return false;
  for (std::size_t i = 0; i < kCount; ++i) {
    SetSlot(i, dlsym(tjit, kSymbols[i]));
  }
  return true;
}

void Decide() {
  if (state.load(std::memory_order_acquire) != kUndecided) return;
  if (loading.load() != 0 || LoadedTorch() == nullptr) return;
  int undecided = kUndecided;
  if (!state.compare_exchange_strong(undecided, kDeciding)) return;
  const int saved = errno;
  const bool loaded = Load();
  state.store(loaded ? kLoaded : kInert, std::memory_order_release);
  errno = saved;
}

// ------------------------------------------------------------ dlopen

void* OurDlopen(const char* name, int flags) {
  loading.fetch_add(1);
  void* handle = RealDlopen()(name, flags);
  loading.fetch_sub(1);
  if (handle != nullptr) Decide();
  return handle;
}

// True if dlopen(name) finds the same file whoever calls it.
bool AnyCallerWillDo(const char* name, void* caller) {
  // $ORIGIN and its like are the caller's.
  if (strchr(name, '$') != nullptr) return false;
  if (strchr(name, '/') != nullptr) return true;
  Dl_info info;
  link_map* map = nullptr;
  if (dladdr1(caller, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) ==
          0 ||
      map == nullptr) {
    return false;
  }
  for (const ElfW(Dyn)* d = map->l_ld; d->d_tag != DT_NULL; ++d) {
    if (d->d_tag == DT_RPATH || d->d_tag == DT_RUNPATH) return false;
  }
  return true;
}

__attribute__((constructor)) void AtLoad() {
  state.store(kUndecided, std::memory_order_release);
  Decide();
}

}  // namespace

void* tjit_shim_target(std::size_t index) {
  if (index != kRegisterImpl) Decide();
  const int now = state.load(std::memory_order_acquire);
  if (now == kLoaded) {
    // Decide() has filled the slot; the caller came before that.
    return __atomic_load_n(&tjit_shim_slots[index], __ATOMIC_ACQUIRE);
  }
  void* next = NextDefinition(index);
  if (now == kInert) SetSlot(index, next);
  return next;
}

void* tjit_shim_dlopen_target(const char* name, int flags, void* caller) {
  const int saved = errno;
  const bool ours = name != nullptr && (flags & RTLD_NOLOAD) == 0 &&
                    state.load(std::memory_order_acquire) == kUndecided &&
                    AnyCallerWillDo(name, caller);
  DlopenFn target = ours ? &OurDlopen : RealDlopen();
  errno = saved;
  return reinterpret_cast<void*>(target);
}

void tjit_shim_hold(int change) { loading.fetch_add(change); }

const char* tjit_shim_load() {
  Decide();
  switch (state.load(std::memory_order_acquire)) {
    case kLoaded:
      return nullptr;
    case kInert:
      return reason;
    default:
      return "no libtorch is loaded in this process";
  }
}
