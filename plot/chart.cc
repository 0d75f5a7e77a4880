#include "plot/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/text.h"

namespace weft {
namespace {

constexpr int kPanelWidth = 640, kPanelHeight = 450;
// Colours that can be told apart; after the last they come again, with other points.
constexpr const char* kColours[] = {"#4e79a7", "#e15759", "#59a14f", "#f28e2b", "#b07aa1",
                                    "#76b7b2", "#edc948", "#9c755f", "#ff9da7", "#7f7f7f"};
constexpr size_t kColourCount = std::size(kColours);
constexpr int kPoints[] = {7, 5, 9, 13};

// As gnuplot reads it literally, which ends at a line's end.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text)
    result.append(c == '\'' ? "''" : c == '\n' ? "'.\"\\n\".'" : std::string(1, c));
  return result + "'";
}

std::string number(double value) {
  if (!std::isfinite(value)) return "NaN";
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

class Script {
 public:
  Script(const Chart& chart, const std::string& output_file) : chart_(chart) {
    for (const Panel& panel : chart.panels)
      for (const Curve& curve : panel.curves) {
        const bool coloured =
            curve.style != Curve::Style::bound && curve.style != Curve::Style::frontier;
        if (coloured && std::find(names_.begin(), names_.end(), curve.name) == names_.end())
          names_.push_back(curve.name);
      }
    write_head(output_file);
    for (size_t i = 0; i < chart.panels.size(); ++i) write_panel(chart.panels[i], i);
    text_ += "unset multiplot\nset output\n";
  }
  std::string take() { return std::move(text_); }

 private:
  void write_head(const std::string& output_file) {
    for (size_t p = 0; p < chart_.panels.size(); ++p)
      for (size_t c = 0; c < chart_.panels[p].curves.size(); ++c)
        write_data(chart_.panels[p].curves[c], data_name(p, c));
    const int columns = std::max(1, chart_.columns);
    const int rows = (static_cast<int>(chart_.panels.size()) + columns - 1) / columns;
    const bool png = output_file.ends_with(".png");
    text_ += concat("set terminal ", png ? "pngcairo" : "svg", " size ", kPanelWidth * columns, ",",
                    kPanelHeight * std::max(1, rows), " noenhanced background rgb 'white'\n",
                    "set output ", quoted(output_file), "\n", "set multiplot layout ", rows, ",",
                    columns, " title ", quoted(chart_.title), "\nset grid\n");
  }

  static std::string data_name(size_t panel, size_t curve) {
    return concat("$data_", panel, "_", curve);
  }

  void write_data(const Curve& curve, const std::string& name) {
    text_ += name + " << END\n";
    for (const Spot& spot : curve.spots)
      text_ += concat(number(spot.x), " ", number(spot.y), " ", number(spot.low), " ",
                      number(spot.high), "\n");
    text_ += "END\n";
  }

  void write_axis(const char* which, const Axis& axis) {
    text_ += concat("set ", which, "label ", quoted(axis.label), " offset 0,0.3\n");
    switch (axis.scale) {
      case Axis::Scale::bytes:
        text_ += concat("set logscale ", which, " 2\nset format ", which, " '%.0b%B'\n");
        break;
      case Axis::Scale::logarithmic:
        text_ += concat("set logscale ", which, " 10\nset format ", which, " '%g'\n");
        break;
      case Axis::Scale::from_zero:
        text_ += concat("unset logscale ", which, "\nset format ", which, " '%g'\nset ", which,
                        "range [0:*]\n");
        return;
    }
    text_ += concat("set ", which, "range [*:*]\n");
  }

  void write_panel(const Panel& panel, size_t index) {
    text_ += concat("set title ", quoted(panel.title), "\n");
    write_axis("x", panel.x);
    write_axis("y", panel.y);
    std::string curves;
    for (size_t c = 0; c < panel.curves.size(); ++c)
      if (!panel.curves[c].spots.empty())
        curves += (curves.empty() ? "" : ", ") + curve_text(panel.curves[c], data_name(index, c));
    const bool scattered =
        std::any_of(panel.curves.begin(), panel.curves.end(), [](const Curve& curve) {
          return curve.style == Curve::Style::points || curve.style == Curve::Style::labels;
        });
    text_ += scattered ? "unset key\nset autoscale fix\n"
                         "set offsets graph 0.1, graph 0.25, graph 0.1, graph 0.1\n"
                       : "set key outside bottom center horizontal\nset offsets 0, 0, 0, 0\n";
    text_ += curves.empty() ? "set multiplot next\n" : "plot " + curves + "\n";
  }

  std::string curve_text(const Curve& curve, const std::string& data) const {
    const auto at = std::find(names_.begin(), names_.end(), curve.name) - names_.begin();
    const size_t index = static_cast<size_t>(at);
    const std::string colour = concat("linecolor rgb '", kColours[index % kColourCount], "'");
    const int point = kPoints[index / kColourCount % std::size(kPoints)];
    switch (curve.style) {
      case Curve::Style::bound:
        return concat(
            data, curve.spots.size() > 1 ? " with lines dashtype 2" : " with points pointtype 2",
            " linecolor rgb 'black' title ", quoted(curve.name));
      case Curve::Style::frontier: return concat(data, " with steps linecolor rgb 'grey' notitle");
      case Curve::Style::points: return points(data, colour, point);
      case Curve::Style::labels:
        return concat(points(data, colour, point), ", ", data, " using 1:2:(", quoted(curve.name),
                      ") with labels left offset 0.7,-0.5 textcolor rgb '",
                      kColours[index % kColourCount], "' notitle");
      case Curve::Style::line: break;
    }
    std::string text;
    if (curve.ranges)
      text = concat(data, " using 1:2:3:4 with yerrorbars notitle ", colour, " pointtype 0, ");
    return text + concat(data, " with linespoints ", colour, " linewidth ",
                         curve.thick ? "3" : "1.5", " pointtype ", point, " pointsize 0.4 title ",
                         quoted(curve.name));
  }

  static std::string points(const std::string& data, const std::string& colour, int point) {
    return concat(data, " with points ", colour, " pointtype ", point, " notitle");
  }

  const Chart& chart_;
  std::vector<std::string> names_;  // that have a colour
  std::string text_;
};

}  // namespace

std::string gnuplot_script(const Chart& chart, const std::string& output_file) {
  return Script(chart, output_file).take();
}

}  // namespace weft
