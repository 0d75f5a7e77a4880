// The one n-operand loop, for every kit, element type and operation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/claim.h"
#include "kernels/copy.h"
#include "kernels/reduce.h"
#include "kernels/vector.h"

namespace weft {

// The operands of an element are folded in registers; nothing in between is stored.
template <class Kit, class T, class Op>
struct Reducer {
  using L = LanesFor<Kit, T, Op>;
  using Acc = typename L::Acc;
  using Stored = typename L::Stored;
  static constexpr int kUnroll = L::kUnroll;
  static constexpr size_t kBlock = kUnroll * L::kCount;
  // While so many elements of a target are written, as many behind them are claimed.
  static constexpr size_t kClaimed = kClaimAhead / 2 / sizeof(T);

  // Only what folds like sum is ever scaled or divided.
  static constexpr bool kCanModify = std::is_same_v<Op, Sum>;

  template <bool kModified>
  static constexpr bool kPlainSum = std::is_same_v<Op, Sum> && !kModified;

  struct Modifiers {
    uint64_t scaled = 0;
    bool divided = false;
    typename L::Divisor divisor{1};
    Acc scalar{};
  };

  // Whole vectors; each visit to memory is at `at` elements from the start.
  struct Whole {
    bool streaming, streaming_second;
    WEFT_HD Stored load(const void* from, size_t at) const {
      return Kit::template load<Stored>(static_cast<const T*>(from) + at);
    }
    WEFT_HD void store(void* to, size_t at, Stored value) const {
      Kit::store(static_cast<T*>(to) + at, value);
    }
    WEFT_HD void store_first(void* to, size_t at, Stored value) const {
      if (streaming)
        Kit::stream(static_cast<T*>(to) + at, value);
      else
        store(to, at, value);
    }
    WEFT_HD void store_second(void* to, size_t at, Stored value) const {
      if (streaming_second)
        Kit::stream(static_cast<T*>(to) + at, value);
      else
        store(to, at, value);
    }
  };

  // Fewer elements than a vector has.
  struct Part {
    size_t count;
    WEFT_HD Stored load(const void* from, size_t at) const {
      return Kit::template load_some<Stored>(static_cast<const T*>(from) + at, count * sizeof(T));
    }
    WEFT_HD void store(void* to, size_t at, Stored value) const {
      Kit::store_some(static_cast<T*>(to) + at, value, count * sizeof(T));
    }
    WEFT_HD void store_first(void* to, size_t at, Stored value) const { store(to, at, value); }
    WEFT_HD void store_second(void* to, size_t at, Stored value) const { store(to, at, value); }
  };

  // Where the operands are and where the result goes.
  struct Places {
    const void* const* sources;
    int source_count;
    void* targets[2];
    int target_count;
  };

  template <bool kModified, class Access>
  static WEFT_HD Acc operand(const Places& places, int source, size_t at,
                             const Modifiers& modifiers, const Access& access) {
    const Stored stored = access.load(places.sources[source], at);
    if constexpr (kPlainSum<kModified>) return L::unpack_term(stored);
    const Acc value = L::unpack(stored);
    if constexpr (kModified) {
      if ((modifiers.scaled >> source & 1) != 0) return L::scale(value, modifiers.scalar);
    }
    return value;
  }

  template <int kSources, bool kModified>
  static WEFT_HD Stored result_of(const Acc& acc, const Modifiers& modifiers) {
    if constexpr (kModified) {
      if (modifiers.divided) return L::pack(L::divide(acc, modifiers.divisor));
    }
    if constexpr (kPlainSum<kModified>) {
      return L::template pack_sum<kSources>(acc);
    } else {
      return L::pack(acc);
    }
  }

  // kSources: their number if it is known here, or 0.
  template <int kVectors, int kSources, bool kModified, class Access>
  static WEFT_HD void step(const Places& places, size_t at, const Modifiers& modifiers,
                           const Access& access) {
    Acc acc[kVectors];
    for (int v = 0; v < kVectors; ++v)
      acc[v] = operand<kModified>(places, 0, at + v * L::kCount, modifiers, access);
    for (int k = 1; k < places.source_count; ++k) {
      for (int v = 0; v < kVectors; ++v)
        acc[v] = L::template fold<Op>(
            acc[v], operand<kModified>(places, k, at + v * L::kCount, modifiers, access));
    }
    Stored result[kVectors];
    for (int v = 0; v < kVectors; ++v)
      result[v] = result_of<kSources, kModified>(acc[v], modifiers);
    for (int v = 0; v < kVectors; ++v)
      access.store_first(places.targets[0], at + v * L::kCount, result[v]);
    if (places.target_count == 1) return;
    for (int v = 0; v < kVectors; ++v)
      access.store_second(places.targets[1], at + v * L::kCount, result[v]);
  }

  // Elements [at, end), vector by vector. Apart from the loops, which would each grow by it.
  template <bool kModified>
  [[gnu::noinline]] static void ends(const Places& places, size_t at, size_t end,
                                     const Modifiers& modifiers) {
    for (; end - at >= L::kCount; at += L::kCount)
      step<1, 0, kModified>(places, at, modifiers, Whole{false, false});
    if (at < end) step<1, 0, kModified>(places, at, modifiers, Part{end - at});
  }

  // kSources: their number, or 0 for any.
  template <int kSources, bool kModified>
  static void loop(const ReduceCall& call, const Modifiers& modifiers) {
    const void* fixed[kSources == 0 ? 1 : kSources];
    for (int k = 0; k < kSources; ++k) fixed[k] = call.sources[k];
    const Places places{kSources == 0 ? call.sources : fixed,
                        kSources == 0 ? call.source_count : kSources,
                        {call.targets[0], call.targets[call.target_count - 1]},
                        call.target_count};
    const Whole whole = streamed(call, places);
    const bool streams = whole.streaming || whole.streaming_second;
    size_t at = streams ? to_alignment(places.targets[whole.streaming ? 0 : 1], call.count) : 0;
    ends<kModified>(places, 0, at, modifiers);
    const char* const claims = claimed_target(call);
    for (size_t end = at; call.count - at >= kBlock;) {
      end = claims ? stretch_end(end, call.count) : call.count;
      if (call.count - end >= kClaimed)
        claim_lines<Kit, kClaimed * sizeof(T)>(claims + end * sizeof(T));
      for (; end - at >= kBlock; at += kBlock)
        step<kUnroll, kSources, kModified>(places, at, modifiers, whole);
    }
    ends<kModified>(places, at, call.count, modifiers);
    if (streams) Kit::fence();
  }

  // The last target, if it is shared and written into the caches; else null.
  static const char* claimed_target(const ReduceCall& call) {
    const int last = call.target_count - 1;
    const bool claims = ((call.shared & ~call.streamed) >> last & 1) != 0;
    return claims ? static_cast<const char*>(call.targets[last]) : nullptr;
  }
  // Of the stretch that begins at `from`; what is left over belongs to the last one.
  static size_t stretch_end(size_t from, size_t count) {
    return count - from >= kClaimed ? from + kClaimed : count;
  }

  // A message of one vector at most, as many are.
  static void pair(const ReduceCall& call) {
    const Places places{
        call.sources, 2, {call.targets[0], call.targets[call.target_count - 1]}, call.target_count};
    if (call.count == L::kCount)
      step<1, 2, false>(places, 0, {}, Whole{false, false});
    else
      step<1, 2, false>(places, 0, {}, Part{call.count});
  }

  // Both only where what aligns one target aligns the other.
  static Whole streamed(const ReduceCall& call, const Places& places) {
    const bool first = (call.streamed & 1) != 0 && can_align(places.targets[0]);
    const bool second =
        (call.streamed & 2) != 0 && places.target_count == 2 && can_align(places.targets[1]);
    return {first, second && (!first || aligned_alike(places))};
  }

  static bool can_align(const void* target) {
    return reinterpret_cast<uintptr_t>(target) % sizeof(T) == 0;
  }
  // So that what aligns the first target aligns the second.
  static bool aligned_alike(const Places& places) {
    const auto first = reinterpret_cast<uintptr_t>(places.targets[0]);
    return (first - reinterpret_cast<uintptr_t>(places.targets[1])) % sizeof(Stored) == 0;
  }
  static size_t to_alignment(const void* target, size_t count) {
    const size_t bytes = -reinterpret_cast<uintptr_t>(target) % sizeof(Stored);
    return bytes / sizeof(T) < count ? bytes / sizeof(T) : count;
  }

  static void copy(const ReduceCall& call) {
    for (int t = 0; t < call.target_count; ++t) {
      if (call.targets[t] != call.sources[0])
        copy_bytes(call.targets[t], call.sources[0], call.count * sizeof(T),
                   (call.streamed >> t & 1) != 0 ? CopyWay::streamed
                   : (call.shared >> t & 1) != 0 ? CopyWay::shared
                                                 : CopyWay::taken);
    }
  }

  static void run(const ReduceCall& call) {
    WEFT_CHECK(kCanModify || (call.scaled == 0 && call.divisor <= 1));
    if (call.count == 0) return;
    if constexpr (kCanModify) {
      if (call.scaled != 0 || call.divisor > 1) {
        Modifiers modifiers{call.scaled, call.divisor > 1, typename L::Divisor(call.divisor),
                            Acc{}};
        if (call.scaled != 0) modifiers.scalar = L::splat(call.scalar);
        return loop<0, true>(call, modifiers);
      }
    }
    switch (call.source_count) {
      case 1: return copy(call);
      case 2: return call.count <= L::kCount ? pair(call) : loop<2, false>(call, {});
      case 3: return loop<3, false>(call, {});
      case 4: return loop<4, false>(call, {});
      default: return loop<0, false>(call, {});
    }
  }
};

// Operations on the bits are the same for every integer type: bytes, `kSize` to the element.
template <class Kit, size_t kSize, class Op>
void reduce_bits(const ReduceCall& call) {
  ReduceCall bytes = call;
  bytes.count = call.count * kSize;
  Reducer<Kit, uint8_t, Op>::run(bytes);
}

template <class Kit, class T>
ReduceKernel kernel_of_arithmetic(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::premulsum: return Reducer<Kit, T, Sum>::run;
    case ReduceOp::prod:
      if constexpr (std::is_integral_v<T>) {
        return Reducer<Kit, std::make_unsigned_t<T>, Prod>::run;
      } else {
        return Reducer<Kit, T, Prod>::run;
      }
    case ReduceOp::min:
      if constexpr (!kIsComplex<T>) return Reducer<Kit, T, Min>::run;
      break;
    case ReduceOp::max:
      if constexpr (!kIsComplex<T>) return Reducer<Kit, T, Max>::run;
      break;
    default: break;
  }
  return nullptr;
}

template <class Kit, size_t kSize>
ReduceKernel kernel_of_bits(ReduceOp op) {
  switch (op) {
    case ReduceOp::band: return reduce_bits<Kit, kSize, BitAnd>;
    case ReduceOp::bor: return reduce_bits<Kit, kSize, BitOr>;
    case ReduceOp::bxor: return reduce_bits<Kit, kSize, BitXor>;
    default: return nullptr;
  }
}

template <class Kit, DataType kType>
ReduceKernel kernel_of(ReduceOp op) {
  using T = typename ElementOf<kType>::type;
  if constexpr (std::is_integral_v<T>) {
    if (ReduceKernel kernel = kernel_of_bits<Kit, sizeof(T)>(op)) return kernel;
  }
  if constexpr (kType == DataType::boolean)
    return nullptr;
  else
    return kernel_of_arithmetic<Kit, T>(op);
}

// The kernel of one instruction set; nullptr where `op` has no meaning on `type`.
template <class Kit>
ReduceKernel find_kernel(ReduceOp op, DataType type) {
  switch (type) {
    case DataType::int8: return kernel_of<Kit, DataType::int8>(op);
    case DataType::uint8: return kernel_of<Kit, DataType::uint8>(op);
    case DataType::int16: return kernel_of<Kit, DataType::int16>(op);
    case DataType::uint16: return kernel_of<Kit, DataType::uint16>(op);
    case DataType::int32: return kernel_of<Kit, DataType::int32>(op);
    case DataType::uint32: return kernel_of<Kit, DataType::uint32>(op);
    case DataType::int64: return kernel_of<Kit, DataType::int64>(op);
    case DataType::uint64: return kernel_of<Kit, DataType::uint64>(op);
    case DataType::float16: return kernel_of<Kit, DataType::float16>(op);
    case DataType::bfloat16: return kernel_of<Kit, DataType::bfloat16>(op);
    case DataType::float32: return kernel_of<Kit, DataType::float32>(op);
    case DataType::float64: return kernel_of<Kit, DataType::float64>(op);
    case DataType::fp8_e4m3: return kernel_of<Kit, DataType::fp8_e4m3>(op);
    case DataType::fp8_e5m2: return kernel_of<Kit, DataType::fp8_e5m2>(op);
    case DataType::complex64: return kernel_of<Kit, DataType::complex64>(op);
    case DataType::complex128: return kernel_of<Kit, DataType::complex128>(op);
    case DataType::boolean: return kernel_of<Kit, DataType::boolean>(op);
  }
  return nullptr;
}

}  // namespace weft
