#include "fabric/fabric.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "engine/gather_texts.h"
#include "fabric/agree.h"
#include "fabric/start.h"

namespace weft {
namespace {

constexpr const char* kNotLaunched = "the fabric is not launched; call launch() first";

std::vector<RankPlace> places_in(const std::vector<std::string>& hints, const Communicator& c) {
  std::vector<PlaceHint> read;
  for (const std::string& text : hints) read.push_back(hint_from(text));
  return places_by_launcher(read, c.host_of_rank());
}

}  // namespace

Fabric::Fabric(const FabricConfig& config) : Group(kNotLaunched), config_(config) {}

Fabric Fabric::join(Rendezvous& rendezvous, const FabricConfig& config) {
  Options options = config.options.value_or(Options());
  const Status unable =
      config.options ? Status() : read_options(Environment::of_process(), options);
  Fabric fabric(config);
  static_cast<Group&>(fabric) =
      Group(value_or_throw(Communicator::create(rendezvous, options, unable)));
  fabric.places_ = places_by_machine(fabric.communicator().host_of_rank());
  return fabric;
}

void Fabric::launch() {
  if (is_member()) throw_invalid("the fabric is launched already; call launch() once.");
  const Environment env = Environment::of_process();
  const StartPlan plan = value_or_throw(plan_start(config_, env));
  switch (plan.how) {
    case StartPlan::How::join: {
      const auto rendezvous = meet(plan.join, env);
      if (plan.join.size == 1) return check_nodes(plan.ours);
      const Deadline deadline = Deadline::after(communicator().options().timeout_s);
      const auto hints = value_or_throw(rendezvous->all_gather(to_text(plan.place), deadline));
      places_ = places_in(hints, communicator());
      return check_nodes(plan.ours);
    }
    case StartPlan::How::processes:
      std::fflush(nullptr);
      std::exit(supervise(plan.job, plan.meet));  // NOLINT(concurrency-mt-unsafe): one thread
    case StartPlan::How::threads:
      throw_invalid(
          "strategy is threads, which launch() cannot start in the middle of a program; use "
          "weft::launch(config, body).");
  }
}

// A process that has not met the others is no rank of theirs, and may try again.
std::unique_ptr<Rendezvous> Fabric::meet(const RendezvousConfig& place, const Environment& env) {
  if (place.size > 1) remember_launch();
  try {
    auto rendezvous = value_or_throw(make_rendezvous(place, env));
    *this = join(*rendezvous, config_);
    return rendezvous;
  } catch (...) {
    forget_launch();
    throw;
  }
}

// With devices, num_nodes says how many ranks there are, which is checked before they meet. Alone
// it is what somebody else's launcher has to have started; all ranks find the same.
void Fabric::check_nodes(bool started_by_weft) const {
  if (started_by_weft || config_.devices > 0 || config_.num_nodes == 0 ||
      config_.num_nodes == num_nodes())
    return;
  throw_invalid(concat("num_nodes is ", config_.num_nodes,
                       ", but the job that this process is part of has ", num_nodes(),
                       "; leave it at 0 to take what the launcher started."));
}

Fabric Fabric::shrink(double timeout_s) const {
  if (!(timeout_s >= 0))
    throw_invalid(concat("shrink: timeout_s is ", timeout_s, "; give seconds, or 0."));
  Fabric fabric(config_);
  static_cast<Group&>(fabric) = Group(value_or_throw(turn().shrink({}, timeout_s)));
  // Where this fails, so does every call of the new fabric.
  const auto run = [&](const Call& call) { return fabric.communicator().run(call); };
  const RankPlace own = place();
  const auto hints = gather_texts(fabric.size(), run, to_text({own.node, own.local_rank}));
  fabric.places_ = hints.ok() ? places_in(*hints, fabric.communicator())
                              : places_by_machine(fabric.communicator().host_of_rank());
  return fabric;
}

RankPlace Fabric::place() const {
  return places_[static_cast<size_t>(communicator().rank())];  // throws where there is none
}

int Fabric::num_nodes() const {
  (void)communicator();  // throws before launch()
  int last = 0;
  for (const RankPlace& place : places_) last = std::max(last, place.node);
  return last + 1;
}

Collection Fabric::to_device(const Collection& value) const {
  std::vector<Tensor> tensors = value.tensors();
  for (Tensor& tensor : tensors) tensor = to_device(tensor);
  return value.with_tensors(tensors);
}

bool Fabric::prints() const {
  (void)communicator();  // throws before launch()
  return is_global_zero();
}

void Fabric::to_standard_output(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void Fabric::let_others_go(const Status& own, double timeout_s) const {
  (void)agree(turn(), {"rank_zero_first", {}, own}, timeout_s);
}

void Fabric::tell_failure_of_block(const Status& why, double timeout_s) const {
  try {
    let_others_go(why.within("the block of rank_zero_first failed"), timeout_s);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): what the block threw says more
  }
}

}  // namespace weft
