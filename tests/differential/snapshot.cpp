// Reads every variable of a program: metadata, version, storage, elements and
// gradient. See machine.h.
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <cstring>
#include <sstream>
#include <unordered_map>

#include "tests/differential/machine.h"
#include "tjit/tjit.h"

namespace tjit::differential {
namespace {

// Which variable saw a storage first: the alias relation, without addresses.
using StorageNames = std::unordered_map<const void*, std::string>;

// What autograd knows about `t`. A view whose base changed may throw here.
std::string GradMeta(const at::Tensor& t) {
  try {
    std::string text = t.requires_grad() ? " requires_grad" : "";
    if (t.is_leaf()) text += " leaf";
    if (t.is_view()) text += " view";
    if (t.grad_fn()) text += " grad_fn " + t.grad_fn()->name();
    return text;
  } catch (const c10::Error& e) {
    return " grad_fn throws " + e.msg();
  }
}

std::string Meta(const at::Tensor& t, const std::string& name,
                 StorageNames& names) {
  std::ostringstream text;
  if (t.is_conj()) text << "conj ";
  if (t.is_neg()) text << "neg ";
  text << t.scalar_type() << t.sizes() << " strides " << t.strides()
       << " offset " << t.storage_offset() << GradMeta(t);
  if (t.is_inference()) {
    text << " inference";
  } else {
    text << " version " << t._version();
  }
  text << " uses " << t.use_count() << " storage uses "
       << t.storage().use_count() << " bytes " << t.storage().nbytes();
  auto [at, is_new] = names.emplace(t.storage().unsafeGetStorageImpl(), name);
  if (!is_new) text << " storage of " << at->second;
  return text.str();
}

// Not for views, which may throw when asked.
bool HasGrad(const at::Tensor& t) {
  return !t.is_view() && t.is_leaf() && t.requires_grad();
}

int FractionBits(const at::Tensor& t) {
  switch (c10::toRealValueType(t.scalar_type())) {
    case at::kFloat:
      return 23;
    case at::kDouble:
      return 52;
    case at::kHalf:
      return 10;
    case at::kBFloat16:
      return 7;
    default:
      return 0;
  }
}

void SnapshotTensor(const at::Tensor& t, const std::string& name,
                    std::int64_t it, ReadMode mode, StorageNames& names,
                    Log& log) {
  if (!t.defined()) {
    log.push_back({it, -1, name, "undefined", "", 1});
    return;
  }
  log.push_back({it, -1, name + " metadata", Meta(t, name, names), "", 1});
  const std::size_t size = t.element_size() / (t.is_complex() ? 2 : 1);
  log.push_back({it, -1, name + " elements", "", ElementBytes(t, mode),
                 static_cast<int>(size), FractionBits(t)});
  if (HasGrad(t)) {
    SnapshotTensor(t.grad(), name + ".grad", it, mode, names, log);
  }
}

void SnapshotGenerator(std::int64_t it, Log& log) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  at::Tensor state;
  {
    std::lock_guard<std::mutex> lock(generator.mutex());
    state = generator.get_state();
  }
  log.push_back({it, -1, "generator state", "",
                 ElementBytes(state, ReadMode::kMutablePointer), 1});
}

}  // namespace

std::string ElementBytes(const at::Tensor& t, ReadMode mode) {
  std::string bytes(static_cast<std::size_t>(t.nbytes()), '\0');
  if (bytes.empty()) return bytes;
  at::NoGradGuard guard;
  const void* data = nullptr;
  at::Tensor clone;
  if (mode == ReadMode::kClone || !t.is_contiguous()) {
    clone = t.detach().clone(at::MemoryFormat::Contiguous);
    data = clone.data_ptr();
  } else if (mode == ReadMode::kMutablePointer) {
    data = t.data_ptr();
  } else {
    sync();
    data = t.const_data_ptr();
  }
  std::memcpy(bytes.data(), data, bytes.size());
  return bytes;
}

void Snapshot(State& state, std::int64_t it, ReadMode mode, bool with_rng) {
  StorageNames names;
  for (std::size_t i = 0; i < state.vars.size(); ++i) {
    std::string name = "v";
    name += std::to_string(i);
    SnapshotTensor(state.vars[i], name, it, mode, names, state.log);
  }
  for (std::size_t i = 0; i < state.kept.size(); ++i) {
    SnapshotTensor(state.kept[i], "kept[" + std::to_string(i) + "]", it, mode,
                   names, state.log);
  }
  if (with_rng) SnapshotGenerator(it, state.log);
}

}  // namespace tjit::differential
