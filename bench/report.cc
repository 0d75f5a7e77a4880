#include "bench/report.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "bench/statistics.h"
#include "bench/text_columns.h"

namespace weft::bench {
namespace {

std::string rate_text(double gbps) {
  return gbps >= 100 ? format("%7.1f", gbps) : format("%7.2f", gbps);
}

std::string figure_text(const std::optional<Figure>& figure, bool checked) {
  if (!figure) return format("  %7s %7s %7s %6s", "-", "-", "-", "-");
  const std::string wrong = checked ? std::to_string(figure->wrong + figure->touched) : "N/A";
  return format("  %s %s %s %6s", time_text(figure->time_us).c_str(),
                rate_text(figure->algorithm_gbps).c_str(), rate_text(figure->bus_gbps).c_str(),
                wrong.c_str());
}

std::string way_text(const CallInfo& info) {
  std::string text = info.algorithm;
  if (!info.protocol.empty()) text.append("/").append(info.protocol);
  if (info.lanes > 1) text.append(concat(" x", info.lanes));
  return text;
}

// Where the two forms go different ways, both.
std::string algorithm_text(const Row& row) {
  std::string text = way_text(row.info);
  if (row.in_place_info)
    if (const std::string in_place = way_text(*row.in_place_info); in_place != text)
      text.append(" (in place ").append(in_place).append(")");
  if (!row.info.transports.empty()) text.append(" ").append(row.info.transports);
  return text;
}

std::string step_text(const BenchOptions& o) {
  return o.step_bytes > 0 ? concat(o.step_bytes, "(bytes)") : concat(o.step_factor, "(factor)");
}

std::string device_text(const RankInfo& rank) {
  return rank.gpu ? concat("GPU ", rank.gpu->ordinal, " ", rank.gpu->name) : "cpu";
}

std::string copies_text(const std::vector<Calibration::CopyRate>& copies) {
  std::string text = "copies";
  for (const Calibration::CopyRate& copy : copies)
    text += format(" %.0fK:%.1f", copy.bytes / 1024, copy.bytes_per_second * 1e-9);
  return text + " GB/s";
}

std::string gpu_floor_text(const RunInfo& run) {
  const Calibration& c = *run.calibration;
  std::string text;
  for (const Calibration::OfGpu& gpu : c.gpus) {
    const RankInfo& first = run.ranks[static_cast<size_t>(gpu.ranks.front())];
    text.append(
        concat("# floor: ", device_text(first), gpu.ranks.size() > 1 ? ", ranks" : ", rank"));
    for (const Rank rank : gpu.ranks) text.append(concat(" ", rank));
    text.append(concat(": ", copies_text(gpu.copies), " within its memory\n"));
  }
  if (c.leaving_gpu_bytes_per_second > 0)
    text += format("# floor: %.1f GB/s from rank 0's GPU to the others\n",
                   c.leaving_gpu_bytes_per_second * 1e-9);
  return text;
}

std::string floor_text(const Calibration& c) {
  std::string text = format("# floor: flag hop %.3f us; ", c.flag_hop_s * 1e6);
  text += copies_text(c.copies);
  if (c.tcp_bytes_per_second > 0)
    text += format("; loopback tcp hop %.2f us, %.2f GB/s", c.tcp_hop_s * 1e6,
                   c.tcp_bytes_per_second * 1e-9);
  return text + "\n";
}

// Each waits for its turn in every call: nothing is wrong where nothing comes for long.
std::string crowd_text(const RunInfo& run) {
  constexpr auto kCrowd = int64_t{32};  // ranks of a core
  const int64_t cores = run.machine.cores;
  const int64_t here = std::ranges::count(run.ranks, run.machine.host, &RankInfo::host);
  if (run.options.gpu_memory || cores == 0 || here < kCrowd * cores) return {};
  return concat("# ", here, " ranks share ", cores, cores == 1 ? " core" : " cores",
                ": a row may take minutes (-n, -c and -e make it "
                "less)\n");
}

// How calls are put on GPUs.
std::string calls_text(const BenchOptions& o) {
  if (o.graph_launches > 0)
    return concat("the calls of a figure are a graph, launched ", o.graph_launches, " times");
  return concat("calls are enqueued, and ",
                o.blocking ? "each iteration" : "all iterations of a figure", " waited for once");
}

}  // namespace

std::optional<Percentiles> percentiles(std::vector<double> times_us) {
  if (times_us.empty()) return std::nullopt;
  std::sort(times_us.begin(), times_us.end());
  const auto at = [&](double share) { return quantile(times_us, share); };
  return Percentiles{times_us.front(), at(0.5), at(0.9), at(0.99), times_us.back()};
}

void Totals::add(const Row& row) {
  ++rows;
  for (const auto& figure : {row.out_of_place, row.in_place}) {
    if (!figure) continue;
    faults += figure->wrong + figure->touched;
    bus_gbps_sum += figure->bus_gbps;
    ++figures;
  }
  if (row.digests_differ) ++faults;
}

std::string header_text(const RunInfo& run) {
  constexpr size_t kRanksShown = 64;
  const BenchOptions& o = run.options;
  const std::string iterations = o.iterations > 0 ? std::to_string(o.iterations) : "by size";
  const std::string warmup = o.warmup >= 0 ? std::to_string(o.warmup) : "by iters";
  std::string text = format(
      "# weft-bench %s minBytes %zu maxBytes %zu step: %s warmup iters: %s iters: %s agg iters: %d "
      "validation: %d\n#\n# Using devices\n",
      run.version.c_str(), o.min_bytes, o.max_bytes, step_text(o).c_str(), warmup.c_str(),
      iterations.c_str(), o.calls_per_iteration, o.checks);
  for (size_t rank = 0; rank < std::min(run.ranks.size(), kRanksShown); ++rank)
    text += format("#  Rank %2zu Pid %6d on %10s device %s\n", rank, run.ranks[rank].pid,
                   run.ranks[rank].host.c_str(), device_text(run.ranks[rank]).c_str());
  if (run.ranks.size() > kRanksShown)
    text += format("#  and %zu more\n", run.ranks.size() - kRanksShown);
  if (!run.library.empty()) text += format("# Library %s\n", run.library.c_str());
  text += format("# %s, %d cores\n", run.machine.cpu.c_str(), run.machine.cores);
  text += crowd_text(run);
  if (o.communicator_buffers) text += "# buffers allocated by the communicator\n";
  if (o.gpu_memory) text += concat("# data in GPUs' memory; ", calls_text(o), "\n");
  if (run.calibration) text += o.gpu_memory ? gpu_floor_text(run) : floor_text(*run.calibration);
  return text + "#\n";
}

std::string titles_text(Operation operation, const BenchOptions& options) {
  const char* half = "     time   algbw   busbw #wrong";
  const char* units = "     (us)  (GB/s)  (GB/s)       ";
  const char* digest = options.digest_elements > 0 ? "  digest" : "";
  std::string text = concat("# ", name(operation), "\n");
  text += format("#%59s  %-32s%-32s\n", "", "         out-of-place", "           in-place");
  text += format("# %10s %13s %10s %9s %7s    %s%s   floor  algorithm%s\n", "size", "count", "type",
                 "redop", "root", half, half, digest);
  text += format("# %10s %13s %10s %9s %7s    %s%s    (us)\n", "(B)", "(elements)", "", "", "",
                 units, units);
  return text;
}

std::string explanation_text(const Row& row) {
  const OperationInfo& operation = info(row.what.operation);
  if (!has_prices(Call{.kind = operation.kind, .varying = operation.varying}))
    return "#   chosen by table: such calls have no prices\n";
  if (row.info.prices.empty())
    return "#   chosen by table: nothing is known of this machine's prices (weft-bench --tune)\n";
  std::string text = "#   us by price:";
  const auto& figure = row.out_of_place ? row.out_of_place : row.in_place;
  std::string off;
  for (const CallInfo::Price& price : row.info.prices) {
    const double us = price.seconds * 1e6;
    text.append(" ").append(price.algorithm).append(" ").append(time_text(us));
    if (price.algorithm == row.info.algorithm && figure && us > 0)
      off = format("; measured / price of what ran: %.2f", figure->time_us / us);
  }
  return text + off + "\n";
}

std::string row_text(const Row& row) {
  const std::string op = row.what.op ? std::string(weft::name(*row.what.op)) : "none";
  const std::string root = row.what.root ? std::to_string(*row.what.root) : "-1";
  std::string text =
      format("%12zu %13zu %10s %9s %7s    ", row.bytes, row.count,
             std::string(weft::name(row.what.type)).c_str(), op.c_str(), root.c_str());
  text += figure_text(row.out_of_place, row.checked) + figure_text(row.in_place, row.checked);
  text += row.floor_us ? concat(" ", time_text(*row.floor_us)) : format(" %7s", "-");
  text.append("  ").append(algorithm_text(row));
  if (row.digest)
    text += format("  %016llx%s", static_cast<unsigned long long>(*row.digest),
                   row.digests_differ ? " (ranks differ)" : "");
  return text + "\n";
}

std::string footer_text(const Totals& totals, bool checked) {
  const bool compared = checked || totals.faults > 0;  // of digests that differ
  std::string text = compared ? format("# Out of bounds values : %llu %s\n",
                                       static_cast<unsigned long long>(totals.faults),
                                       totals.faults == 0 ? "OK" : "FAILED")
                              : "# Out of bounds values : not checked\n";
  text += format("# Avg bus bandwidth    : %g\n", totals.average_bus_gbps());
  text += format("# Rows                 : %zu\n", totals.rows);
  if (totals.skipped_undefined > 0)
    text +=
        format("# Skipped              : %zu rows of reductions without a meaning on the type\n",
               totals.skipped_undefined);
  if (totals.skipped_unsupported > 0)
    text += format(
        "# Skipped              : %zu rows that the algorithm or library asked for cannot do\n",
        totals.skipped_unsupported);
  return text;
}

bool Progress::wanted() { return ::isatty(STDERR_FILENO) == 1; }

void Progress::show(std::string_view text) {
  if (!shown_) return;
  const std::string line = concat("\r\033[K", text);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  dirty_ = true;
}

void Progress::clear() {
  if (!dirty_) return;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, "\r\033[K", 4);
  dirty_ = false;
}

}  // namespace weft::bench
