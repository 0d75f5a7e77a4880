// Reduction expressions: what a chunk of one round holds, as a value that can be compared.
//
// Equal expressions have equal ids. A fold rounds once, so fold(a, b, c) is not fold(fold(a, b),
// c); its first two operands commute, nothing else does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"

namespace weft::symbolic {

using Value = int;  // an expression's id
inline constexpr Value kNothing = -1;

// Which datum an expression is about; operands of one fold agree in it.
struct Datum {
  int chunk = 0;
  int round = 0;
  int call = 0;
  friend bool operator==(const Datum&, const Datum&) = default;
};

class Expressions {
 public:
  explicit Expressions(int ranks);

  Value leaf(Rank rank, const Datum& datum);
  // One operand: that operand itself. REQUIRES: none is finished, all are of one datum.
  Value fold(std::span<const Value> operands);
  Value finish(Value value);

  const Datum& datum(Value value) const { return nodes_[value].datum; }
  bool finished(Value value) const { return nodes_[value].kind == NodeKind::finish; }
  bool is_leaf(Value value) const { return nodes_[value].kind == NodeKind::leaf; }

  // The rank whose input occurs in two of the operands, or -1.
  Rank folded_twice(std::span<const Value> operands) const;
  // A rank whose input does not occur in the value, or -1.
  Rank missing(Value value) const;

  // "finish(fold(in 0, in 1))", cut off where it gets long.
  std::string text(Value value) const;

 private:
  enum class NodeKind : uint8_t { leaf, fold, finish };
  struct Node {
    NodeKind kind;
    Datum datum;
    uint32_t hash;
    int begin, count;  // in operands_; a leaf's one operand is its rank
  };

  Value intern(NodeKind kind, const Datum& datum, std::span<const int> operands);
  bool same(const Node& node, NodeKind kind, const Datum& datum, std::span<const int> ops) const;
  void grow();
  void add_inputs(Value value);
  uint64_t* inputs(Value value) { return &inputs_[size_t(value) * words_]; }
  const uint64_t* inputs(Value value) const { return &inputs_[size_t(value) * words_]; }
  void append_text(Value value, std::string& out) const;

  int ranks_;
  int words_;
  std::vector<Node> nodes_;
  std::vector<int> operands_;
  std::vector<uint64_t> inputs_;  // words_ per node: whose inputs occur in it
  std::vector<int> table_;        // open addressing; a power of two; -1 is free
  std::vector<int> sorted_;       // scratch of fold()
};

}  // namespace weft::symbolic
