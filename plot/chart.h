// Charts of numbers as values, and how gnuplot is told to draw them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

struct Spot {
  double x = 0, y = 0;
  double low = 0, high = 0;  // where the curve has ranges
};

struct Curve {
  enum class Style : uint8_t {
    line,     // through all spots, in the colour of its name
    bound,    // what cannot be passed: dashed and black
    points,   // in the colour of its name, which another panel explains
    labels,   // the same, with the name beside each spot
    frontier  // steps between spots, grey, without a name
  };
  std::string name;  // the same colour in all panels of a chart, in order of appearance
  std::vector<Spot> spots;
  Style style = Style::line;
  bool ranges = false;
  bool thick = false;
};

struct Axis {
  enum class Scale : uint8_t { logarithmic, bytes, from_zero };  // bytes: powers of two, 4KiB
  std::string label;
  Scale scale = Scale::logarithmic;
};

struct Panel {
  std::string title;
  Axis x, y;
  std::vector<Curve> curves;  // those without a spot are left out
};

// Panels are laid out row by row; those without a spot stay empty.
struct Chart {
  std::string title;  // of lines
  int columns = 1;
  std::vector<Panel> panels;
};

// What gnuplot is told, data included. SVG, or PNG where the file's name ends in .png.
std::string gnuplot_script(const Chart& chart, const std::string& output_file);

}  // namespace weft
