#include "runtime/memory/scratch_pool.h"

#include <algorithm>
#include <cstddef>

namespace tjit::runtime {

void ScratchPool::Lend(char* data, std::size_t bytes) {
  const MutexLock lock(mutex_);
  if (data == nullptr) {
    requests_.clear();
    return lent_.clear();
  }
  lent_.push_back({bytes, data});
}

void ScratchPool::Begin() {
  const MutexLock lock(mutex_);
  for (Piece& piece : lent_) piece.is_taken = false;
  is_running_ = true;
  needed_.clear();
  requests_.clear();
  sizes_.clear();
}

void ScratchPool::Forget() {
  const MutexLock lock(mutex_);
  learned_.clear();
}

ScratchPool::Learned* ScratchPool::Find(std::size_t i) {
  const auto begin = sizes_.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(i) + 1;
  const auto found =
      std::find_if(learned_.begin(), learned_.end(), [&](const Learned& known) {
        return std::equal(known.sizes.begin(), known.sizes.end(), begin, end);
      });
  return found == learned_.end() ? nullptr : &*found;
}

int ScratchPool::Smallest(const std::vector<Piece>& pieces, std::size_t bytes) {
  int best = -1;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    if (piece.is_taken || piece.bytes < bytes) continue;
    if (best < 0 || piece.bytes < pieces[best].bytes) {
      best = static_cast<int>(i);
    }
  }
  return best;
}

int ScratchPool::Need(std::size_t bytes) {
  const int found = Smallest(needed_, bytes);
  if (found >= 0) return found;
  int largest = -1;
  for (std::size_t i = 0; i < needed_.size(); ++i) {
    if (needed_[i].is_taken) continue;
    if (largest < 0 || needed_[i].bytes > needed_[largest].bytes) {
      largest = static_cast<int>(i);
    }
  }
  if (largest < 0) {
    largest = static_cast<int>(needed_.size());
    needed_.emplace_back();
  }
  needed_[largest].bytes = bytes;
  return largest;
}

std::vector<std::uint64_t> ScratchPool::Need() const {
  const MutexLock lock(mutex_);
  std::vector<std::uint64_t> bytes;
  for (const Piece& piece : needed_) bytes.push_back(piece.bytes);
  return bytes;
}

char* ScratchPool::Acquire(std::size_t bytes) {
  const MutexLock lock(mutex_);
  if (!is_running_ || bytes < kMinBytes || requests_.size() == kMaxRequests) {
    return nullptr;
  }
  sizes_.push_back(bytes);
  Request request;
  char* data = nullptr;
  const Learned* const known = Find(requests_.size());
  if (known != nullptr && known->deaths >= kTrusted) {
    request.needed = Need(bytes);
    needed_[request.needed].is_taken = true;
    request.lent = Smallest(lent_, bytes);
    if (request.lent >= 0) {
      lent_[request.lent].is_taken = true;
      data = lent_[request.lent].data;
    }
  }
  request.data = data;
  requests_.push_back(request);
  return data;
}

void ScratchPool::Record(const void* data) {
  const MutexLock lock(mutex_);
  if (is_running_ && !requests_.empty() && requests_.back().data == nullptr) {
    requests_.back().data = data;
  }
}

bool ScratchPool::Release(const void* data) {
  const MutexLock lock(mutex_);
  for (Request& r : requests_) {
    if (r.data != data || r.is_dead) continue;
    const bool is_here = r.lent >= 0;
    r.is_dead = true;
    if (r.needed >= 0) needed_[r.needed].is_taken = false;
    if (is_here) lent_[r.lent].is_taken = false;
    return is_here;
  }
  return false;
}

void ScratchPool::End() {
  const MutexLock lock(mutex_);
  is_running_ = false;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    Learned* known = Find(i);
    if (known == nullptr && learned_.size() < kMaxLearned) {
      const auto end = sizes_.begin() + static_cast<std::ptrdiff_t>(i) + 1;
      known = &learned_.emplace_back(Learned{{sizes_.begin(), end}, 0});
    }
    if (known == nullptr) continue;
    if (!requests_[i].is_dead) {
      known->deaths = -1;
    } else if (known->deaths >= 0 && known->deaths < kTrusted) {
      ++known->deaths;
    }
  }
}

bool ScratchPool::IsHeld() {
  const MutexLock lock(mutex_);
  return std::any_of(requests_.begin(), requests_.end(), [](const Request& r) {
    return r.lent >= 0 && !r.is_dead;
  });
}

}  // namespace tjit::runtime
