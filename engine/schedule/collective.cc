#include "engine/schedule/collective.h"

namespace weft {

int message_blocks(Kind kind, int ranks) {
  const bool whole = kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::broadcast;
  return whole ? 1 : ranks;
}

double buffer_blocks(Kind kind, int ranks) {
  switch (kind) {
    case Kind::all_reduce:
    case Kind::gather:
    case Kind::scatter: return 2;
    case Kind::reduce:
    case Kind::broadcast: return 1 + 1.0 / ranks;
    case Kind::all_gather:
    case Kind::reduce_scatter: return 1 + ranks;
    case Kind::all_to_all: return 2 * ranks;
    case Kind::exchange:
    case Kind::barrier: break;
  }
  return 0;
}

int blocks(const Collective& c) {
  switch (c.kind) {
    case Kind::all_gather:
    case Kind::reduce_scatter:
    case Kind::gather:
    case Kind::scatter: return c.ranks;
    case Kind::all_to_all:
    case Kind::exchange: return c.ranks * c.ranks;
    default: return 1;
  }
}

bool in_input(const Collective& c, Rank rank, int block) {
  switch (c.kind) {
    case Kind::all_reduce:
    case Kind::reduce:
    case Kind::barrier:
    case Kind::reduce_scatter: return true;
    case Kind::broadcast:
    case Kind::scatter: return rank == c.root;
    case Kind::all_gather:
    case Kind::gather: return rank == block;
    case Kind::all_to_all:
    case Kind::exchange: return rank == block / c.ranks;
  }
  return false;
}

bool in_output(const Collective& c, Rank rank, int block) {
  switch (c.kind) {
    case Kind::all_reduce:
    case Kind::broadcast:
    case Kind::barrier:
    case Kind::all_gather: return true;
    case Kind::reduce:
    case Kind::gather: return rank == c.root;
    case Kind::reduce_scatter:
    case Kind::scatter: return rank == block;
    case Kind::all_to_all:
    case Kind::exchange: return rank == block % c.ranks;
  }
  return false;
}

bool has_input(const Collective& c, Rank rank) {
  return (c.kind != Kind::broadcast && c.kind != Kind::scatter) || rank == c.root;
}

bool has_output(const Collective& c, Rank rank) {
  return (c.kind != Kind::reduce && c.kind != Kind::gather) || rank == c.root;
}

Rank source_of(const Collective& c, int block) {
  if (c.kind == Kind::broadcast || c.kind == Kind::scatter) return c.root;
  return pairwise(c.kind) ? block / c.ranks : block;
}

int place_in_input(const Collective& c, Rank rank, int block) {
  if (pairwise(c.kind)) return block % c.ranks;
  // Where the Input is one block long and not in place, that block is its first.
  const bool own_only = c.kind == Kind::all_gather || c.kind == Kind::gather;
  if (!own_only) return block;
  const bool inside_output = c.in_place && in_output(c, rank, block);
  return inside_output ? block : 0;
}

int place_in_output(const Collective& c, Rank rank, int block) {
  if (pairwise(c.kind)) return block / c.ranks;
  const bool own_only = c.kind == Kind::reduce_scatter || c.kind == Kind::scatter;
  if (!own_only) return block;
  const bool inside_input = c.in_place && in_input(c, rank, block);
  return inside_input ? block : 0;
}

}  // namespace weft
