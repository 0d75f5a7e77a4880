#include "bench/options.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "bench/sweep.h"
#include "tests/support/contains.h"

namespace weft::bench {
namespace {

Result<BenchOptions> parse(const std::vector<std::string>& args, const Environment& env = {}) {
  return parse_options(args, env);
}

std::string error_of(const std::vector<std::string>& args) {
  const Result<BenchOptions> options = parse(args);
  return options.ok() ? "accepted" : std::string(options.status().message());
}

TEST(Options, DefaultsAreASweepOfAllReduce) {
  const Result<BenchOptions> options = parse({});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->operations, std::vector{Operation::all_reduce});
  EXPECT_EQ(options->types, std::vector{DataType::float32});
  EXPECT_EQ(options->ops, std::vector{ReduceOp::sum});
  const std::vector<size_t> sizes = message_sizes(*options);
  EXPECT_EQ(sizes.front(), 4u);
  EXPECT_EQ(sizes.back(), size_t{64} << 20);
  EXPECT_EQ(options->checks, 1);
}

TEST(Options, LettersOfNcclTests) {
  const Result<BenchOptions> options =
      parse({"alltoall", "-b", "1K", "-e", "2M", "-i", "512K",   "-n", "7",   "-w",     "0",
             "-m",       "3",  "-N", "2",  "-a", "3",  "-c",     "0",  "-o",  "mulsum", "-d",
             "half",     "-r", "-1", "-z", "0",  "-J", "x.json", "-T", "12.5"});
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->operations, std::vector{Operation::all_to_all});
  EXPECT_EQ(options->min_bytes, 1024u);
  EXPECT_EQ(options->max_bytes, size_t{2} << 20);
  EXPECT_EQ(options->step_bytes, size_t{512} << 10);
  EXPECT_EQ(options->iterations, 7);
  EXPECT_EQ(options->warmup, 0);
  EXPECT_EQ(options->calls_per_iteration, 3);
  EXPECT_EQ(options->cycles, 2);
  EXPECT_EQ(options->average, Average::max);
  EXPECT_EQ(options->checks, 0);
  EXPECT_EQ(options->ops, std::vector{ReduceOp::premulsum});
  EXPECT_EQ(options->types, std::vector{DataType::float16});
  EXPECT_EQ(options->root, BenchOptions::kAllRoots);
  EXPECT_FALSE(options->blocking);
  EXPECT_EQ(options->output_file, "x.json");
  EXPECT_EQ(options->engine.timeout_s, 12.5);
}

TEST(Options, AllNamesAndLists) {
  const Result<BenchOptions> all = parse({"all", "-d", "all", "-o", "all", "-r", "all"});
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->operations.size(), operations().size());
  EXPECT_EQ(all->types.size(), static_cast<size_t>(kDataTypes));
  EXPECT_EQ(all->ops.size(), static_cast<size_t>(kReduceOps));
  const Result<BenchOptions> some = parse({"reduce,barrier", "-d", "int8,float", "-o", "min,max"});
  ASSERT_TRUE(some.ok());
  EXPECT_EQ(some->operations, (std::vector{Operation::reduce, Operation::barrier}));
  EXPECT_EQ(some->types, (std::vector{DataType::int8, DataType::float32}));
  EXPECT_EQ(some->ops, (std::vector{ReduceOp::min, ReduceOp::max}));
}

TEST(Options, EveryOperationParsesByNameAndAlias) {
  for (const OperationInfo& entry : operations()) {
    EXPECT_EQ(parse_operation(entry.name), entry.operation);
    EXPECT_EQ(parse_operation(entry.alias), entry.operation);
    EXPECT_EQ(&info(entry.operation), &entry);
  }
}

TEST(Options, FlagsOverrideTheEnvironment) {
  Environment env;
  env.set("WEFT_TRANSPORT", "tcp");
  env.set("WEFT_LANES", "3");
  const Result<BenchOptions> options = parse({"--transport", "shm", "--slot", "512"}, env);
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->engine.transport, "shm");
  EXPECT_EQ(options->engine.lanes, 3);
  EXPECT_EQ(options->engine.slot_bytes, 512u);
  env.set("WEFT_LANES", "many");
  EXPECT_FALSE(parse({}, env).ok());
}

TEST(Options, SizesFollowFactorOrStep) {
  const auto sizes = [](const std::vector<std::string>& args) {
    const Result<BenchOptions> options = parse(args);
    return options.ok() ? message_sizes(*options) : std::vector<size_t>{};
  };
  EXPECT_EQ(sizes({"-b", "1", "-e", "400", "-f", "7"}), (std::vector<size_t>{1, 7, 49, 343}));
  EXPECT_EQ(sizes({"-b", "0", "-e", "40", "-f", "7"}), (std::vector<size_t>{0, 1, 7}));
  EXPECT_EQ(sizes({"-b", "5", "-e", "30", "-i", "10"}), (std::vector<size_t>{5, 15, 25}));
  EXPECT_EQ(sizes({"-b", "128M"}), (std::vector<size_t>{size_t{128} << 20}));
  EXPECT_EQ(sizes({"-e", "2"}), (std::vector<size_t>{2}));
}

TEST(Options, MoreIterationsForSmallMessages) {
  BenchOptions options;
  EXPECT_EQ(iterations_for(options, 8, 2), 1000);
  EXPECT_EQ(iterations_for(options, size_t{1} << 30, 2), 20);
  EXPECT_EQ(iterations_for(options, 8, 512), 20);
  EXPECT_EQ(warmup_for(options, 1000), 200);
  EXPECT_EQ(warmup_for(options, 20), 5);
  options.iterations = 3;
  EXPECT_EQ(iterations_for(options, 8, 2), 3);
}

TEST(Options, OneAlgorithmForSeveralOperationsSkipsWhatItCannotDo) {
  EXPECT_FALSE(parse({"all"})->skip_unsupported);
  EXPECT_FALSE(parse({"gather", "--algorithm", "ring"})->skip_unsupported);
  EXPECT_TRUE(parse({"all", "--algorithm", "ring"})->skip_unsupported);
  EXPECT_TRUE(parse({"all", "--protocol", "ll"})->skip_unsupported);
}

TEST(Options, WordsThatNothingTakesAreNamed) {
  EXPECT_TRUE(test::contains(parse({"--begin", "8", "--end", "9"}).status(),
                             "there is no option --begin. weft-bench --help"));
  EXPECT_TRUE(test::contains(parse({"all_reduce", "--algorithm", "-e", "64"}).status(),
                             "\"64\" belongs to no option"));
}

// Whose command lines are tried here first.
TEST(Options, OfNcclTestsThatAreNotHereSayWhatIs) {
  for (const char* flag : {"-g", "--ngpus", "-t", "--nthreads"})
    EXPECT_TRUE(test::contains(
        error_of({"all_reduce", flag, "2"}),
        concat("there is no option ", flag, " (how many ranks there are, --ranks N says). ")))
        << error_of({flag, "2"});
  for (const char* flag : {"-p", "-C", "-y", "-R", "--report_cputime"})
    EXPECT_TRUE(test::contains(error_of({flag, "1"}), "nccl-tests has it")) << flag;
  for (const char* word : {"-g2", "--ngpus=2"})
    EXPECT_TRUE(test::contains(error_of({word}), "--ranks N says")) << word;
  for (const char* word : {"--begin", "--gs", "-q"})
    EXPECT_FALSE(test::contains(error_of({word}), " (")) << word;
}

TEST(Options, ResultsOfARunWithoutAnEndMayBeSaved) {
  EXPECT_EQ(error_of({"-N", "0", "-J", "x.json"}), "accepted");
  EXPECT_EQ(error_of({"-J", "./-"}), "accepted");
}

struct Wrong {
  std::vector<std::string> args;
  std::vector<std::string> parts;
};

// Each message names the flag, the value, and what would be right.
void expect_refused(const std::vector<Wrong>& cases) {
  for (const Wrong& wrong : cases)
    for (const std::string& part : wrong.parts)
      EXPECT_NE(error_of(wrong.args).find(part), std::string::npos)
          << part << " is not in: " << error_of(wrong.args);
}

TEST(Options, ErrorsNameFlagValueAndRemedy) {
  expect_refused({
      {{"all_reduced"}, {"COLLECTIVE", "all_reduced", "all_reduce", "barrier"}},
      {{""}, {"collective", "an empty value"}},
      {{"-o", ""}, {"--op", "an empty value"}},
      {{"-J", ""}, {"--output_file", "an empty value"}},
      {{"-n", ""}, {"--iters", "an empty value"}},
      {{"-N", "0", "--trace", "x.json"}, {"--trace", "-N 0"}},
      {{"-N", "0", "-J", "y.json", "--plot", "x.svg"}, {"--plot", "-N 0"}},
      {{"-J", "-"}, {"-J/--output_file", "\"-\"", "--json-lines", "./-"}},
      {{"--force"}, {"--force", "--tune"}},
      {{"-J", "x", "--trace", "x"}, {"-J/--output_file and --trace are both x"}},
      {{"-J", "./x", "--trace", "no/../x"}, {"-J/--output_file and --trace are both"}},
      {{"-b", "1", "-e", "9G", "-i", "1"}, {"-i/--stepbytes", "1000000 sizes", "-i 9664 or more"}},
      {{"--plot", "x.svg", "--trace", "x.svg"}, {"--plot and --trace are both x.svg"}},
      {{"--plot", "x.svg", "barrier"}, {"--plot", "barriers", "COLLECTIVE"}},
      {{"--plot", "x.svg", "-b", "0", "-e", "0"}, {"--plot", "-e/--maxbytes"}},
      {{"--check-prices", "--vs", "openmpi"}, {"--check-prices and --vs"}},
      {{"--explain", "--vs", "openmpi"}, {"--explain", "--vs"}},
      {{"-b", "12Q"}, {"-b/--minbytes", "12Q", "64K"}},
      {{"-e", "-5"}, {"-e/--maxbytes", "-5"}},
      {{"-b", "2K", "-e", "1K"}, {"-b/--minbytes 2K", "-e/--maxbytes 1K"}},
      {{"-f", "1"}, {"-f/--stepfactor", "2"}},
      {{"-i", "0"}, {"-i/--stepbytes", "1 or more"}},
      {{"-i", "8", "-f", "2"}, {"exclude"}},
      {{"-n", "0"}, {"-n/--iters", "\"0\"", "1 to"}},
      {{"-n", "ten"}, {"-n/--iters", "ten"}},
      {{"-a", "4"}, {"-a/--average", "0 to 3"}},
      {{"-o", "plus"}, {"-o/--op", "plus", "premulsum"}},
      {{"-d", "float33"}, {"-d/--datatype", "float33", "bfloat16"}},
      {{"-d", "int8,"}, {"-d/--datatype", "\"\""}},
      {{"-d", "all,float32"}, {"-d/--datatype", "\"all,float32\"", "all stands alone"}},
      {{"-o", "sum,all"}, {"-o/--op", "\"sum,all\"", "all stands alone"}},
      {{"all,all_reduce"}, {"COLLECTIVE", "\"all,all_reduce\"", "all stands alone"}},
      {{"--digest", "2", "-c", "5"}, {"--digest", "-c/--check 5"}},
      {{"-r", "first"}, {"-r/--root", "first", "all"}},
      {{"-z", "2"}, {"-z/--blocking", "0 to 1"}},
      {{"-G", "2"}, {"-G/--cudagraph", "--device cuda"}},
      {{"-G", "2", "-z", "1", "--device", "cuda"}, {"-G/--cudagraph", "-z/--blocking"}},
      {{"-T", "0"}, {"-T/--timeout", "seconds"}},
      {{"--transport", "rdma"}, {"--transport", "rdma", "auto, shm, tcp"}},
      {{"--protocol", "ll128"}, {"--protocol", "ll128", "simple"}},
      {{"--lanes", "x"}, {"--lanes", "x"}},
      {{"--lanes", "65"}, {"--lanes", "\"65\"", "0 to 64"}},
      {{"--slots", "1"}, {"--slots", "\"1\"", "0 (choose)", "2 to 65536"}},
      {{"--radix", "1"}, {"--radix", "\"1\"", "0 (choose)", "2 to 65536"}},
      {{"--window", "2T"}, {"--window", "\"2T\"", "1099511627776"}},
      {{"--slot", "2T"}, {"--slot", "1073741824"}},
  });
}

TEST(Options, ErrorsAboutRanksAndDevicesNameThemToo) {
  expect_refused({
      {{"--ranks", "0"}, {"--ranks", "1 to"}},
      {{"--here", "0-1"}, {"--meet", "go together"}},
      {{"--meet", "a:1"}, {"--here", "go together"}},
      {{"--here", "0-1", "--meet", "a:1"}, {"--here", "--ranks"}},
      {{"--ranks", "4", "--here", "0", "--meet", "a:1", "--threads"}, {"--here", "--threads"}},
      {{"--threads", "--processes"}, {"--threads", "--processes"}},
      {{"--ranks", "4", "--here", "2-4", "--meet", "a:1"}, {"--here", "\"4\"", "2 to 3"}},
      {{"--ranks", "4", "--here", "3-1", "--meet", "a:1"}, {"--here", "\"3-1\"", "write 1-3"}},
      {{"--ranks", "4", "--here", "two", "--meet", "a:1"}, {"--here", "two", "0 to 3"}},
      {{"--ranks", "4", "--here", "0", "--meet", "a"}, {"--meet", "HOST:PORT"}},
      {{"--ranks", "4", "--here", "0", "--meet", ":1"}, {"--meet", "\":1\"", "no host"}},
      {{"--ranks", "4", "--here", "0", "--meet", "a:x"}, {"--meet", "\"x\"", "1 to 65535"}},
      {{"--device", "tpu"}, {"--device", "tpu", "cpu, cuda"}},
      {{"--gpus", "0"}, {"--gpus", "--device cuda"}},
      {{"--device", "cuda", "--gpus", "0,-1"}, {"--gpus", "\"-1\"", "numbers of GPUs"}},
      {{"--device", "cuda", "--gpus", "0,"}, {"--gpus", "\"\""}},
      {{"--device", "cuda", "--buffers", "communicator"}, {"--buffers", "--device cuda"}},
      {{"--device", "cuda", "--vs", "all"}, {"--vs", "--device cuda"}},
      {{"--device", "cuda", "--tune"}, {"--tune", "--device cuda"}},
      {{"--device", "cuda", "--check-prices"}, {"--check-prices", "--device cuda"}},
      {{"--device", "cuda", "--explain"}, {"--explain", "--device cuda"}},
      {{"--device", "cuda", "--trace", "x.json"}, {"--trace", "--device cuda"}},
      {{"--frobnicate"}, {"--frobnicate", "--help"}},
      {{"-b"}, {"minbytes"}},
      {{"all", "8"}, {"8"}},
  });
}

// It has a loop and a report of its own.
TEST(Options, WhatCheckPricesWouldIgnoreIsRefused) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"-J", "x"}, "-J"},          {{"--json-lines"}, "--json-lines"},
      {{"-r", "all"}, "root"},      {{"-d", "float32,float64"}, "one type"},
      {{"-n", "5"}, "--rounds"},    {{"--misalign", "1"}, "--misalign"},
      {{"--threads"}, "--threads"}, {{"--digest", "5"}, "--digest"}};
  for (const auto& [more, part] : cases) {
    std::vector<std::string> args{"--check-prices"};
    args.insert(args.end(), more.begin(), more.end());
    EXPECT_NE(error_of(args).find("--check-prices does not go with"), std::string::npos) << part;
    EXPECT_NE(error_of(args).find(part), std::string::npos) << error_of(args);
  }
  EXPECT_EQ(error_of({"--check-prices", "--rounds", "3", "-b", "8", "-e", "64M"}), "accepted");
}

TEST(Options, WhatTuneWouldIgnoreIsRefused) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"all_reduce"}, "COLLECTIVE"},     {{"-J", "x"}, "-J/--output_file"},
      {{"--plot", "x.svg"}, "--plot"},    {{"--vs", "all"}, "--vs"},
      {{"--check-prices"}, "--check"},    {{"--algorithm", "ring"}, "--algorithm"},
      {{"-e", "1K", "-n", "5"}, "-n/"},   {{"--digest", "5"}, "--digest"},
      {{"--threads"}, "--threads"},       {{"--json-lines"}, "--json-lines"},
      {{"--no-bind"}, "leave --no-bind"}, {{"--tuning", "off"}, "--tuning off"}};
  for (const auto& [more, part] : cases) {
    std::vector<std::string> args{"--tune"};
    args.insert(args.end(), more.begin(), more.end());
    EXPECT_NE(error_of(args).find("--tune"), std::string::npos) << error_of(args);
    EXPECT_NE(error_of(args).find(part), std::string::npos) << part << "\n" << error_of(args);
  }
  EXPECT_EQ(error_of({"--tune"}), "accepted");
  EXPECT_EQ(error_of({"--tune", "--tuning", "my.json"}), "accepted");
  EXPECT_EQ(error_of({"--tune", "--force"}), "accepted");
  Environment off;
  off.set("WEFT_TUNING", "off");
  EXPECT_TRUE(parse({"--tune"}, off).ok()) << "said of jobs";
}

TEST(Options, OnGpusCallsAreEnqueued) {
  const Result<BenchOptions> some = parse({"--device", "cuda", "--gpus", "0,0,3"});
  ASSERT_TRUE(some.ok()) << some.status().message();
  EXPECT_TRUE(some->gpu_memory);
  EXPECT_EQ(some->gpus, (std::vector{0, 0, 3}));
  EXPECT_FALSE(some->blocking);
  EXPECT_EQ(iterations_for(*some, 8, 2), 200);
  EXPECT_TRUE(parse({"--device", "cuda", "-z", "1"})->blocking);
  EXPECT_EQ(some->graph_launches, 0);
  EXPECT_EQ(parse({"--device", "cuda", "-G", "7"})->graph_launches, 7);
  EXPECT_TRUE(parse({"--device", "cuda", "--gpus", "all"})->gpus.empty());
  EXPECT_FALSE(parse({"--device", "cpu"})->gpu_memory);
  EXPECT_TRUE(parse({"--device", "cpu"})->blocking);
}

TEST(Options, HelpNamesEveryCollectiveAndTheFloor) {
  const Result<BenchOptions> options = parse({"--help"});
  ASSERT_TRUE(options.ok());
  for (const OperationInfo& entry : operations())
    EXPECT_NE(options->help.find(entry.name), std::string::npos) << entry.name;
  EXPECT_NE(options->help.find("max(hop, bytes / rate)"), std::string::npos);
  EXPECT_TRUE(test::contains(options->help, "--no-bind "));
  EXPECT_FALSE(test::contains(options->help, "{false}"));
  EXPECT_TRUE(parse({})->bind);
  EXPECT_FALSE(parse({"--no-bind"})->bind);
}

}  // namespace
}  // namespace weft::bench
