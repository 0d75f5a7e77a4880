#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "plot/gnuplot.h"

namespace weft {
namespace {

Chart two_panels() {
  const Curve one{.name = "it's", .spots = {{8, 1.5, 1, 2}, {64, NAN}}, .ranges = true};
  const Curve bound{.name = "bound", .spots = {{8, 1}, {64, 2}}, .style = Curve::Style::bound};
  const Curve none{.name = "none", .spots = {}};
  const Curve label{.name = "it's", .spots = {{3, 4}}, .style = Curve::Style::labels};
  const Curve point{.name = "two", .spots = {{5, 4}}, .style = Curve::Style::points};
  const Curve front{.name = "", .spots = {{3, 4}}, .style = Curve::Style::frontier};
  return {
      .title = "t",
      .columns = 1,
      .panels = {{"first", {"bytes", Axis::Scale::bytes}, {"us"}, {one, bound, none}},
                 {"second", {"alpha"}, {"beta", Axis::Scale::from_zero}, {front, label, point}}}};
}

void expect_part(const std::string& script, const std::string& part) {
  EXPECT_NE(script.find(part), std::string::npos) << part << " is not in\n" << script;
}

TEST(Chart, ATitleHasLines) {
  Chart chart = two_panels();
  chart.title = "it's\nt";
  expect_part(gnuplot_script(chart, "a.svg"), "title 'it''s'.\"\\n\".'t'\n");
}

TEST(Chart, TellsGnuplotEverything) {
  const std::string script = gnuplot_script(two_panels(), "a 'b'.svg");
  expect_part(script, "$data_0_0 << END\n8 1.5 1 2\n64 NaN 0 0\nEND\n");
  expect_part(script, "set terminal svg size 640,900 ");
  expect_part(script, "set output 'a ''b''.svg'");
  expect_part(script, "set multiplot layout 2,1 title 't'");
  expect_part(script, "set logscale x 2");
  expect_part(script, "$data_0_0 using 1:2:3:4 with yerrorbars notitle linecolor rgb '#4e79a7'");
  expect_part(script, "$data_0_1 with lines dashtype 2 linecolor rgb 'black' title 'bound'");
  expect_part(script, "$data_1_1 with points linecolor rgb '#4e79a7'");
  expect_part(script, "$data_1_2 with points linecolor rgb '#59a14f' pointtype 7 notitle");
  expect_part(script, "unset logscale y");
  EXPECT_EQ(script.find("'none'"), std::string::npos);
  expect_part(gnuplot_script(two_panels(), "x.png"), "set terminal pngcairo");
}

class Drawn : public testing::Test {
 protected:
  void SetUp() override {
    if (!find_gnuplot(environment_).ok()) GTEST_SKIP() << "gnuplot is not installed";
  }
  static std::string begin_of(const std::string& path) {
    std::ifstream file(path);
    const std::string all{std::istreambuf_iterator<char>(file), {}};
    std::filesystem::remove(path);
    return all.substr(0, 200);
  }
  static std::string path(const std::string& name) {
    return (std::filesystem::temp_directory_path() / ("weft-plot-test." + name)).string();
  }
  const Environment environment_ = Environment::of_process();
};

TEST_F(Drawn, SvgAndPng) {
  ASSERT_TRUE(draw(two_panels(), path("svg"), environment_).ok());
  EXPECT_NE(begin_of(path("svg")).find("<svg"), std::string::npos);
  const Status png = draw(two_panels(), path("png"), environment_);
  ASSERT_TRUE(png.ok()) << png.to_string();
  EXPECT_EQ(begin_of(path("png")).substr(1, 3), "PNG");
}

TEST_F(Drawn, APanelOfNothingLeavesItsPlaceEmpty) {
  Chart chart = two_panels();
  chart.title = "two\nlines";
  chart.columns = 2;
  chart.panels.insert(chart.panels.begin() + 1, Panel());
  const Status status = draw(chart, path("svg"), environment_);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_NE(begin_of(path("svg")).find("<svg"), std::string::npos);
}

TEST_F(Drawn, WhatGnuplotSaysIsPassedOn) {
  const Status status = draw(two_panels(), "/nowhere/x.svg", environment_);
  EXPECT_EQ(status.code(), Code::system);
  EXPECT_NE(status.message().find("/nowhere/x.svg"), std::string::npos) << status.to_string();
}

TEST_F(Drawn, NothingIsAnError) {
  Chart chart = two_panels();
  for (Panel& panel : chart.panels)
    for (Curve& curve : panel.curves) curve.spots.clear();
  EXPECT_EQ(draw(chart, path("svg"), environment_).code(), Code::unsupported);
}

TEST(Gnuplot, ItsPackageIsNamedWhereItIsMissing) {
  const std::map<std::string, std::string, std::less<>> values{{"PATH", "/nowhere:"}};
  const Result<std::string> found = find_gnuplot(Environment(values));
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.status().message().find("gnuplot-nox"), std::string::npos);
  EXPECT_NE(check_plot_file("a.gif").message().find("\"a.gif\" ends neither in .svg nor in .png"),
            std::string::npos);
}

}  // namespace
}  // namespace weft
