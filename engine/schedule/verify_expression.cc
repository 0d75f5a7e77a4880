#include "engine/schedule/verify_expression.h"

#include <algorithm>
#include <bit>

namespace weft::symbolic {
namespace {

constexpr size_t kLongestText = 300;

uint32_t mix(uint32_t hash, uint32_t word) {
  uint64_t product = (uint64_t{hash} ^ word) * 0x9E3779B97F4A7C15u;
  return static_cast<uint32_t>(product >> 29);
}

}  // namespace

Expressions::Expressions(int ranks) : ranks_(ranks), words_((ranks + 63) / 64), table_(1024, -1) {}

Value Expressions::leaf(Rank rank, const Datum& datum) {
  return intern(NodeKind::leaf, datum, std::span(&rank, 1));
}

Value Expressions::fold(std::span<const Value> operands) {
  if (operands.size() == 1) return operands[0];
  sorted_.assign(operands.begin(), operands.end());
  if (sorted_[0] > sorted_[1]) std::swap(sorted_[0], sorted_[1]);
  return intern(NodeKind::fold, datum(operands[0]), sorted_);
}

Value Expressions::finish(Value value) {
  return intern(NodeKind::finish, Datum(datum(value)), std::span(&value, 1));
}

Rank Expressions::folded_twice(std::span<const Value> operands) const {
  for (int w = 0; w < words_; ++w) {
    uint64_t seen = 0;
    for (Value v : operands) {
      const uint64_t mine = inputs(v)[w];
      if (seen & mine) return w * 64 + std::countr_zero(seen & mine);
      seen |= mine;
    }
  }
  return -1;
}

Rank Expressions::missing(Value value) const {
  for (int w = 0; w < words_; ++w) {
    const int bits = std::min(64, ranks_ - w * 64);
    const uint64_t all = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    const uint64_t absent = all & ~inputs(value)[w];
    if (absent) return w * 64 + std::countr_zero(absent);
  }
  return -1;
}

Value Expressions::intern(NodeKind kind, const Datum& d, std::span<const int> operands) {
  uint32_t hash = mix(static_cast<uint32_t>(kind), static_cast<uint32_t>(d.chunk));
  hash = mix(mix(hash, static_cast<uint32_t>(d.round)), static_cast<uint32_t>(d.call));
  for (int operand : operands) hash = mix(hash, static_cast<uint32_t>(operand));
  if (nodes_.size() * 2 >= table_.size()) grow();
  size_t at = hash & (table_.size() - 1);
  for (; table_[at] >= 0; at = (at + 1) & (table_.size() - 1)) {
    const Node& node = nodes_[table_[at]];
    if (node.hash == hash && same(node, kind, d, operands)) return table_[at];
  }
  const Value value = static_cast<Value>(nodes_.size());
  table_[at] = value;
  nodes_.push_back({kind, d, hash, int(operands_.size()), int(operands.size())});
  operands_.insert(operands_.end(), operands.begin(), operands.end());
  add_inputs(value);
  return value;
}

bool Expressions::same(const Node& node, NodeKind kind, const Datum& datum,
                       std::span<const int> ops) const {
  return node.kind == kind && node.datum == datum && node.count == int(ops.size()) &&
         std::equal(ops.begin(), ops.end(), operands_.begin() + node.begin);
}

void Expressions::grow() {
  table_.assign(table_.size() * 2, -1);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    size_t at = nodes_[i].hash & (table_.size() - 1);
    while (table_[at] >= 0) at = (at + 1) & (table_.size() - 1);
    table_[at] = static_cast<int>(i);
  }
}

void Expressions::add_inputs(Value value) {
  inputs_.resize(inputs_.size() + words_, 0);
  const Node& node = nodes_[value];
  for (int i = 0; i < node.count; ++i) {
    const int operand = operands_[node.begin + i];
    if (node.kind == NodeKind::leaf) {
      inputs(value)[operand / 64] |= uint64_t{1} << (operand % 64);
    } else {
      for (int w = 0; w < words_; ++w) inputs(value)[w] |= inputs(operand)[w];
    }
  }
}

std::string Expressions::text(Value value) const {
  std::string out;
  append_text(value, out);
  if (out.size() >= kLongestText) out += "...";
  return out;
}

void Expressions::append_text(Value value, std::string& out) const {
  if (out.size() >= kLongestText) return;
  const Node& node = nodes_[value];
  if (node.kind == NodeKind::leaf) {
    out += "in " + std::to_string(operands_[node.begin]);
    return;
  }
  out += node.kind == NodeKind::fold ? "fold(" : "finish(";
  for (int i = 0; i < node.count && out.size() < kLongestText; ++i) {
    if (i) out += ", ";
    append_text(operands_[node.begin + i], out);
  }
  if (out.size() < kLongestText) out += ')';
}

}  // namespace weft::symbolic
