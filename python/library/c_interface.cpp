#include "python/library/c_interface.h"

#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "tjit/event.h"
#include "tjit/name.h"
#include "tjit/reading.h"
#include "tjit/region.h"
#include "tjit/sequence.h"
#include "tjit/tjit.h"

namespace {

using tjit::Backend;
using tjit::Options;
using tjit::Stress;

using Field =
    std::variant<bool Options::*, std::int64_t Options::*,
                 std::string Options::*, Backend Options::*, Stress Options::*>;

struct Option {
  const char* name;
  const char* name_and_kind;
  Field field;
};

// package_test.py compares this table with options.h.
constexpr Option kOptions[] = {
    {"hot_threshold", "hot_threshold int", &Options::hot_threshold},
    {"backend", "backend str", &Options::backend},
    {"own_backward", "own_backward bool", &Options::own_backward},
    {"own_products", "own_products bool", &Options::own_products},
    {"own_random", "own_random bool", &Options::own_random},
    {"cache_dir", "cache_dir str", &Options::cache_dir},
    {"compile_all", "compile_all bool", &Options::compile_all},
    {"debug_compile", "debug_compile bool", &Options::debug_compile},
    {"fast_math", "fast_math bool", &Options::fast_math},
    {"max_trace_steps", "max_trace_steps int", &Options::max_trace_steps},
    {"max_trace_mb", "max_trace_mb int", &Options::max_trace_mb},
    {"max_memory_mb", "max_memory_mb int", &Options::max_memory_mb},
    {"nan", "nan bool", &Options::nan},
    {"shadow", "shadow bool", &Options::shadow},
    {"shadow_sample", "shadow_sample int", &Options::shadow_sample},
    {"strict", "strict bool", &Options::strict},
    {"stress", "stress str", &Options::stress},
    {"shuffle_seed", "shuffle_seed int", &Options::shuffle_seed},
    {"stats_path", "stats_path str", &Options::stats_path},
};

template <class T>
struct Named {
  std::string_view name;
  T value;
};
constexpr Named<Backend> kBackends[] = {
    {"replay", Backend::kReplay},
    {"interpreter", Backend::kInterpreter},
    {"llvm", Backend::kLlvm},
    {"torchscript", Backend::kTorchscript},
};
constexpr Named<Stress> kStresses[] = {
    {"none", Stress::kNone},       {"hide", Stress::kHide},
    {"late", Stress::kLate},       {"check", Stress::kCheck},
    {"shuffle", Stress::kShuffle},
};

constexpr Named<tjit::Stance> kStances[] = {
    {"default", tjit::Stance::kDefault},
    {"eager_on_recompile", tjit::Stance::kEagerOnRecompile},
    {"fail_on_recompile", tjit::Stance::kFailOnRecompile},
};

constexpr Named<tjit::Shapes> kShapes[] = {
    {"any", tjit::Shapes::kAny},
    {"exact", tjit::Shapes::kExact},
};

// What the calling thread was told last.
thread_local std::string t_error;
thread_local std::string t_text;

[[noreturn]] void Refuse(std::string_view name, std::string_view value,
                         std::string_view accepted) {
  std::string text(name);
  text.append(" is \"").append(value).append("\"; accepted ");
  throw std::invalid_argument(text.append(accepted));
}

template <class T, std::size_t N>
T ValueOf(const Named<T> (&all)[N], std::string_view name,
          std::string_view value, std::string_view accepted) {
  for (const Named<T>& one : all) {
    if (one.name == value) return one.value;
  }
  Refuse(name, value, accepted);
}

void Read(std::string_view, std::string_view value, bool* field) {
  *field = value == "1";
}
void Read(std::string_view name, std::string_view value, std::int64_t* field) {
  const char* const end = value.data() + value.size();
  const auto parsed = std::from_chars(value.data(), end, *field);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    Refuse(name, value, "is a whole number of 64 bits");
  }
}
void Read(std::string_view, std::string_view value, std::string* field) {
  *field = value;
}
void Read(std::string_view name, std::string_view value, Backend* field) {
  *field = ValueOf(kBackends, name, value,
                   "are replay, interpreter, llvm and torchscript");
}
// Modes with commas between.
void Read(std::string_view name, std::string_view value, Stress* field) {
  *field = Stress::kNone;
  for (std::string_view rest = value;;) {
    const std::size_t comma = rest.find(',');
    *field = *field |
             ValueOf(kStresses, name, rest.substr(0, comma),
                     "are none, hide, or some of late, check and shuffle with "
                     "commas between");
    if (comma == std::string_view::npos) return;
    rest.remove_prefix(comma + 1);
  }
}

void Read(std::string_view name, std::string_view value, tjit::Shapes* field) {
  *field = ValueOf(kShapes, name, value, "are any and exact");
}

template <class T>
void Read(std::string_view name, std::string_view value,
          std::optional<T>* field) {
  Read(name, value, &field->emplace());
}

void ReadRegionOption(std::string_view name, std::string_view value,
                      tjit::RegionOptions* options) {
  if (name == "compile") return Read(name, value, &options->compile);
  if (name == "threshold") return Read(name, value, &options->threshold);
  if (name == "backend") return Read(name, value, &options->backend);
  if (name == "shapes") return Read(name, value, &options->shapes);
  if (name == "exclude") return Read(name, value, &options->exclude);
  if (name == "strict") return Read(name, value, &options->strict);
  if (name == "exclude_ops") {
    options->exclude_ops.emplace_back(value);
    return;
  }
  throw std::invalid_argument("there is no option " + std::string(name));
}

Options OptionsOf(int count, const char* const* names,
                  const char* const* values) {
  Options options;
  for (int i = 0; i < count; ++i) {
    const std::string_view name = names[i];
    bool is_known = false;
    for (const Option& option : kOptions) {
      if (name != option.name) continue;
      is_known = true;
      std::visit(
          [&](auto member) { Read(name, values[i], &(options.*member)); },
          option.field);
    }
    if (!is_known) {
      throw std::invalid_argument("there is no option " + std::string(name));
    }
  }
  return options;
}

// Without where in libtorch it was thrown.
void Record(const std::exception& error) {
  const std::string_view text = error.what();
  t_error = text.substr(0, text.find("\nException raised from "));
}

// What `body` returns, or `failed` where it throws.
template <class T, class Body>
T Guarded(T failed, Body body) {
  try {
    return body();
  } catch (const std::exception& e) {
    Record(e);
  } catch (...) {  // C, and Python behind it, know no exception
    t_error = "an exception of an unknown type";
  }
  return failed;
}

template <class Body>
int Run(Body body) {
  return Guarded(-1, [&] {
    body();
    return 0;
  });
}

const char* Keep(std::string text) {
  t_text = std::move(text);
  return t_text.c_str();
}

at::Tensor TensorOf(void* impl) {
  using Pointer = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  return at::Tensor(Pointer::reclaim_copy(static_cast<c10::TensorImpl*>(impl)));
}

constexpr const char* kNoText = nullptr;
constexpr void* kNoObject = nullptr;

}  // namespace

extern "C" {

int tjit_py_interface() { return 5; }

const char* tjit_py_version() { return TJIT_VERSION; }

const char* tjit_py_error() { return t_error.c_str(); }

const char* tjit_py_option(int index) {
  const bool is_one =
      index >= 0 && index < static_cast<int>(std::size(kOptions));
  return is_one ? kOptions[index].name_and_kind : nullptr;
}

int tjit_py_enable(int count, const char* const* names,
                   const char* const* values) {
  return Guarded(-1, [&] {
    return tjit::enable(OptionsOf(count, names, values)) ? 1 : 0;
  });
}

int tjit_py_disable() { return Run(&tjit::disable); }

int tjit_py_is_enabled() { return tjit::is_enabled() ? 1 : 0; }

void* tjit_py_begin_auto_compile(int is_process, int count,
                                 const char* const* names,
                                 const char* const* values) {
  using Scope = tjit::AutoCompile::Scope;
  return Guarded(kNoObject, [&]() -> void* {
    return new tjit::AutoCompile(
        is_process != 0 ? Scope::kProcess : Scope::kThread,
        OptionsOf(count, names, values));
  });
}

void tjit_py_end_auto_compile(void* auto_compile) {
  delete static_cast<tjit::AutoCompile*>(auto_compile);
}

void* tjit_py_begin_pause() {
  return Guarded(kNoObject, []() -> void* { return new tjit::Pause; });
}

void tjit_py_end_pause(void* pause) { delete static_cast<tjit::Pause*>(pause); }

void* tjit_py_begin_reading() {
  return Guarded(kNoObject, []() -> void* { return new tjit::Reading; });
}
void tjit_py_end_reading(void* reading) {
  delete static_cast<tjit::Reading*>(reading);
}

void* tjit_py_begin_region(const char* name) {
  return Guarded(kNoObject, [&]() -> void* { return new tjit::Region(name); });
}

void tjit_py_end_region(void* region) {
  delete static_cast<tjit::Region*>(region);
}

int tjit_py_set_region_options(const char* pattern, int count,
                               const char* const* names,
                               const char* const* values) {
  return Run([&] {
    tjit::RegionOptions options;
    for (int i = 0; i < count; ++i) {
      ReadRegionOption(names[i], values[i], &options);
    }
    tjit::set_region_options(pattern, options);
  });
}

const char* tjit_py_region_stats(const char* name) {
  return Guarded(kNoText,
                 [&] { return Keep(tjit::region_stats(name).to_json()); });
}

int tjit_py_name(void* tensor, const char* name) {
  return Run([&] { tjit::name(TensorOf(tensor), name); });
}

const char* tjit_py_name_of(void* tensor) {
  return Guarded(kNoText,
                 [&] { return Keep(tjit::name_of(TensorOf(tensor))); });
}

unsigned long long tjit_py_on_event(void (*call)(const char* json)) {
  return Guarded(0ULL, [&] {
    const std::uint64_t id = tjit::on_event(
        [call](const tjit::Event& event) { call(event.to_json().c_str()); });
    return static_cast<unsigned long long>(id);
  });
}

void tjit_py_remove_on_event(unsigned long long id) {
  tjit::remove_on_event(id);
}

int tjit_py_wait_for_events(long long milliseconds) {
  return Guarded(0, [&] {
    return tjit::wait_for_events(std::chrono::milliseconds(milliseconds)) ? 1
                                                                          : 0;
  });
}

int tjit_py_set_stance(const char* name) {
  return Run([&] {
    tjit::set_stance(
        ValueOf(kStances, "stance", name,
                "are default, eager_on_recompile and fail_on_recompile"));
  });
}

int tjit_py_mark_step() { return Run(&tjit::mark_step); }

int tjit_py_sync() { return Run(&tjit::sync); }

int tjit_py_clear() { return Run(&tjit::clear); }

int tjit_py_reset_memory_peak() { return Run(&tjit::reset_memory_peak); }

int tjit_py_mark_opaque(const char* name) {
  return Run([&] { tjit::mark_opaque(name); });
}

long long tjit_py_prewarm(const char* file) {
  return Guarded(-1LL, [&]() -> long long { return tjit::prewarm(file); });
}

long long tjit_py_save_profile(const char* file) {
  return Guarded(-1LL, [&]() -> long long { return tjit::save_profile(file); });
}

int tjit_py_write_sequences(const char* folder, const char* which) {
  return Run([&] { tjit::write_sequences(folder, which); });
}

int tjit_py_wait_until_compiled(long long milliseconds) {
  return Guarded(0, [&] {
    const std::chrono::milliseconds timeout(milliseconds);
    return tjit::wait_until_compiled(timeout) ? 1 : 0;
  });
}

const char* tjit_py_stats() {
  return Guarded(kNoText, [] { return Keep(tjit::stats().to_json()); });
}

const char* tjit_py_explain(int is_verbose) {
  return Guarded(kNoText, [&] { return Keep(tjit::explain(is_verbose != 0)); });
}

}  // extern "C"
