/* Every collective, sends and receives, groups and communicators made of others, against what the
 * ranks can tell by themselves. Usage: nccl-calls threads|processes|group RANKS; host memory only.
 */
#include <stdlib.h>
#include <string.h>

#include "ranks.h"

enum { kCount = 1000 }; /* elements of a block */

/* Whole numbers, so that sums are exact in any order. */
static float value(int rank, size_t i) { return (float)(rank * 3 + (int)(i % 7) + 1); }

static float sum_of_values(int ranks, size_t i) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r) sum += value(r, i);
  return sum;
}

/* A buffer for every rank of a team, `blocks` blocks long. */
typedef struct {
  float* of[kRanksMax];
} Buffers;

static Buffers make_buffers(const Team* team, int blocks) {
  Buffers buffers;
  memset(&buffers, 0, sizeof buffers);
  for (int i = 0; i < team->count; ++i) {
    buffers.of[i] = (float*)malloc(sizeof(float) * kCount * (size_t)blocks);
    CHECK(buffers.of[i] != NULL);
    for (size_t k = 0; k < (size_t)(kCount * blocks); ++k)
      buffers.of[i][k] = value(team->first + i, k);
  }
  return buffers;
}

static void free_buffers(Buffers* buffers) {
  for (int i = 0; i < kRanksMax; ++i) free(buffers->of[i]);
}

/* Calls `call` for every rank of the team, in a group; `i` is the rank's number here. */
#define FOR_TEAM(team, call)                            \
  do {                                                  \
    MUST(ncclGroupStart());                             \
    for (int i = 0; i < (team)->count; ++i) MUST(call); \
    MUST(ncclGroupEnd());                               \
  } while (0)

static void all_reduce(Team* team) {
  Buffers in = make_buffers(team, 1), out = make_buffers(team, 1);
  FOR_TEAM(team,
           ncclAllReduce(in.of[i], out.of[i], kCount, ncclFloat, ncclSum, team->comms[i], NULL));
  for (int i = 0; i < team->count; ++i)
    for (size_t k = 0; k < kCount; ++k) CHECK(out.of[i][k] == sum_of_values(team->ranks, k));
  FOR_TEAM(team,
           ncclAllReduce(in.of[i], in.of[i], kCount, ncclFloat, ncclMax, team->comms[i], NULL));
  for (int i = 0; i < team->count; ++i)
    for (size_t k = 0; k < kCount; ++k) CHECK(in.of[i][k] == value(team->ranks - 1, k));
  free_buffers(&in);
  free_buffers(&out);
}

static void averages(Team* team) {
  Buffers in = make_buffers(team, 1), out = make_buffers(team, 1);
  FOR_TEAM(team,
           ncclAllReduce(in.of[i], out.of[i], kCount, ncclFloat, ncclAvg, team->comms[i], NULL));
  for (int i = 0; i < team->count; ++i)
    for (size_t k = 0; k < kCount; ++k) {
      const float want = sum_of_values(team->ranks, k) / (float)team->ranks;
      CHECK(out.of[i][k] > want * 0.99999f && out.of[i][k] < want * 1.00001f);
    }
  free_buffers(&in);
  free_buffers(&out);
}

static void scaled_sums(Team* team, ncclScalarResidence_t residence) {
  Buffers in = make_buffers(team, 1), out = make_buffers(team, 1);
  float scalars[kRanksMax];
  ncclRedOp_t ops[kRanksMax];
  for (int i = 0; i < team->count; ++i) {
    scalars[i] = residence == ncclScalarDevice ? -1.0f : (float)(team->first + i + 1);
    MUST(ncclRedOpCreatePreMulSum(&ops[i], &scalars[i], ncclFloat, residence, team->comms[i]));
    /* The other way round to what was read at once, or will be. */
    scalars[i] = residence == ncclScalarDevice ? (float)(team->first + i + 1) : -1.0f;
  }
  FOR_TEAM(team,
           ncclAllReduce(in.of[i], out.of[i], kCount, ncclFloat, ops[i], team->comms[i], NULL));
  for (int i = 0; i < team->count; ++i) {
    for (size_t k = 0; k < kCount; ++k) {
      float want = 0;
      for (int r = 0; r < team->ranks; ++r) want += value(r, k) * (float)(r + 1);
      CHECK(out.of[i][k] == want);
    }
    MUST(ncclRedOpDestroy(ops[i], team->comms[i]));
  }
  free_buffers(&in);
  free_buffers(&out);
}

static void reduce_and_broadcast(Team* team) {
  const int root = team->ranks - 1;
  Buffers in = make_buffers(team, 1), out = make_buffers(team, 1);
  FOR_TEAM(team, ncclReduce(in.of[i], team->first + i == root ? out.of[i] : NULL, kCount, ncclFloat,
                            ncclSum, root, team->comms[i], NULL));
  for (int i = 0; i < team->count; ++i)
    for (size_t k = 0; k < kCount && team->first + i == root; ++k)
      CHECK(out.of[i][k] == sum_of_values(team->ranks, k));
  FOR_TEAM(team, ncclBroadcast(in.of[i], out.of[i], kCount, ncclFloat, root, team->comms[i], NULL));
  FOR_TEAM(team, ncclBcast(in.of[i], kCount, ncclFloat, 0, team->comms[i], NULL));
  for (int i = 0; i < team->count; ++i)
    for (size_t k = 0; k < kCount; ++k) {
      CHECK(out.of[i][k] == value(root, k));
      CHECK(in.of[i][k] == value(0, k));
    }
  free_buffers(&in);
  free_buffers(&out);
}

static void blocks(Team* team) {
  const int ranks = team->ranks;
  Buffers one = make_buffers(team, 1), all = make_buffers(team, ranks),
          got = make_buffers(team, ranks);
  FOR_TEAM(team, ncclAllGather(one.of[i], got.of[i], kCount, ncclFloat, team->comms[i], NULL));
  for (int i = 0; i < team->count; ++i)
    for (int r = 0; r < ranks; ++r)
      for (size_t k = 0; k < kCount; ++k) CHECK(got.of[i][(size_t)r * kCount + k] == value(r, k));

  FOR_TEAM(team, ncclReduceScatter(all.of[i], one.of[i], kCount, ncclFloat, ncclSum, team->comms[i],
                                   NULL));
  for (int i = 0; i < team->count; ++i)
    for (size_t k = 0; k < kCount; ++k)
      CHECK(one.of[i][k] == sum_of_values(ranks, (size_t)(team->first + i) * kCount + k));

  FOR_TEAM(team, ncclAlltoAll(all.of[i], got.of[i], kCount, ncclFloat, team->comms[i], NULL));
  for (int i = 0; i < team->count; ++i)
    for (int r = 0; r < ranks; ++r)
      for (size_t k = 0; k < kCount; ++k)
        CHECK(got.of[i][(size_t)r * kCount + k] ==
              value(r, (size_t)(team->first + i) * kCount + k));
  free_buffers(&one);
  free_buffers(&all);
  free_buffers(&got);
}

static void rooted_blocks(Team* team) {
  const int ranks = team->ranks;
  Buffers one = make_buffers(team, 1), all = make_buffers(team, ranks);
  FOR_TEAM(team, ncclScatter(all.of[i], one.of[i], kCount, ncclFloat, 0, team->comms[i], NULL));
  for (int i = 0; i < team->count; ++i)
    for (size_t k = 0; k < kCount; ++k)
      CHECK(one.of[i][k] == value(0, (size_t)(team->first + i) * kCount + k));
  FOR_TEAM(team,
           ncclGather(one.of[i], all.of[i], kCount, ncclFloat, ranks - 1, team->comms[i], NULL));
  for (int i = 0; i < team->count; ++i)
    for (size_t k = 0; k < (size_t)(ranks * kCount) && team->first + i == ranks - 1; ++k)
      CHECK(all.of[i][k] == value(0, k));
  free_buffers(&one);
  free_buffers(&all);
}

/* Every rank sends to the next one; all ranks send first. A group inside a group changes nothing.
 */
static void ring(Team* team) {
  const int ranks = team->ranks;
  Buffers in = make_buffers(team, 1), out = make_buffers(team, 1);
  MUST(ncclGroupStart());
  for (int i = 0; i < team->count; ++i) {
    const int me = team->first + i;
    MUST(ncclGroupStart());
    MUST(ncclSend(in.of[i], kCount, ncclFloat, (me + 1) % ranks, team->comms[i], NULL));
    MUST(ncclRecv(out.of[i], kCount, ncclFloat, (me + ranks - 1) % ranks, team->comms[i], NULL));
    MUST(ncclGroupEnd());
  }
  MUST(ncclGroupEnd());
  for (int i = 0; i < team->count; ++i)
    for (size_t k = 0; k < kCount; ++k)
      CHECK(out.of[i][k] == value((team->first + i + ranks - 1) % ranks, k));
  free_buffers(&in);
  free_buffers(&out);
}

/* Collectives, sends and receives of one group. */
static void mixed_group(Team* team) {
  const int ranks = team->ranks;
  Buffers in = make_buffers(team, 1), sum = make_buffers(team, 1), most = make_buffers(team, 1),
          got = make_buffers(team, 1);
  MUST(ncclGroupStart());
  for (int i = 0; i < team->count; ++i) {
    const int me = team->first + i;
    MUST(ncclAllReduce(in.of[i], sum.of[i], kCount, ncclFloat, ncclSum, team->comms[i], NULL));
    MUST(ncclSend(in.of[i], kCount, ncclFloat, (me + ranks - 1) % ranks, team->comms[i], NULL));
    MUST(ncclAllReduce(in.of[i], most.of[i], kCount, ncclFloat, ncclMin, team->comms[i], NULL));
    MUST(ncclRecv(got.of[i], kCount, ncclFloat, (me + 1) % ranks, team->comms[i], NULL));
  }
  MUST(ncclGroupEnd());
  for (int i = 0; i < team->count; ++i)
    for (size_t k = 0; k < kCount; ++k) {
      CHECK(sum.of[i][k] == sum_of_values(ranks, k));
      CHECK(most.of[i][k] == value(0, k));
      CHECK(got.of[i][k] == value((team->first + i + 1) % ranks, k));
    }
  free_buffers(&in);
  free_buffers(&sum);
  free_buffers(&most);
  free_buffers(&got);
}

static void allocated_memory(Team* team) {
  double* memory[kRanksMax];
  void* handles[kRanksMax];
  for (int i = 0; i < team->count; ++i) {
    MUST(ncclMemAlloc((void**)&memory[i], kCount * sizeof(double)));
    MUST(ncclCommRegister(team->comms[i], memory[i], kCount * sizeof(double), &handles[i]));
    CHECK(handles[i] != NULL);
    for (size_t k = 0; k < kCount; ++k) memory[i][k] = value(team->first + i, k);
  }
  FOR_TEAM(team,
           ncclAllReduce(memory[i], memory[i], kCount, ncclDouble, ncclSum, team->comms[i], NULL));
  for (int i = 0; i < team->count; ++i) {
    for (size_t k = 0; k < kCount; ++k)
      CHECK(memory[i][k] == (double)sum_of_values(team->ranks, k));
    MUST(ncclCommDeregister(team->comms[i], handles[i]));
    MUST(ncclMemFree(memory[i]));
  }
}

/* Even and odd ranks, backwards; the last rank joins neither. Both communicators in one group. */
static void split(Team* team) {
  const int last = team->ranks - 1;
  ncclComm_t parts[kRanksMax];
  Buffers in = make_buffers(team, 1), part = make_buffers(team, 1), whole = make_buffers(team, 1);
  FOR_TEAM(team, ncclCommSplit(team->comms[i],
                               team->first + i == last ? NCCL_SPLIT_NOCOLOR : (team->first + i) % 2,
                               -(team->first + i), &parts[i], NULL));
  MUST(ncclGroupStart());
  for (int i = 0; i < team->count; ++i) {
    CHECK((parts[i] == NULL) == (team->first + i == last));
    if (parts[i])
      MUST(ncclAllReduce(in.of[i], part.of[i], kCount, ncclFloat, ncclSum, parts[i], NULL));
    MUST(ncclAllReduce(in.of[i], whole.of[i], kCount, ncclFloat, ncclSum, team->comms[i], NULL));
  }
  MUST(ncclGroupEnd());
  for (int i = 0; i < team->count; ++i) {
    const int me = team->first + i;
    int members = 0, rank = -1, before = 0;
    for (int r = me % 2; r < last; r += 2) ++members, before += r > me;
    for (size_t k = 0; k < kCount; ++k) CHECK(whole.of[i][k] == sum_of_values(team->ranks, k));
    if (!parts[i]) continue;
    for (size_t k = 0; k < kCount; ++k) {
      float want = 0;
      for (int r = me % 2; r < last; r += 2) want += value(r, k);
      CHECK(part.of[i][k] == want);
    }
    MUST(ncclCommUserRank(parts[i], &rank));
    CHECK(rank == before);
    MUST(ncclCommCount(parts[i], &rank));
    CHECK(rank == members);
  }
  for (int i = 0; i < team->count; ++i) MUST(ncclCommDestroy(parts[i]));
  free_buffers(&in);
  free_buffers(&part);
  free_buffers(&whole);
}

/* Without rank 0, which makes no call. */
static void shrink(Team* team) {
  int excluded[1] = {0}, rank = 0;
  ncclComm_t rest[kRanksMax] = {NULL};
  Buffers in = make_buffers(team, 1);
  if (team->ranks == 1) return free_buffers(&in);
  MUST(ncclGroupStart());
  for (int i = 0; i < team->count; ++i)
    if (team->first + i > 0)
      MUST(ncclCommShrink(team->comms[i], excluded, 1, &rest[i], NULL, NCCL_SHRINK_DEFAULT));
  MUST(ncclGroupEnd());
  MUST(ncclGroupStart());
  for (int i = 0; i < team->count; ++i)
    if (rest[i]) MUST(ncclAllReduce(in.of[i], in.of[i], kCount, ncclFloat, ncclSum, rest[i], NULL));
  MUST(ncclGroupEnd());
  for (int i = 0; i < team->count; ++i) {
    if (!rest[i]) continue;
    MUST(ncclCommUserRank(rest[i], &rank));
    CHECK(rank == team->first + i - 1);
    for (size_t k = 0; k < kCount; ++k)
      CHECK(in.of[i][k] == sum_of_values(team->ranks, k) - value(0, k));
    MUST(ncclCommDestroy(rest[i]));
  }
  free_buffers(&in);
}

static void facts(Team* team) {
  for (int i = 0; i < team->count; ++i) {
    int count = 0, rank = -1, device = -1;
    ncclResult_t state = ncclInternalError;
    uint64_t bytes = 1;
    MUST(ncclCommCount(team->comms[i], &count));
    MUST(ncclCommUserRank(team->comms[i], &rank));
    MUST(ncclCommCuDevice(team->comms[i], &device));
    MUST(ncclCommGetAsyncError(team->comms[i], &state));
    MUST(ncclCommMemStats(team->comms[i], ncclStatGpuMemTotal, &bytes));
    CHECK(count == team->ranks && rank == team->first + i && device == 0 && state == ncclSuccess);
    CHECK(bytes == 0);
  }
}

static void all(Team* team) {
  facts(team);
  all_reduce(team);
  averages(team);
  scaled_sums(team, ncclScalarHostImmediate);
  scaled_sums(team, ncclScalarDevice);
  reduce_and_broadcast(team);
  blocks(team);
  rooted_blocks(team);
  ring(team);
  mixed_group(team);
  allocated_memory(team);
  split(team);
  shrink(team);
}

int main(int argc, char** argv) { return run_teams(argc, argv, all); }
