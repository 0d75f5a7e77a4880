#include "engine/plan_cache.h"

#include "base/hash.h"

namespace weft {
namespace {

uint64_t hash_of(const PlanCache::Key& key) {
  uint64_t hash = 0;
  for (const uint64_t word : key) hash = mix(hash, word);
  return hash;
}

// Word by word: the library's wide loads would wait for the narrow stores that just made the key.
bool equal(const PlanCache::Key& a, const PlanCache::Key& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) return false;
  return true;
}

}  // namespace

PlanCache::Entry* PlanCache::find(const Key& key) {
  if (last_ && !last_->busy && equal(last_->key, key)) return last_;
  const auto [begin, end] = entries_.equal_range(hash_of(key));
  for (auto it = begin; it != end; ++it)
    if (!it->second->busy && equal(it->second->key, key)) return last_ = it->second.get();
  return nullptr;
}

PlanCache::Entry* PlanCache::insert(const Key& key, std::unique_ptr<Plan> plan,
                                    uint64_t fingerprint, uint16_t label) {
  if (entries_.size() >= kPlansMax) evict();
  auto entry = std::make_unique<Entry>(Entry{key, std::move(plan), fingerprint, label});
  last_ = entry.get();
  entries_.emplace(hash_of(key), std::move(entry));
  return last_;
}

void PlanCache::evict() {
  std::erase_if(entries_, [](const auto& item) { return !item.second->busy; });
  last_ = nullptr;
}

void make_key(const Call& call, bool in_place, Purpose purpose, PlanCache::Key& key) {
  key.clear();
  key.push_back(static_cast<uint64_t>(call.kind) | static_cast<uint64_t>(call.type) << 8 |
                static_cast<uint64_t>(call.op) << 16 | static_cast<uint64_t>(in_place) << 24 |
                static_cast<uint64_t>(call.varying) << 25 | static_cast<uint64_t>(purpose) << 26 |
                static_cast<uint64_t>(root_of(call)) << 32);
  key.push_back(call.count);
  if (!call.varying) return;
  for (const auto list : {call.counts, call.offsets, call.recv_counts, call.recv_offsets}) {
    key.push_back(list.size());
    key.insert(key.end(), list.begin(), list.end());
  }
}

void make_key(std::span<const Transfer> group, PlanCache::Key& key) {
  key.clear();
  key.push_back(static_cast<uint64_t>(Kind::exchange));
  for (const Transfer& t : group) {
    key.push_back(static_cast<uint64_t>(t.direction) << 32 | static_cast<uint64_t>(t.peer));
    key.push_back(t.count * size_of(t.type));
  }
}

}  // namespace weft
