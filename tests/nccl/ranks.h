/* Ranks of a test program in C: as threads, as processes, or as one thread that is all of them. */
#pragma once

#include <stddef.h>

#include "nccl/nccl.h"

enum { kRanksMax = 12 };

/* The ranks that one thread drives: all but one kind of program has one of them here. */
typedef struct Team {
  int ranks; /* of all teams together */
  int first; /* of those that are here */
  int count;
  ncclUniqueId id;
  ncclComm_t comms[kRanksMax]; /* by rank here, counted from `first` */
} Team;

/* main() of a program PROGRAM threads|processes|group RANKS: runs `body` on every team, with its
 * communicators made and destroyed around it; ends with a message where anything fails. */
typedef void (*Body)(Team* team);
int run_teams(int argc, char** argv, Body body);

/* Ends the program unless the call gave ncclSuccess, or the condition holds. */
#define MUST(call) must((call), #call, __FILE__, __LINE__)
#define CHECK(condition) check((condition) != 0, #condition, __FILE__, __LINE__)
void must(ncclResult_t result, const char* call, const char* file, int line);
void check(int holds, const char* condition, const char* file, int line);
