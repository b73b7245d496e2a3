// A geometry that records hold together.
//
// A recorded step has two or three tensors of 152 bytes of geometry each, and
// the steps of one program use a few again and again: as values they were half
// of what recordings take.
//
// Threads: as a std::shared_ptr. What is shared never changes.
// Tested by: tests/recorder/shared_geometry_test.cpp
#pragma once

#include <memory>

#include "recorder/tensor_meta.h"

namespace tjit {

class SharedGeometry {
 public:
  SharedGeometry() = default;  // all zero: an undefined tensor
  // A geometry of its own. Implicit: a record is written as if it held values.
  SharedGeometry(const TensorGeometry& g)  // NOLINT
      : held_(std::make_shared<TensorGeometry>(g)) {}

  const TensorGeometry& operator*() const {
    return held_ != nullptr ? *held_ : kNone;
  }
  const TensorGeometry* operator->() const { return &**this; }
  operator const TensorGeometry&() const { return **this; }  // NOLINT

  // To write into, shared with nobody. Valid until it is assigned or copied.
  TensorGeometry& Own() {
    held_ = std::make_shared<TensorGeometry>(**this);
    return *held_;
  }
  bool IsSameObject(const SharedGeometry& o) const { return held_ == o.held_; }

  friend bool operator==(const SharedGeometry& a, const SharedGeometry& b) {
    return a.held_ == b.held_ || *a == *b;
  }
  friend bool operator==(const SharedGeometry& a, const TensorGeometry& b) {
    return *a == b;
  }

 private:
  static constexpr TensorGeometry kNone{};
  std::shared_ptr<TensorGeometry> held_;
};

}  // namespace tjit
