// Builds recorded paths for tests: numbers slots by first use, as a recorder
// does.
//
//   PathBuilder path;
//   const int x = path.External(F32({32, 8}));
//   const int y = path.Op("aten::relu", {x});       // a fresh result like x
//   path.InPlace("aten::add_.Tensor", {y, x});
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "recorder/trace.h"

namespace tjit {

// A contiguous f32 tensor.
inline TensorGeometry F32(std::initializer_list<std::int64_t> sizes) {
  TensorGeometry g;
  g.key_set = 0x8001;
  g.dtype = 6;
  g.itemsize = 4;
  g.ndim = static_cast<std::uint8_t>(sizes.size());
  int d = 0;
  for (const std::int64_t size : sizes) g.sizes[d++] = size;
  std::int64_t stride = 1;
  for (d = g.ndim - 1; d >= 0; --d) {
    g.strides[d] = stride;
    stride *= g.sizes[d] > 1 ? g.sizes[d] : 1;
  }
  return g;
}

inline TensorGeometry WithStrides(TensorGeometry g,
                                  std::initializer_list<std::int64_t> strides,
                                  std::int64_t offset = 0) {
  int d = 0;
  for (const std::int64_t stride : strides) g.strides[d++] = stride;
  g.offset = offset;
  return g;
}

inline std::uint64_t BytesOf(const TensorGeometry& g) {
  return static_cast<std::uint64_t>(g.numel()) * g.itemsize;
}

inline ScalarRecord FreeScalar(double v) {
  ScalarRecord s;
  s.value.type = 7;
  std::memcpy(&s.value.bits[0], &v, sizeof(v));
  s.may_vary = true;
  return s;
}

inline ScalarRecord BakedScalar(double v) {
  ScalarRecord s = FreeScalar(v);
  s.may_vary = false;
  return s;
}

class PathBuilder {
 public:
  // A tensor over a storage of its own. The number names the tensor.
  int External(const TensorGeometry& geometry) {
    return External(geometry, BytesOf(geometry));
  }
  int External(const TensorGeometry& geometry, std::uint64_t bytes) {
    storages_.push_back({bytes, -1, kNoSlot});
    return AddTensor(geometry, storages_.size() - 1);
  }
  // Another tensor over the same storage.
  int View(int tensor, const TensorGeometry& geometry) {
    return AddTensor(geometry,
                     tensors_[static_cast<std::size_t>(tensor)].storage);
  }

  // A step with one fresh result, whose tensor is returned.
  int Op(std::string_view name, const std::vector<int>& args,
         const TensorGeometry& result) {
    NewStep& step = Start(name, args);
    storages_.push_back({BytesOf(result), static_cast<int>(steps_.size()) - 1,
                         kNoSlot});
    const int tensor = AddTensor(result, storages_.size() - 1);
    ResultRecord record;
    record.slot = SlotOf(tensor, &step);
    record.geometry = result;
    step.step.results.push_back(record);
    return tensor;
  }
  int Op(std::string_view name, const std::vector<int>& args) {
    const auto first = static_cast<std::size_t>(args[0]);
    const TensorGeometry same = tensors_[first].geometry;
    return Op(name, args, same);
  }

  // A step that writes its first argument and returns it.
  void InPlace(std::string_view name, const std::vector<int>& args) {
    NewStep& step = Start(name, args);
    step.step.args[0].written = true;
    ResultRecord record;
    record.kind = ResultRecord::Kind::kAlias;
    record.alias_arg = 0;
    step.step.results.push_back(record);
  }

  // The last step, for what the functions above do not set.
  StepRecord& last() { return steps_.back().step; }
  std::vector<NewStep>& steps() { return steps_; }

  std::vector<const StepRecord*> records() const {
    std::vector<const StepRecord*> records;
    for (const NewStep& s : steps_) records.push_back(&s.step);
    return records;
  }
  std::vector<SlotRecord> slots() const {
    std::vector<SlotRecord> slots;
    for (const NewStep& s : steps_) {
      slots.insert(slots.end(), s.new_slots.begin(), s.new_slots.end());
    }
    return slots;
  }

 private:
  struct Storage {
    std::uint64_t bytes;
    std::int32_t born_step;
    std::int32_t slot;
  };
  struct Tensor {
    TensorGeometry geometry;
    std::size_t storage;
  };

  int AddTensor(const TensorGeometry& geometry, std::size_t storage) {
    tensors_.push_back({geometry, storage});
    return static_cast<int>(tensors_.size()) - 1;
  }

  std::int32_t SlotOf(int tensor, NewStep* step) {
    Storage& s = storages_[tensors_[static_cast<std::size_t>(tensor)].storage];
    if (s.slot == kNoSlot) {
      s.slot = next_slot_++;
      step->new_slots.push_back({s.bytes, s.born_step});
    }
    return s.slot;
  }

  NewStep& Start(std::string_view name, const std::vector<int>& args) {
    NewStep step;
    step.step.op = InternOp(name);
    for (const int tensor : args) {
      ArgRecord arg;
      if (tensor >= 0) {
        arg.slot = SlotOf(tensor, &step);
        arg.geometry = tensors_[static_cast<std::size_t>(tensor)].geometry;
      }
      step.step.args.push_back(arg);
    }
    steps_.push_back(std::move(step));
    return steps_.back();
  }

  std::vector<Storage> storages_;
  std::vector<Tensor> tensors_;
  std::vector<NewStep> steps_;
  std::int32_t next_slot_ = 0;
};

}  // namespace tjit
