#include "runtime/scratch_room.h"

#include <algorithm>

namespace tjit::runtime {

void ScratchRoom::Lend(char* data, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (data == nullptr) return lent_.clear();
  lent_.push_back({bytes, data});
}

void ScratchRoom::Begin() {
  const std::lock_guard lock(mutex_);
  for (Piece& piece : lent_) piece.is_taken = false;
  is_running_ = true;
  is_as_learned_ = true;
  needed_.clear();
  requests_.clear();
}

bool ScratchRoom::IsTrusted(std::size_t bytes) const {
  const std::size_t i = requests_.size();
  return is_as_learned_ && i < learned_.size() && learned_[i].bytes == bytes &&
         learned_[i].deaths >= kTrusted;
}

int ScratchRoom::Smallest(const std::vector<Piece>& pieces, std::size_t bytes) {
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

int ScratchRoom::Need(std::size_t bytes) {
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

std::vector<std::uint64_t> ScratchRoom::Need() const {
  std::vector<std::uint64_t> bytes;
  for (const Piece& piece : needed_) bytes.push_back(piece.bytes);
  return bytes;
}

char* ScratchRoom::Take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!is_running_ || bytes < kMinBytes || requests_.size() == kMaxRequests) {
    return nullptr;
  }
  Request request{bytes};
  char* data = nullptr;
  if (IsTrusted(bytes)) {
    request.needed = Need(bytes);
    needed_[request.needed].is_taken = true;
    request.lent = Smallest(lent_, bytes);
    if (request.lent >= 0) {
      lent_[request.lent].is_taken = true;
      data = lent_[request.lent].data;
    }
  }
  request.data = data;
  const std::size_t i = requests_.size();
  is_as_learned_ =
      is_as_learned_ && i < learned_.size() && learned_[i].bytes == bytes;
  requests_.push_back(request);
  return data;
}

void ScratchRoom::Note(const void* data) {
  const std::lock_guard lock(mutex_);
  if (is_running_ && !requests_.empty() && requests_.back().data == nullptr) {
    requests_.back().data = data;
  }
}

bool ScratchRoom::Give(const void* data) {
  const std::lock_guard lock(mutex_);
  for (Request& r : requests_) {
    if (r.data != data || r.is_dead) continue;
    const bool is_here = r.lent >= 0;
    if (!is_running_) return is_here;
    r.is_dead = true;
    if (r.needed >= 0) needed_[r.needed].is_taken = false;
    if (is_here) lent_[r.lent].is_taken = false;
    return is_here;
  }
  return false;
}

bool ScratchRoom::End() {
  const std::lock_guard lock(mutex_);
  is_running_ = false;
  bool is_clean = true;
  learned_.resize(requests_.size());
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const Request& r = requests_[i];
    Learned& known = learned_[i];
    if (known.bytes != r.bytes) known = {r.bytes, 0};
    if (!r.is_dead) {
      known.deaths = -1;
    } else if (known.deaths >= 0 && known.deaths < kTrusted) {
      ++known.deaths;
    }
    is_clean = is_clean && (r.is_dead || r.lent < 0);
  }
  return is_clean;
}

}  // namespace tjit::runtime
