/* NCCL's interface on host memory: four processes add up their numbers. No GPU, and nothing of
 * weft's but nccl.h and libnccl.so.2. */
#include <nccl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kRanks = 4, kCount = 1000 };

static void must(ncclResult_t result) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "%s: %s\n", ncclGetErrorString(result), ncclGetLastError(NULL));
  exit(1);
}

/* How the processes share the unique id; in a real job, a file, MPI or a socket does it. */
typedef struct {
  sem_t ready;
  ncclResult_t made;
  ncclUniqueId id;
} Shared;

static void run_rank(int rank, Shared* shared) {
  ncclComm_t comm;
  float numbers[kCount];
  for (int i = 0; i < kCount; ++i) numbers[i] = (float)rank;
  if (rank == 0) shared->made = ncclGetUniqueId(&shared->id);
  for (int peer = 1; rank == 0 && peer < kRanks; ++peer) sem_post(&shared->ready);
  if (rank != 0) sem_wait(&shared->ready);
  if (rank != 0 && shared->made != ncclSuccess) exit(1); /* rank 0 says why */
  must(shared->made);
  must(ncclCommInitRank(&comm, kRanks, shared->id, rank));
  must(ncclAllReduce(numbers, numbers, kCount, ncclFloat, ncclSum, comm, NULL));
  printf("rank %d: %g\n", rank, numbers[kCount - 1]);
  must(ncclCommDestroy(comm));
}

int main(void) {
  int failed = 0, status = 0;
  pid_t ranks[kRanks];
  Shared* shared =
      mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED || sem_init(&shared->ready, 1, 0) != 0) return 1;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks[rank] = fork();
    if (ranks[rank] == 0) {
      run_rank(rank, shared);
      return 0;
    }
    if (ranks[rank] > 0) continue;
    perror("fork");
    failed = 1;
    while (rank-- > 0) kill(ranks[rank], SIGTERM); /* they would wait for it */
    break;
  }
  while (wait(&status) > 0) failed |= status;
  return failed != 0;
}
