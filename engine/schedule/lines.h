// The ll protocol's way with signals: lines of a window carry a flag each, so a signal that only
// says "what you read in my window is there" travels with the data. Lowering leaves it out at both
// ends; check_lines() proves that the ends agree about which.
#pragma once

#include "base/status.h"
#include "engine/schedule/schedule.h"

namespace weft {

bool reads_window(const Step& step);
bool writes_window(const Step& step);
size_t window_targets(const Step& step);  // how many

// Under ll this wait of the step falls away: the lines that it reads say the same.
bool carried_by_lines(const Step& step, const Signal& wait);
// Under ll the posts of the step fall away.
inline bool posts_by_lines(const Step& step) { return writes_window(step); }

// Where ranks do not reach into each other's windows to read, the writer puts its lines where each
// reader has room for them: a copy for each rank that the writing step posts to. Whether that
// serves the program of `me`: it writes its own window only, reads those of others only in steps
// that wait for them there, and has no links. For schedules that check_lines() finds right.
bool can_push_lines(const Program& program, Rank me);
// So many copies a step writes then.
size_t pushed_lines(const Step& step);

// ok where the schedule may run under ll: every window slot is written by one step (a flag stands
// for one line), and a post falls away just where all its waits do, each at a step that reads what
// the posting step wrote. Then a line orders what its signal ordered, because it is written by the
// same step, after the same steps of its lane.
Status check_lines(const Schedule& schedule);

}  // namespace weft
