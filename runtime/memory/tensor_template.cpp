#include "runtime/memory/tensor_template.h"

#include <c10/core/ScalarType.h>

#include <cstring>
#include <new>
#include <unordered_map>
#include <utility>

#include "absl/hash/hash.h"
#include "support/mutex.h"

namespace tjit::runtime {
namespace {

struct HashOfGeometry {
  std::size_t operator()(const TensorGeometry& g) const {
    return absl::HashOf(
        std::string_view(reinterpret_cast<const char*>(&g), sizeof(g)));
  }
};

struct Forms {
  Mutex mutex;
  std::unordered_map<TensorGeometry, std::weak_ptr<const TensorTemplate>,
                     HashOfGeometry>
      forms ABSL_GUARDED_BY(mutex);
  std::size_t sweep_at ABSL_GUARDED_BY(mutex) = 1024;  // entries
};

Forms& AllForms() {
  static auto* forms = new Forms;
  return *forms;
}

// Note [Tensors by copy]
// A fresh TensorImpl is plain data but for two members, storage_ and
// version_counter_: it has neither autograd nor extra metadata nor a Python
// object, and up to five sizes and strides lie in place. So a copy of its
// bytes, with a storage and a version counter put in, is what the constructor
// and set_sizes_and_strides() make in ten times as many instructions. Two
// things are looked at before bytes are kept: no word of them points into the
// tensor they come from, what libtorch made has the recorded keys, and the
// members lie where they do in libtorch 2.13.
// Everything else is as it is: whoever gets the tensor may change and free it.
// The class of a copy is the one whose memory goes round (object_pool.h).

template <class T>
std::ptrdiff_t OffsetIn(const c10::TensorImpl& impl, const T& member) {
  return reinterpret_cast<const char*>(&member) -
         reinterpret_cast<const char*>(&impl);
}

static_assert(sizeof(c10::TensorImpl) % 8 == 0);

bool MembersLieAsExpected(const c10::TensorImpl& impl) {
  return OffsetIn(impl, impl.unsafe_storage()) == kStorageAt &&
         OffsetIn(impl, impl.version_counter()) == kVersionAt &&
         OffsetIn(impl, *impl.sizes().data()) == kShapeAt + 8;
}

bool PointsIntoItself(const c10::TensorImpl& impl) {
  const auto begin = reinterpret_cast<std::uintptr_t>(&impl);
  for (std::size_t i = 0; i + sizeof(begin) <= sizeof(impl);
       i += sizeof(begin)) {
    std::uintptr_t word = 0;
    std::memcpy(&word, reinterpret_cast<const char*>(&impl) + i, sizeof(word));
    if (word - begin < sizeof(impl)) return true;
  }
  return false;
}

// Null if tensors like this one are not to be copied.
const TensorTemplate::Bytes* BytesOf(const TensorGeometry& g,
                                     const c10::TensorImpl& impl) {
  if (g.ndim > C10_SIZES_AND_STRIDES_MAX_INLINE_SIZE || g.offset != 0 ||
      impl.key_set().raw_repr() != g.key_set || !MembersLieAsExpected(impl) ||
      PointsIntoItself(impl)) {
    return nullptr;
  }
  auto* bytes = new TensorTemplate::Bytes;
  std::memcpy(bytes->impl, reinterpret_cast<const void*>(&impl), sizeof(impl));
  std::memcpy(bytes->impl, &g_pooled_vtable, sizeof(g_pooled_vtable));
  std::memset(bytes->impl + kStorageAt, 0, sizeof(c10::Storage));
  std::memset(bytes->impl + kVersionAt, 0, sizeof(c10::VariableVersion));
  // What lies behind the last size and the last stride is whatever was there.
  const auto unused =
      (C10_SIZES_AND_STRIDES_MAX_INLINE_SIZE - g.ndim) * sizeof(std::int64_t);
  const std::ptrdiff_t sizes = OffsetIn(impl, *impl.sizes().data());
  const std::ptrdiff_t strides = OffsetIn(impl, *impl.strides().data());
  std::memset(bytes->impl + strides - unused, 0, unused);
  std::memset(bytes->impl + 2 * strides - sizes - unused, 0, unused);
  bytes->has_version = impl.version_counter().enabled();
  return bytes;
}

// A tensor's tail where its memory was full of `byte`.
TailPadding TailIn(int byte) {
  alignas(c10::TensorImpl) unsigned char memory[sizeof(c10::TensorImpl)];
  void* place = memory;
  std::memset(place, byte, sizeof(memory));
  asm volatile("" : "+r"(place) : : "memory");  // or that would be left out
  auto* const impl =
      new (place) c10::TensorImpl(c10::DispatchKeySet(c10::DispatchKey::CPU),
                                  caffe2::TypeMeta::Make<float>(), c10::kCPU);
  asm volatile("" : "+r"(place) : : "memory");
  TailPadding tail;
  std::memcpy(tail.bits, static_cast<unsigned char*>(place) + kTailAt,
              sizeof(tail.bits));
  impl->~TensorImpl();
  return tail;
}

[[gnu::noinline]] at::Tensor MakeAsLibtorchDoes(const TensorTemplate& form,
                                                c10::Storage storage,
                                                std::uint32_t version) {
  const TensorGeometry& g = form.geometry;
  at::Tensor t = at::detail::make_tensor_base<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(g.dtype)));
  c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(c10::IntArrayRef(g.sizes, g.ndim),
                              c10::IntArrayRef(g.strides, g.ndim));
  if (const TensorTemplate::Bytes* bytes = BytesOf(g, *impl)) {
    const TensorTemplate::Bytes* none = nullptr;
    if (!form.bytes.compare_exchange_strong(none, bytes,
                                            std::memory_order_acq_rel)) {
      delete bytes;
    }
  }
  for (std::uint32_t i = 0; i < version; ++i) impl->bump_version();
  return t;
}

}  // namespace

const TailPadding g_tail_padding = [] {
  const TailPadding zeros = TailIn(0), ones = TailIn(0xff);
  TailPadding differ;
  for (std::size_t i = 0; i < sizeof(differ.bits); ++i) {
    differ.bits[i] = zeros.bits[i] ^ ones.bits[i];
  }
  return differ;
}();

std::shared_ptr<const TensorTemplate> TemplateOf(
    const TensorGeometry& geometry) {
  Forms& all = AllForms();
  const MutexLock lock(all.mutex);
  std::weak_ptr<const TensorTemplate>& entry = all.forms[geometry];
  if (auto form = entry.lock()) return form;
  auto made = std::make_shared<const TensorTemplate>(geometry);
  entry = made;
  if (all.forms.size() >= all.sweep_at) {
    std::erase_if(all.forms, [](const auto& e) { return e.second.expired(); });
    all.sweep_at = 1024 + 2 * all.forms.size();
  }
  return made;
}

at::Tensor MakeTensor(const TensorTemplate& form, c10::Storage storage,
                      std::uint32_t version) {
  const TensorTemplate::Bytes* bytes =
      form.bytes.load(std::memory_order_acquire);
  if (bytes == nullptr) [[unlikely]] {
    return MakeAsLibtorchDoes(form, std::move(storage), version);
  }
  c10::VariableVersion counter = bytes->has_version
                                     ? c10::VariableVersion(version)
                                     : c10::VariableVersion();
  auto* memory = static_cast<unsigned char*>(PooledTensor::Memory::Acquire());
  std::memcpy(memory, bytes->impl, kShapeAt);
  CopyShape(*bytes, memory);
  new (memory + kStorageAt) c10::Storage(std::move(storage));
  new (memory + kVersionAt) c10::VariableVersion(std::move(counter));
  return at::Tensor(
      c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim(
          reinterpret_cast<c10::TensorImpl*>(memory)));
}

}  // namespace tjit::runtime
