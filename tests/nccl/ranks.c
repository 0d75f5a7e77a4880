#include "ranks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void must(ncclResult_t result, const char* call, const char* file, int line) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "%s:%d: %s gave %d (%s): %s\n", file, line, call, (int)result,
          ncclGetErrorString(result), ncclGetLastError(NULL));
  _exit(1);
}

void check(int holds, const char* condition, const char* file, int line) {
  if (holds) return;
  fprintf(stderr, "%s:%d: not so: %s\n", file, line, condition);
  _exit(1);
}

typedef struct {
  Team team;
  Body body;
} Run;

static void* run_team(void* argument) {
  Run* run = (Run*)argument;
  Team* team = &run->team;
  MUST(ncclGroupStart());
  for (int i = 0; i < team->count; ++i)
    MUST(ncclCommInitRank(&team->comms[i], team->ranks, team->id, team->first + i));
  MUST(ncclGroupEnd());
  run->body(team);
  for (int i = 0; i < team->count; ++i) MUST(ncclCommFinalize(team->comms[i]));
  for (int i = 0; i < team->count; ++i) MUST(ncclCommDestroy(team->comms[i]));
  return NULL;
}

static void run_threads(Run* runs, int ranks) {
  pthread_t threads[kRanksMax];
  for (int r = 0; r < ranks; ++r) CHECK(pthread_create(&threads[r], NULL, run_team, &runs[r]) == 0);
  for (int r = 0; r < ranks; ++r) CHECK(pthread_join(threads[r], NULL) == 0);
}

/* The program again, as one rank. This process, which has made the id, is none. */
static void exec_rank(const char* program, const Team* team) {
  char ranks[16], rank[16], id[2 * NCCL_UNIQUE_ID_BYTES + 1];
  snprintf(ranks, sizeof ranks, "%d", team->ranks);
  snprintf(rank, sizeof rank, "%d", team->first);
  for (int i = 0; i < NCCL_UNIQUE_ID_BYTES; ++i)
    snprintf(id + 2 * i, 3, "%02x", (unsigned)(unsigned char)team->id.internal[i]);
  execl(program, program, "rank", ranks, rank, id, (char*)NULL);
  _exit(1);
}

static void run_processes(const char* program, const Run* runs, int ranks) {
  for (int r = 0; r < ranks; ++r) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) exec_rank(program, &runs[r].team);
  }
  for (int r = 0; r < ranks; ++r) {
    int status = 0;
    CHECK(wait(&status) > 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

/* PROGRAM rank RANKS RANK ID. */
static int run_as_rank(char** argv, Body body) {
  Run run;
  memset(&run, 0, sizeof run);
  run.team.ranks = atoi(argv[2]);
  run.team.first = atoi(argv[3]);
  run.team.count = 1;
  run.body = body;
  CHECK(strlen(argv[4]) == 2 * NCCL_UNIQUE_ID_BYTES);
  for (int i = 0; i < NCCL_UNIQUE_ID_BYTES; ++i) {
    const char digits[3] = {argv[4][2 * i], argv[4][2 * i + 1], 0};
    run.team.id.internal[i] = (char)strtol(digits, NULL, 16);
  }
  run_team(&run);
  return 0;
}

int run_teams(int argc, char** argv, Body body) {
  if (argc == 5) return run_as_rank(argv, body);
  CHECK(argc == 3);
  const char* how = argv[1];
  const int ranks = atoi(argv[2]);
  Run runs[kRanksMax];
  memset(runs, 0, sizeof runs);
  CHECK(ranks >= 1 && ranks <= kRanksMax);
  MUST(ncclGetUniqueId(&runs[0].team.id));
  for (int r = 0; r < ranks; ++r) {
    runs[r].team.ranks = ranks;
    runs[r].team.first = r;
    runs[r].team.count = 1;
    runs[r].team.id = runs[0].team.id;
    runs[r].body = body;
  }
  if (strcmp(how, "threads") == 0) {
    run_threads(runs, ranks);
  } else if (strcmp(how, "processes") == 0) {
    run_processes(argv[0], runs, ranks);
  } else {
    CHECK(strcmp(how, "group") == 0);
    runs[0].team.count = ranks;
    run_team(&runs[0]);
  }
  printf("ok\n");
  return 0;
}
