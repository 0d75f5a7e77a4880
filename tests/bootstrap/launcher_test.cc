// Each launcher's environment, and what is made of it.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "base/text.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/slurm.h"
#include "tests/support/contains.h"

namespace weft {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;

Membership member_of(Values values) {
  const auto member = membership_from(Environment(std::move(values)));
  EXPECT_TRUE(member.ok()) << member.status().to_string();
  return member.ok() ? *member : Membership();
}

std::string error_of(Values values) {
  const auto member = membership_from(Environment(std::move(values)));
  return member.ok() ? "no error" : std::string(member.status().message());
}

void expect_ranks(const Membership& member, const std::string& launcher, int rank, int size,
                  int local_rank, int local_size) {
  EXPECT_EQ(member.launcher, launcher);
  EXPECT_EQ(member.rank, rank);
  EXPECT_EQ(member.size, size);
  EXPECT_EQ(member.local_rank, local_rank);
  EXPECT_EQ(member.local_size, local_size);
}

using test::contains;

Values with(Values values, const Values& more) {
  for (const auto& [name, value] : more) values[name] = value;
  return values;
}

Values without(Values values, const std::string& name) {
  values.erase(name);
  return values;
}

const Values kWeft{{"WEFT_RANK", "1"}, {"WEFT_WORLD_SIZE", "4"}, {"WEFT_RENDEZVOUS", "tcp://h:1"}};
const Values kTorch{{"RANK", "3"},
                    {"WORLD_SIZE", "8"},
                    {"LOCAL_RANK", "1"},
                    {"LOCAL_WORLD_SIZE", "2"},
                    {"MASTER_ADDR", "node0"},
                    {"MASTER_PORT", "29500"}};
const Values kOpenMpi{
    {"OMPI_COMM_WORLD_RANK", "3"},
    {"OMPI_COMM_WORLD_SIZE", "4"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
    {"PMIX_NAMESPACE", "1986789377"},
    {"OMPI_MCA_orte_precondition_transports", "299c2bd5f78f885c-970ca84bf938217d"},
    {"OMPI_MCA_orte_hnp_uri",
     "1986789376.0;tcp://192.0.2.2,10.1.1.1:37779;tcp6://[fd00::2]:49593"}};
const Values kPmi{{"PMI_RANK", "1"},
                  {"PMI_SIZE", "2"},
                  {"PMI_FD", "6"},
                  {"MPI_LOCALRANKID", "1"},
                  {"MPI_LOCALNRANKS", "2"}};
const Values kSlurm{{"SLURM_PROCID", "5"},
                    {"SLURM_NTASKS", "6"},
                    {"SLURM_LOCALID", "1"},
                    {"SLURM_NODEID", "2"},
                    {"SLURM_STEP_TASKS_PER_NODE", "2(x3)"},
                    {"SLURM_JOB_ID", "77"},
                    {"SLURM_STEP_ID", "0"},
                    {"SLURM_STEP_NODELIST", "node[01-03]"}};

TEST(Launcher, NothingIsAWorldOfOne) {
  const Membership member = member_of({});
  expect_ranks(member, "none", 0, 1, 0, 1);
  EXPECT_EQ(member.rendezvous, "");
}

TEST(Launcher, Weft) {
  const Membership member = member_of(
      with(kWeft, {{"WEFT_LOCAL_RANK", "1"}, {"WEFT_LOCAL_SIZE", "2"}, {"WEFT_JOB", "mine"}}));
  expect_ranks(member, "weft", 1, 4, 1, 2);
  EXPECT_EQ(member.rendezvous, "tcp://h:1");
  EXPECT_EQ(member.job, "mine");
  expect_ranks(member_of({{"WEFT_RANK", "0"}, {"WEFT_WORLD_SIZE", "1"}}), "weft", 0, 1, 0, 1);
}

TEST(Launcher, HalfSetOrContradictoryVariablesAreNamed) {
  EXPECT_TRUE(contains(error_of(without(kWeft, "WEFT_RANK")), "WEFT_RANK is missing"));
  EXPECT_TRUE(contains(error_of(without(kWeft, "WEFT_WORLD_SIZE")), "WEFT_WORLD_SIZE is missing"));
  EXPECT_TRUE(contains(error_of(without(kWeft, "WEFT_RENDEZVOUS")), "WEFT_RENDEZVOUS is missing"));
  EXPECT_TRUE(contains(error_of(with(kWeft, {{"WEFT_RANK", "4"}})), "WEFT_RANK: \"4\""));
  EXPECT_TRUE(contains(error_of(with(kWeft, {{"WEFT_RANK", "-1"}})), "WEFT_RANK: \"-1\""));
  EXPECT_TRUE(
      contains(error_of(with(kWeft, {{"WEFT_WORLD_SIZE", "x"}})), "WEFT_WORLD_SIZE: \"x\""));
  EXPECT_TRUE(contains(error_of(with(kWeft, {{"WEFT_LOCAL_SIZE", "5"}})), "WEFT_LOCAL_SIZE"));
  EXPECT_TRUE(contains(error_of({{"WEFT_RENDEZVOUS", "tcp://h:1"}}), "WEFT_RANK"));
  EXPECT_TRUE(contains(error_of({{"RANK", "1"}}), "WORLD_SIZE is missing"));
  EXPECT_TRUE(contains(error_of(without(kTorch, "MASTER_ADDR")), "MASTER_ADDR is missing"));
  EXPECT_TRUE(contains(error_of(with(kTorch, {{"MASTER_PORT", "0"}})), "MASTER_PORT: \"0\""));
  EXPECT_TRUE(contains(error_of(with(kTorch, {{"LOCAL_RANK", "2"}})), "LOCAL_RANK: \"2\""));
  EXPECT_TRUE(
      contains(error_of(without(kOpenMpi, "OMPI_COMM_WORLD_SIZE")), "OMPI_COMM_WORLD_SIZE"));
  EXPECT_TRUE(contains(error_of(without(kPmi, "PMI_FD")), "PMI_FD is missing"));
  EXPECT_TRUE(contains(error_of(without(kSlurm, "SLURM_NTASKS")), "SLURM_NTASKS is missing"));
  EXPECT_TRUE(contains(error_of(without(kSlurm, "SLURM_JOB_ID")), "SLURM_JOB_ID is missing"));
  EXPECT_TRUE(
      contains(error_of(with(kSlurm, {{"SLURM_STEP_NODELIST", "n[3-"}})), "SLURM_STEP_NODELIST"));
}

// They are an error all the same, but those who ask for it can meet nevertheless.
TEST(Launcher, WhereARankIsOnItsHostIsNotNeededToMeet) {
  struct Case {
    Values values;
    const char* name;
    const char* rendezvous;
  };
  const Values one_node = with(kSlurm, {{"SLURM_STEP_NODELIST", "node1"}});
  for (const auto& [values, name, rendezvous] :
       {Case{with(kWeft, {{"WEFT_LOCAL_SIZE", "5"}}), "WEFT_LOCAL_SIZE", "tcp://h:1"},
        Case{with(kTorch, {{"LOCAL_RANK", "2"}}), "LOCAL_RANK", "tcp://node0:29500"},
        Case{with(kTorch, {{"GROUP_RANK", "x"}}), "GROUP_RANK", "tcp://node0:29500"},
        Case{with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", "x"}}), "OMPI_COMM_WORLD_LOCAL_RANK",
             "hnp:"},
        Case{with(kPmi, {{"MPI_LOCALNRANKS", "x"}}), "MPI_LOCALNRANKS", "pmi"},
        Case{with(one_node, {{"SLURM_NODEID", "x"}}), "SLURM_NODEID", "unix:"}}) {
    EXPECT_TRUE(contains(error_of(values), name)) << error_of(values);
    Status of_place;
    const auto member = membership_from(Environment(values), &of_place);
    ASSERT_TRUE(member.ok()) << member.status().to_string();
    EXPECT_TRUE(member->rendezvous.starts_with(rendezvous)) << member->rendezvous;
    EXPECT_TRUE(contains(of_place.to_string(), name)) << of_place.to_string();
  }
  Status of_place;
  EXPECT_TRUE(membership_from(Environment(kTorch), &of_place).ok());
  EXPECT_TRUE(of_place.ok()) << of_place.to_string();
  // There it says which kind of place the ranks meet at.
  EXPECT_FALSE(
      membership_from(Environment(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "x"}})), &of_place)
          .ok());
}

TEST(Launcher, NodesAreThoseOfTheLauncher) {
  EXPECT_EQ(member_of(with(kTorch, {{"GROUP_RANK", "2"}})).node, 2);
  EXPECT_EQ(member_of(kSlurm).node, 2);
  for (const Values& unnumbered : {kWeft, kTorch, kOpenMpi, kPmi})
    EXPECT_EQ(member_of(unnumbered).node, -1);
  for (const Values& placed : {kTorch, kOpenMpi, kPmi, kSlurm})
    EXPECT_TRUE(member_of(placed).is_placed);
  EXPECT_FALSE(member_of(kWeft).is_placed);
  EXPECT_TRUE(member_of(with(kWeft, {{"WEFT_LOCAL_RANK", "0"}})).is_placed);
  EXPECT_FALSE(member_of(without(kTorch, "LOCAL_RANK")).is_placed);
  EXPECT_TRUE(contains(error_of(with(kTorch, {{"GROUP_RANK", "x"}})), "GROUP_RANK: \"x\""));
}

TEST(Launcher, PlainTorchVariablesUseTheMasterPortItself) {
  const Membership member = member_of(kTorch);
  expect_ranks(member, "torchrun", 3, 8, 1, 2);
  EXPECT_EQ(member.rendezvous, "tcp://node0:29500");
  EXPECT_EQ(member_of(with(kTorch, {{"MASTER_ADDR", "fd00::1"}})).rendezvous,
            "tcp://[fd00::1]:29500");
}

TEST(Launcher, TorchrunGetsPortsOfItsOwn) {
  const Values base = with(kTorch, {{"TORCHELASTIC_RUN_ID", "run1"}});
  const Membership first = member_of(base);
  EXPECT_TRUE(first.rendezvous.starts_with("tcp://node0:2")) << first.rendezvous;
  EXPECT_FALSE(contains(first.rendezvous, "29500"));
  EXPECT_EQ(member_of(with(base, {{"RANK", "0"}, {"LOCAL_RANK", "0"}})).rendezvous,
            first.rendezvous);
  const Membership other = member_of(with(base, {{"TORCHELASTIC_RUN_ID", "run2"}}));
  EXPECT_NE(other.rendezvous, first.rendezvous);
  EXPECT_NE(other.job, first.job);
  // Every node's agent counts its own restarts, so ranks of one job differ in that.
  const Membership again = member_of(with(base, {{"TORCHELASTIC_RESTART_COUNT", "1"}}));
  EXPECT_EQ(again.job, first.job);
  EXPECT_EQ(again.rendezvous, first.rendezvous);
}

TEST(Launcher, OpenMpiOnOneHostMeetsOnAUnixSocket) {
  const Membership member = member_of(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}));
  expect_ranks(member, "openmpi", 3, 4, 1, 4);
  EXPECT_TRUE(member.rendezvous.starts_with("unix:")) << member.rendezvous;
  EXPECT_TRUE(contains(member.job, "1986789377"));
  const Membership other = member_of(
      with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}, {"PMIX_NAMESPACE", "1986789378"}}));
  EXPECT_NE(other.rendezvous, member.rendezvous);
}

TEST(Launcher, OpenMpiOnSeveralHostsMeetsAtMpirun) {
  const Membership member = member_of(kOpenMpi);
  expect_ranks(member, "openmpi", 3, 4, 1, 2);
  const size_t colon = member.rendezvous.rfind(':');
  const std::string port = member.rendezvous.substr(colon);
  EXPECT_EQ(member.rendezvous,
            concat("hnp:192.0.2.2", port, ",10.1.1.1", port, ",[fd00::2]", port));
  const int number = std::stoi(port.substr(1));
  EXPECT_TRUE(number >= 20000 && number < 30000) << number;

  const Membership five = member_of(with(without(kOpenMpi, "OMPI_MCA_orte_hnp_uri"),
                                         {{"PMIX_NAMESPACE", "prterun-login-1-4242@1"}}));
  EXPECT_TRUE(five.rendezvous.starts_with("hnp:login-1:")) << five.rendezvous;
  EXPECT_TRUE(contains(error_of(without(kOpenMpi, "OMPI_MCA_orte_hnp_uri")), "WEFT_RENDEZVOUS"));
}

TEST(Launcher, Pmi) {
  const Membership member = member_of(kPmi);
  expect_ranks(member, "pmi", 1, 2, 1, 2);
  EXPECT_EQ(member.rendezvous, "pmi");
  const auto alone = member_of(with(
      without(kPmi, "PMI_FD"),
      {{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}}));
  EXPECT_EQ(alone.rendezvous, "");
}

TEST(Launcher, Slurm) {
  const Membership member = member_of(kSlurm);
  expect_ranks(member, "slurm", 5, 6, 1, 2);
  EXPECT_TRUE(member.rendezvous.starts_with("tcp://node01:2")) << member.rendezvous;
  EXPECT_EQ(member.job, "slurm-77.0");
  EXPECT_NE(member_of(with(kSlurm, {{"SLURM_STEP_ID", "1"}})).rendezvous, member.rendezvous);
  const Membership one_host = member_of(with(kSlurm, {{"SLURM_STEP_NODELIST", "node7"},
                                                      {"SLURM_STEP_TASKS_PER_NODE", "6"},
                                                      {"SLURM_NODEID", "0"}}));
  EXPECT_TRUE(one_host.rendezvous.starts_with("unix:"));
  EXPECT_EQ(one_host.local_size, 6);
}

// sbatch --ntasks-per-node=8, and in it srun -n 2: what sbatch was asked says nothing of the step.
TEST(Launcher, ASlurmStepMayBeSmallerThanItsJob) {
  const Values step = with(kSlurm, {{"SLURM_NTASKS", "16"},
                                    {"SLURM_NTASKS_PER_NODE", "8"},
                                    {"SLURM_STEP_NUM_TASKS", "2"},
                                    {"SLURM_STEP_TASKS_PER_NODE", "2"},
                                    {"SLURM_STEP_NODELIST", "node01"},
                                    {"SLURM_PROCID", "1"},
                                    {"SLURM_LOCALID", "1"},
                                    {"SLURM_NODEID", "0"}});
  expect_ranks(member_of(step), "slurm", 1, 2, 1, 2);
}

TEST(Launcher, ABatchScriptOutsideSrunIsAlone) {
  expect_ranks(member_of(without(kSlurm, "SLURM_STEP_ID")), "none", 0, 1, 0, 1);
}

TEST(Launcher, TheFirstMatchWins) {
  Values all = kWeft;
  const auto launcher = [&] { return member_of(all).launcher; };
  for (const Values& more : {kTorch, kOpenMpi, kPmi, kSlurm}) all = with(all, more);
  EXPECT_EQ(launcher(), "weft");
  for (const auto& [name, value] : kWeft) all.erase(name);
  EXPECT_EQ(launcher(), "torchrun");
  for (const auto& [name, value] : kTorch) all.erase(name);
  EXPECT_EQ(launcher(), "openmpi");
  for (const auto& [name, value] : kOpenMpi) all.erase(name);
  EXPECT_EQ(launcher(), "pmi");
  all.erase("PMI_FD");  // Slurm's own PMI
  EXPECT_EQ(launcher(), "slurm");
}

TEST(Launcher, WeftRendezvousReplacesTheLaunchersPlace) {
  for (const Values& values : {kTorch, kOpenMpi, kPmi, kSlurm}) {
    const Membership member = member_of(with(values, {{"WEFT_RENDEZVOUS", "tcp://h:1"}}));
    EXPECT_EQ(member.rendezvous, "tcp://h:1");
    EXPECT_GT(member.rank, 0);
  }
  EXPECT_EQ(member_of(with(without(kPmi, "PMI_FD"), {{"WEFT_RENDEZVOUS", "tcp://h:1"}})).size, 2);
}

TEST(Slurm, ExpandsHosts) {
  const auto joined = [](std::string_view list) {
    const auto hosts = expand_hosts(list);
    if (!hosts.ok()) return std::string(hosts.status().message());
    std::string text;
    for (const std::string& host : *hosts) text.append(text.empty() ? "" : " ").append(host);
    return text;
  };
  EXPECT_EQ(joined("node[01-03,7],x2"), "node01 node02 node03 node7 x2");
  EXPECT_EQ(joined("a"), "a");
  EXPECT_EQ(joined("tux[9-11]-ib"), "tux9-ib tux10-ib tux11-ib");
  EXPECT_EQ(joined("r[1-2]c[0-1]"), "r1c0 r1c1 r2c0 r2c1");
  EXPECT_EQ(joined("n[098-101]"), "n098 n099 n100 n101");
  for (const char* bad : {"", "n[", "n]", "n[]", "n[3-1]", "n[a-b]", "a,,b", "n[1[2]]",
                          "n[1-99999999]", "n[1-300]m[1-300]"})
    EXPECT_TRUE(contains(joined(bad), "is not a list")) << bad;
}

TEST(Slurm, ExpandsCounts) {
  EXPECT_EQ(*expand_counts("2(x3),1"), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(*expand_counts("4"), (std::vector<int>{4}));
  for (const char* bad : {"", "x", "2(x", "2(x0)", "2(x3"})
    EXPECT_FALSE(expand_counts(bad).ok()) << bad;
}

}  // namespace
}  // namespace weft
