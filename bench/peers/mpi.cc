// weft-bench for an MPI library: compiled once for Open MPI and once for MPICH. Started by mpirun
// it is a rank; else it becomes the mpirun of its library, as a user would start it, with defaults.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "base/text.h"
#include "bench/job.h"
#include "bench/launch.h"
#include "bench/peers/peer.h"
#include "bootstrap/cpus.h"

namespace weft::bench {
namespace {

MPI_Datatype mpi_type(DataType type) {
  switch (type) {
    case DataType::int8: return MPI_INT8_T;
    case DataType::uint8: return MPI_UINT8_T;
    case DataType::int16: return MPI_INT16_T;
    case DataType::uint16: return MPI_UINT16_T;
    case DataType::int32: return MPI_INT32_T;
    case DataType::uint32: return MPI_UINT32_T;
    case DataType::int64: return MPI_INT64_T;
    case DataType::uint64: return MPI_UINT64_T;
    case DataType::float32: return MPI_FLOAT;
    case DataType::float64: return MPI_DOUBLE;
    case DataType::complex64: return MPI_C_FLOAT_COMPLEX;
    case DataType::complex128: return MPI_C_DOUBLE_COMPLEX;
    default: return MPI_DATATYPE_NULL;
  }
}

MPI_Op mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return MPI_SUM;
    case ReduceOp::prod: return MPI_PROD;
    case ReduceOp::min: return MPI_MIN;
    case ReduceOp::max: return MPI_MAX;
    case ReduceOp::band: return MPI_BAND;
    case ReduceOp::bor: return MPI_BOR;
    case ReduceOp::bxor: return MPI_BXOR;
    default: return MPI_OP_NULL;
  }
}

class MpiPeer final : public Peer {
 public:
  using Peer::Peer;
  using Peer::run;
  ~MpiPeer() override { MPI_Finalize(); }

  Status run(const Call& call) override {
    return make(call) == MPI_SUCCESS ? Status() : internal_error("An MPI call failed.");
  }

 protected:
  Status why_not(const Call& call) const override {
    if (call.varying) return unsupported("The v-forms of MPI are not measured.");
    if (mpi_type(call.type) == MPI_DATATYPE_NULL)
      return unsupported(concat("MPI has no ", name(call.type), "."));
    if (reduces(call.kind) && mpi_op(call.op) == MPI_OP_NULL)
      return unsupported(concat("MPI has no ", name(call.op), "."));
    if (call.count > INT_MAX)
      return unsupported(concat("MPI counts at most ", INT_MAX, " elements."));
    return {};
  }

 private:
  // Every form is out of place but the broadcast, which has one buffer.
  static int make(const Call& c) {
    const MPI_Comm all = MPI_COMM_WORLD;
    const MPI_Datatype type = mpi_type(c.type);
    const int n = static_cast<int>(c.count);
    switch (c.kind) {
      case Kind::all_reduce: return MPI_Allreduce(c.input, c.output, n, type, mpi_op(c.op), all);
      case Kind::reduce: return MPI_Reduce(c.input, c.output, n, type, mpi_op(c.op), c.root, all);
      case Kind::broadcast: return MPI_Bcast(c.output, n, type, c.root, all);
      case Kind::all_gather: return MPI_Allgather(c.input, n, type, c.output, n, type, all);
      case Kind::reduce_scatter:
        return MPI_Reduce_scatter_block(c.input, c.output, n, type, mpi_op(c.op), all);
      case Kind::gather: return MPI_Gather(c.input, n, type, c.output, n, type, c.root, all);
      case Kind::scatter: return MPI_Scatter(c.input, n, type, c.output, n, type, c.root, all);
      case Kind::all_to_all: return MPI_Alltoall(c.input, n, type, c.output, n, type, all);
      case Kind::barrier: return MPI_Barrier(all);
      case Kind::exchange: break;
    }
    return MPI_ERR_OTHER;
  }
};

std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string version(text.data(), static_cast<size_t>(length));
  for (char& c : version)
    if (c == '\t') c = ' ';
  return version.substr(0, std::min(version.find('\n'), version.find(", package")));
}

int run_rank(BenchOptions options, const Membership& member, const Environment& environment) {
  die_with_parent();
  options.bind = false;  // mpirun may
  MPI_Init(nullptr, nullptr);
  Job job{0, 0, member.local_rank == 0, member.launcher, environment, {}, {}};
  MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &job.size);
  job.make_team = [&](const BenchOptions&) -> Result<Team> {
    return Team{std::make_unique<MpiPeer>(job.rank, job.size, options.engine), nullptr,
                library_version()};
  };
  return run_job(options, job);
}

#ifdef OPEN_MPI
// Cores of which this process may use a CPU: these are Open MPI's slots.
size_t usable_cores() {
  std::set<std::pair<int, int>> cores;  // by package
  for (const int cpu : usable_cpus()) {
    const std::string topology = concat("/sys/devices/system/cpu/cpu", cpu, "/topology/");
    int package = -1, core = -1 - cpu;  // where the system does not tell, each is one
    std::ifstream(topology + "physical_package_id") >> package;
    std::ifstream(topology + "core_id") >> core;
    cores.emplace(package, core);
  }
  return cores.size();
}

// Without which it would not start so many ranks: a slot for each hardware thread where these are
// enough, and a core for more than one rank only where they are not. Null: none is needed.
const char* flag_for(size_t ranks) {
  if (ranks <= usable_cores()) return nullptr;
  return ranks <= usable_cpus().size() ? "--use-hwthread-cpus" : "--oversubscribe";
}
#endif

// The library's defaults, and what it takes to keep data off shared memory where TCP is asked for.
std::vector<std::string> mpirun_command(const BenchOptions& options, int ranks) {
  std::vector<std::string> words{WEFT_MPIRUN, "-n", std::to_string(ranks)};
  const bool tcp = options.engine.transport == "tcp";
#ifdef OPEN_MPI
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  if (const char* flag = flag_for(static_cast<size_t>(ranks))) words.emplace_back(flag);
  if (tcp) words.insert(words.end(), {"--mca", "pml", "ob1", "--mca", "btl", "tcp,self"});
#else
  if (tcp)  // every rank a node of its own; then whichever network layer it was built with
    words.insert(words.end(), {"-genv", "MPIR_CVAR_NOLOCAL", "1", "-genv", "UCX_TLS", "tcp,self",
                               "-genv", "FI_PROVIDER", "tcp"});
#endif
  words.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  return words;
}

int become_mpirun(const BenchOptions& options) {
  std::vector<std::string> words = mpirun_command(options, ranks_to_start(options));
  words.insert(words.end(), options.command_line.begin(), options.command_line.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(WEFT_MPIRUN, arguments.data());
  complain(concat("cannot run " WEFT_MPIRUN ": ", std::strerror(errno)));
  return kExitFailed;
}

int run(std::span<const std::string> arguments) {
  const Environment environment = Environment::of_process();
  const Result<BenchOptions> options = peer_options(arguments, environment);
  const Result<Membership> member = membership_from(environment);
  const Status status = options.ok() ? member.status() : options.status();
  if (!status.ok()) {
    complain(status.message());
    return kExitUsage;
  }
  if (!options->help.empty()) {
    std::fputs(options->help.c_str(), stdout);
    return kExitOk;
  }
  const Result<Start> start = how_to_start(*options, *member);
  if (!start.ok()) {
    complain(start.status().message());
    return kExitUsage;
  }
  return *start == Start::join ? run_rank(*options, *member, environment) : become_mpirun(*options);
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  return weft::bench::run(std::vector<std::string>(argv + 1, argv + argc));
}
