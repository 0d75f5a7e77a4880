#include "bench/plot.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/text.h"
#include "bench/text_columns.h"
#include "bench/watched.h"

namespace weft::bench {
namespace {

constexpr double kPatienceS = 60;

using Sweep = std::vector<const Line*>;

// Lines by sweep, without calls of no size, which have no place on the axis.
std::vector<Sweep> sweeps(const Comparison& comparison) {
  std::vector<Sweep> found;
  for (const Line& line : comparison.lines()) {
    if (line.point.bytes == 0) continue;
    if (found.empty() || !found.back().front()->point.same_sweep(line.point)) found.emplace_back();
    found.back().push_back(&line);
  }
  return found;
}

// As gnuplot reads it literally.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result.append(c == '\'' ? "''" : std::string(1, c));
  return result + "'";
}

std::string number(double value) { return format("%.6g", value); }

// A block of data: size, floor's time and busbw, then time, its quartiles and busbw of each
// library. "NaN" where there is nothing.
std::string data_block(const Comparison& comparison, const Sweep& sweep, size_t index) {
  std::string text = concat("$sweep", index, " << END\n");
  for (const Line* line : sweep) {
    const auto bytes = static_cast<double>(line->point.bytes);
    const double bus_bytes = bytes * bus_factor(line->point.operation, comparison.ranks());
    text += number(bytes);
    text += line->floor_us ? concat(" ", number(*line->floor_us), " ",
                                    number(bus_bytes * 1e-3 / *line->floor_us))
                           : " NaN NaN";
    for (const Measured& measured : line->measured) {
      const std::optional<Summary> s = measured.summary();
      text += s ? concat(" ", number(s->median), " ", number(s->low), " ", number(s->high), " ",
                         number(bus_bytes * 1e-3 / s->median))
                : " NaN NaN NaN NaN";
    }
    text += "\n";
  }
  return text + "END\n";
}

std::string curves(const Comparison& comparison, size_t sweep, bool times) {
  const std::string data = concat("$sweep", sweep);
  std::string text = "plot ";
  for (size_t i = 0; i < comparison.libraries().size(); ++i) {
    const size_t column = 4 + 4 * i;  // of the time
    const std::string style = concat("linetype ", i + 1, " linewidth ", i == 0 ? 3 : 1.5);
    if (times)
      text += concat(data, " using 1:", column, ":", column + 1, ":", column + 2,
                     " with yerrorbars notitle linetype ", i + 1, " pointtype 0, ");
    text +=
        concat(data, " using 1:", times ? column : column + 3, " with linespoints ", style,
               " pointtype 7 pointsize 0.4 title ", quoted(comparison.libraries()[i].name), ", ");
  }
  return text + concat(data, " using 1:", times ? 2 : 3,
                       " with lines linecolor rgb 'black' dashtype 2 title 'floor'\n");
}

std::string title_of(const Point& point, int ranks) {
  return concat(name(point.operation), " ", point.type, point.op.empty() ? "" : " ", point.op, ", ",
                ranks, " ranks");
}

}  // namespace

Result<std::string> find_plotter(const Environment& environment) {
  const std::string path = environment.get("PATH").value_or("/usr/bin:/bin");
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const std::string program = concat(path.substr(begin, end - begin), "/gnuplot");
    if (::access(program.c_str(), X_OK) == 0) return program;
    begin = end + 1;
  }
  return invalid_argument(
      "--plot draws with gnuplot, which is not in PATH. On Debian or Ubuntu: apt-get install "
      "gnuplot-nox.");
}

std::string plot_script(const Comparison& comparison, const RunInfo& run,
                        const std::string& output_file) {
  const std::vector<Sweep> all = sweeps(comparison);
  std::string text;
  for (size_t i = 0; i < all.size(); ++i) text += data_block(comparison, all[i], i);
  text += concat("set terminal svg size ", 640 * all.size(),
                 ",900 noenhanced background rgb 'white'\n", "set output ", quoted(output_file),
                 "\n", "set multiplot layout 2,", all.size(), " title ",
                 quoted(concat(run.machine.cpu, ", ", run.machine.cores, " cores, ", run.date,
                               ": medians and quartiles of ", run.options.rounds, " rounds")),
                 "\nset grid\nset logscale x 2\nset format x '%.0b%B'\nset xlabel 'bytes'\n"
                 "set key outside bottom center horizontal\n");
  for (const bool times : {true, false}) {
    text += times ? "set logscale y 10\nset ylabel 'time (us)'\n"
                  : "unset logscale y\nset ylabel 'busbw (GB/s)'\nset yrange [0:*]\n";
    for (size_t i = 0; i < all.size(); ++i)
      text += concat("set title ", quoted(title_of(all[i].front()->point, comparison.ranks())),
                     "\n", curves(comparison, i, times));
  }
  return text + "unset multiplot\nset output\n";
}

Status plot(const Comparison& comparison, const RunInfo& run, const std::string& output_file,
            const Environment& environment) {
  Result<std::string> plotter = find_plotter(environment);
  if (!plotter.ok()) return plotter.status();
  if (sweeps(comparison).empty()) return unsupported("--plot: there is no figure to draw.");
  std::string path = (std::filesystem::temp_directory_path() / "weft-plot-XXXXXX").string();
  const int fd = ::mkstemp(path.data());
  if (fd < 0) return system_error(concat("--plot: make the file ", path));
  ::close(fd);
  std::ofstream(path) << plot_script(comparison, run, output_file);
  ProcessSpec spec;
  spec.program = *plotter;
  spec.arguments = {path};
  const Result<WatchedEnd> end =
      run_watched(spec, kPatienceS, [](std::string_view) { return kPatienceS; });
  ::unlink(path.c_str());
  if (!end.ok()) return end.status();
  if (!end->well())
    return Status(Code::system, concat("--plot: gnuplot ", end->reason, ": ", end->errors));
  return {};
}

}  // namespace weft::bench
