#include "bench/oracle.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/text.h"
#include "bench/formats.h"
#include "bench/random.h"

namespace weft::bench {
namespace {

constexpr size_t kBatchBytes = 16384;

// As the number reads, the most significant byte first.
std::string bits_text(ConstBytes bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "0x";
  for (size_t i = bytes.size(); i-- > 0;) {
    text.push_back(kDigits[std::to_integer<unsigned>(bytes[i]) >> 4]);
    text.push_back(kDigits[std::to_integer<unsigned>(bytes[i]) & 15]);
  }
  return text;
}

bool equal_bits(ConstBytes a, ConstBytes b) {
  return a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0;
}

template <class T>
bool equal_values(ConstBytes a, ConstBytes b) {
  for (size_t at = 0; at < a.size(); at += sizeof(T)) {
    T x, y;
    std::memcpy(&x, a.data() + at, sizeof x);
    std::memcpy(&y, b.data() + at, sizeof y);
    if (!(x == y)) return false;
  }
  return true;
}

// Complex products give zeros whose sign depends on the order of the factors; +0 and -0 then count
// as equal. Everything else must agree in every bit.
bool signs_of_zero_vary(const Recipe& recipe) {
  return is_complex(recipe.type) &&
         (recipe.op == ReduceOp::prod || recipe.op == ReduceOp::premulsum);
}

bool equal_elements(const Recipe& recipe, ConstBytes a, ConstBytes b) {
  if (!signs_of_zero_vary(recipe)) return equal_bits(a, b);
  return recipe.type == DataType::complex64 ? equal_values<float>(a, b)
                                            : equal_values<double>(a, b);
}

// Walks one buffer in address order.
class Checker {
 public:
  Checker(const Recipe& recipe, Rank me, ConstBytes whole, ConstBytes input)
      : recipe_(recipe), me_(me), size_(size_of(recipe.type)), whole_(whole), input_(input) {}

  void piece(const Piece& piece, ConstBytes output) {
    untouched_until(offset(output) + piece.to * size_);
    const bool reduced = piece.source == Piece::kAllRanks;
    const auto expect = [&](size_t first, Bytes out) {
      if (reduced)
        fill_expected(recipe_, first, out);
      else
        fill_input(recipe_, piece.source, first, out);
    };
    result_.wrong += compare(output.subspan(piece.to * size_, piece.count * size_), piece.from,
                             "output element ", piece.to, expect);
    cursor_ = offset(output) + (piece.to + piece.count) * size_;
  }

  CheckResult finish() {
    untouched_until(whole_.size());
    return std::move(result_);
  }

 private:
  size_t offset(ConstBytes part) const { return static_cast<size_t>(part.data() - whole_.data()); }

  // Everything from the cursor to `end` is input, or the pattern that prepare() left.
  void untouched_until(size_t end) {
    const size_t input_begin = input_.empty() ? end : std::min(offset(input_), end);
    const size_t input_end = input_.empty() ? end : std::min(offset(input_) + input_.size(), end);
    pattern_until(input_begin);
    if (cursor_ < input_end) {
      const size_t element = (cursor_ - offset(input_)) / size_;
      const auto expect = [&](size_t first, Bytes out) { fill_input(recipe_, me_, first, out); };
      result_.touched += compare(whole_.subspan(cursor_, input_end - cursor_), element,
                                 "input, changed by the call: element ", element, expect);
      cursor_ = input_end;
    }
    pattern_until(end);
  }

  void pattern_until(size_t end) {
    for (; cursor_ < end; ++cursor_) {
      if (whole_[cursor_] == kUntouched) continue;
      ++result_.touched;
      report("byte outside of the data, at ", cursor_, whole_.subspan(cursor_, 1),
             ConstBytes(&kUntouched, 1));
    }
  }

  // Elements of `got` that differ from what `expect(first, out)` writes.
  template <class Expect>
  size_t compare(ConstBytes got, size_t first, const char* what, size_t number, Expect expect) {
    std::array<std::byte, kBatchBytes> batch;
    size_t wrong = 0;
    for (size_t at = 0; at < got.size(); at += kBatchBytes) {
      const ConstBytes part = got.subspan(at, std::min(kBatchBytes, got.size() - at));
      const Bytes expected = Bytes(batch).first(part.size());
      expect(first + at / size_, expected);
      if (equal_bits(part, expected)) continue;
      for (size_t i = 0; i < part.size(); i += size_) {
        const ConstBytes have = part.subspan(i, size_), want = expected.subspan(i, size_);
        if (equal_elements(recipe_, have, want)) continue;
        ++wrong;
        report(what, number + (at + i) / size_, have, want);
      }
    }
    return wrong;
  }

  void report(const char* what, size_t number, ConstBytes have, ConstBytes want) {
    if (result_.first.empty())
      result_.first = concat(what, number, " is ", bits_text(have), ", expected ", bits_text(want));
  }

  const Recipe& recipe_;
  const Rank me_;
  const size_t size_;
  const ConstBytes whole_;
  const ConstBytes input_;
  size_t cursor_ = 0;
  CheckResult result_;
};

}  // namespace

void prepare(const Recipe& recipe, Rank me, Bytes whole, Bytes input) {
  std::fill(whole.begin(), whole.end(), kUntouched);
  if (!input.empty()) fill_input(recipe, me, 0, input);
}

CheckResult check(const Recipe& recipe, const Layout& layout, Rank me, ConstBytes whole,
                  ConstBytes input, ConstBytes output) {
  Checker checker(recipe, me, whole, input);
  if (!output.empty())
    for (const Piece& piece : layout.pieces) checker.piece(piece, output);
  return checker.finish();
}

uint64_t digest(const Recipe& recipe, const Layout& layout, ConstBytes output, size_t elements) {
  const size_t size = size_of(recipe.type);
  uint64_t sum = 0;
  for (const Piece& piece : layout.pieces) {
    for (size_t i = 0; i < piece.count; ++i) {
      const size_t element = piece.from + i;
      if (element >= elements) break;
      uint64_t hash = mix(element, static_cast<uint64_t>(piece.source + 1));
      for (size_t at = 0; at < size; at += std::min<size_t>(8, size)) {
        uint64_t bits = 0;
        std::memcpy(&bits, output.data() + (piece.to + i) * size + at, std::min<size_t>(8, size));
        hash = mix(hash, bits);
      }
      sum += hash;
    }
  }
  return sum;
}

}  // namespace weft::bench
