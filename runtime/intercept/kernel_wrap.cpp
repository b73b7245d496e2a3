#include "runtime/intercept/kernel_wrap.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/call/op_classes.h"
#include "runtime/intercept/boxed_wrapper.h"
#include "runtime/intercept/foreign_kernels.h"
#include "runtime/intercept/wrap_registry.h"
#include "runtime/platform/torch_compat.h"
#include "runtime/report/log.h"
#include "support/mutex.h"

namespace tjit::runtime {

// One for each shard.
#define TJIT_TYPED_SHARD(name) \
  void AddTypedOps_##name(std::vector<TypedOp>* ops);
#include "runtime/intercept/typed_ops.def"

namespace {

// CompositeExplicit ops that touch bytes themselves. They are wrapped at
// the CPU key like kernels. `convolution` and its backward are one op each:
// their insides take raw pointers between dispatches.
const char* const kCompositesWithBytes[][2] = {
    {"aten::conj_physical_", ""},
    {"aten::copy_", ""},
    {"aten::mkldnn_convolution", ""},
    {"aten::_convolution", ""},
    {"aten::convolution", ""},
    {"aten::convolution_backward", ""},
    {"aten::repeat", ""},
    {"aten::_pack_padded_sequence", ""},
    {"aten::_grid_sampler_2d_cpu_fallback", ""},
    {"aten::_lazy_clone", ""},
};

// CompositeExplicit ops that pass an empty result to their out variant. That
// one would resize it, so it runs at the call; the op as a whole need not.
const char* const kCompositesOverOut[][2] = {
    {"aten::abs", ""},         {"aten::complex", ""},
    {"aten::logical_and", ""}, {"aten::logical_not", ""},
    {"aten::logical_or", ""},  {"aten::logical_xor", ""},
    {"aten::logsumexp", ""},   {"aten::polar", ""},
};

// CompositeExplicit ops that make a tensor of their number and call the op of
// two tensors, what `x * 2` is in C++: a dispatch and an allocation that the op
// as a whole does without.
const char* const kCompositesOverNumbers[][2] = {
    {"aten::add", "Scalar"},  {"aten::add_", "Scalar"},
    {"aten::div", "Scalar"},  {"aten::div_", "Scalar"},
    {"aten::mul", "Scalar"},  {"aten::mul_", "Scalar"},
    {"aten::rsub", "Scalar"}, {"aten::sub", "Scalar"},
    {"aten::sub_", "Scalar"},
};

struct Wrapped {
  Mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<OpEntry>> entries
      ABSL_GUARDED_BY(mutex);
  // Patterns of MarkOpaque().
  std::vector<std::string> opaque ABSL_GUARDED_BY(mutex);
  // Ops with another library's kernel.
  std::vector<std::string> replaced ABSL_GUARDED_BY(mutex);
  WrapCounts counts ABSL_GUARDED_BY(mutex);
};
Wrapped& Table() {
  static auto* table = new Wrapped;
  return *table;
}

// "ns::op.overload", "ns::op" for all overloads, "ns::" for all of it.
bool Names(std::string_view pattern, std::string_view name) {
  return pattern == name || pattern == name.substr(0, name.find('.')) ||
         (pattern.ends_with("::") && name.starts_with(pattern));
}

int AliasedArgument(const c10::FunctionSchema& schema,
                    const c10::Argument& ret) {
  if (ret.alias_info() == nullptr) return -1;
  const auto& arguments = schema.arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* alias = arguments[i].alias_info();
    if (alias != nullptr &&
        alias->beforeSets() == ret.alias_info()->beforeSets()) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

ArgumentKind KindOf(const c10::TypePtr& type) {
  const c10::TypePtr t = type->kind() == c10::TypeKind::OptionalType
                             ? type->expectRef<c10::OptionalType>()
                                   .getElementType()
                             : type;
  switch (t->kind()) {
    case c10::TypeKind::TensorType:
      return ArgumentKind::kTensor;
    case c10::TypeKind::NumberType:
    case c10::TypeKind::FloatType:
      return ArgumentKind::kScalar;
    default:
      return ArgumentKind::kOther;
  }
}

// `name`: of the op.
std::unique_ptr<OpEntry> MakeEntry(const c10::OperatorHandle& op,
                                   const OpTraits& traits, std::string name) {
  auto entry = std::make_unique<OpEntry>(op);
  entry->kernel = compat::KernelOf(
      op.getComputedKernelForDispatchKey(c10::DispatchKey::CPU));
  entry->name = std::move(name);
  entry->id = InternOp(entry->name);
  entry->op_class = traits.op_class;
  entry->value_check = traits.value_check;
  entry->may_throw_on_values = traits.may_throw_on_values();
  entry->may_warn = traits.may_warn;
  entry->is_pointwise = op.hasTag(at::Tag::pointwise);
  const c10::FunctionSchema& schema = op.schema();
  for (const c10::Argument& a : schema.arguments()) {
    entry->writes.push_back(a.alias_info() != nullptr &&
                            a.alias_info()->isWrite());
    entry->argument_kinds.push_back(KindOf(a.real_type()));
    if (entry->argument_kinds.back() == ArgumentKind::kScalar) {
      entry->scalar_policies.push_back(PolicyOf(
          entry->id, static_cast<int>(entry->scalar_policies.size())));
    }
  }
  for (int i : traits.extra_writes) entry->writes[i] = true;
  for (bool w : entry->writes) entry->writes_anything |= w;
  for (const c10::Argument& r : schema.returns()) {
    entry->returns.push_back(
        {AliasedArgument(schema, r),
         r.type()->kind() == c10::TypeKind::ListType});
  }
  return entry;
}

using TypedByName = std::unordered_map<std::string, NewKernel (*)(OpEntry*)>;
TypedByName TypedOps() {
  std::vector<TypedOp> ops;
#define TJIT_TYPED_SHARD(name) AddTypedOps_##name(&ops);
#include "runtime/intercept/typed_ops.def"
  TypedByName by_name;
  for (TypedOp& op : ops) by_name.emplace(op.name, op.make_wrapper);
  return by_name;
}

void MakeOpaque(OpEntry* entry) {
  if (entry->op_class == OpClass::kPlain) entry->op_class = OpClass::kOpaque;
}

// Calls see(namespace-qualified name, overload) for each composite above.
template <class See>
void ForComposites(const See& see) {
  for (const auto& name : kCompositesWithBytes) see(name[0], name[1]);
  for (const auto& name : kCompositesOverOut) see(name[0], name[1]);
  for (const auto& name : kCompositesOverNumbers) see(name[0], name[1]);
}

// "aten::mul_" to "aten::mul", what "aten::rsub" calls to "aten::sub".
std::string_view WithoutVariant(std::string_view name) {
  if (name.ends_with('_')) name.remove_suffix(1);
  return name == "aten::rsub" ? "aten::sub" : name;
}

// The composite over numbers ends in `op`, or in another variant of it.
bool EndsIn(std::string_view composite, std::string_view op) {
  return WithoutVariant(composite) ==
         WithoutVariant(op.substr(0, op.find('.')));
}

bool IsNamed(const c10::OperatorHandle& op, std::string_view name,
             std::string_view overload) {
  const c10::OperatorName& own = op.operator_name();
  return own.name == name && own.overload_name == overload;
}

// True if the kernel is not libtorch's own: somebody else overrides kernels,
// too. libtorch registers each once, and none for a composite.
bool IsReplaced(const c10::OperatorHandle& op) {
  bool is_composite = false;
  ForComposites([&](const char* name, const char* overload) {
    is_composite |= IsNamed(op, name, overload);
  });
  return is_composite ? op.hasKernelForDispatchKey(c10::DispatchKey::CPU)
                      : compat::KernelCount(op, c10::DispatchKey::CPU) > 1;
}

// True of a composite over numbers if the op that it ends in is one of
// `replaced`, which came before, as composites are wrapped last.
bool EndsInReplaced(const c10::OperatorHandle& op,
                    const std::vector<std::string>& replaced) {
  for (const auto& name : kCompositesOverNumbers) {
    if (!IsNamed(op, name[0], name[1])) continue;
    for (const std::string& other : replaced) {
      if (EndsIn(name[0], other)) return true;
    }
  }
  return false;
}

void PrintReplaced(const std::vector<std::string>& ops) {
  if (ops.empty()) return;
  std::string names = ops.front();
  for (std::size_t i = 1; i < ops.size() && i < 5; ++i) names += ", " + ops[i];
  if (ops.size() > 5) names += ", ...";
  LogWarning("another library has replaced CPU kernels of libtorch (" +
             std::to_string(ops.size()) + ": " + names +
             "): they run at the call, the ops around them are replayed");
}

void WrapOne(Wrapped& table, const c10::OperatorHandle& op,
             const TypedByName& typed)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(table.mutex) {
  const OpTraits traits = TraitsOf(op);
  if (traits.leave_alone) {
    ++table.counts.left_alone;
    return;
  }
  std::string name = c10::toString(op.operator_name());
  if (table.entries.count(name) != 0) return;
  std::unique_ptr<OpEntry> entry = MakeEntry(op, traits, name);
  // What our direct calls would run is not what was registered.
  if (IsReplaced(op)) {
    MakeOpaque(entry.get());
    table.replaced.push_back(name);
  } else if (EndsInReplaced(op, table.replaced)) {
    MakeOpaque(entry.get());
  }
  for (const std::string& pattern : table.opaque) {
    if (Names(pattern, name)) MakeOpaque(entry.get());
  }
  const auto it = typed.find(name);
  const bool is_typed = it != typed.end();
  entry->typed = is_typed;
  RegisterKernel(op.operator_name(), c10::DispatchKey::CPU,
                 is_typed ? it->second(entry.get())
                          : MakeBoxedWrapper(entry.get()));
  ++(is_typed ? table.counts.typed : table.counts.boxed);
  table.entries.emplace(std::move(name), std::move(entry));
}

}  // namespace

void WrapKernels() {
  Wrapped& table = Table();
  const MutexLock lock(table.mutex);
  QuietOverrides quiet;
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  std::vector<c10::OperatorName> names =
      dispatcher.getRegistrationsForDispatchKey(c10::DispatchKey::CPU);
  ForComposites([&](const char* name, const char* overload) {
    names.emplace_back(name, overload);
  });
  const TypedByName typed = TypedOps();
  table.counts.listed = typed.size();
  table.entries.reserve(names.size());
  for (const c10::OperatorName& name : names) {
    if (name.getNamespace() != "aten") continue;
    const auto op = dispatcher.findOp(name);
    if (op.has_value() && op->hasSchema()) {
      WrapOne(table, *op, typed);
    }
  }
  InstallForeignKernels();
  PrintReplaced(table.replaced);
}

void RecordReplaced(std::string_view op) {
  Wrapped& table = Table();
  const MutexLock lock(table.mutex);
  for (const auto& name : kCompositesOverNumbers) {
    const auto found = table.entries.find(absl::StrCat(name[0], ".", name[1]));
    if (found != table.entries.end() && EndsIn(name[0], op)) {
      MakeOpaque(found->second.get());
    }
  }
}

const OpEntry* FindEntry(std::string_view name) {
  Wrapped& table = Table();
  const MutexLock lock(table.mutex);
  const auto it = table.entries.find(std::string(name));
  return it == table.entries.end() ? nullptr : it->second.get();
}

std::size_t MarkOpaque(std::string_view pattern) {
  Wrapped& table = Table();
  const MutexLock lock(table.mutex);
  table.opaque.emplace_back(pattern);
  std::size_t matched = 0;
  for (auto& [name, entry] : table.entries) {
    if (!Names(pattern, name)) continue;
    ++matched;
    MakeOpaque(entry.get());
  }
  return matched;
}

WrapCounts CountWrapped() {
  Wrapped& table = Table();
  const MutexLock lock(table.mutex);
  return table.counts;
}

}  // namespace tjit::runtime
