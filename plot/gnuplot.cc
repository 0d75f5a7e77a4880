#include "plot/gnuplot.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr double kPatienceS = 60;
constexpr size_t kWordsMax = 500;  // of gnuplot's, in a message

// A file that is gone with the object.
class TemporaryFile {
 public:
  TemporaryFile()
      : path_((std::filesystem::temp_directory_path() / "weft-plot-XXXXXX").string()),
        fd_(::mkstemp(path_.data())) {}
  ~TemporaryFile() {
    if (fd_ < 0) return;
    ::close(fd_);
    ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  bool ok() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  std::string text() const {
    std::ifstream in(path_);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  std::string path_;
  int fd_;
};

// Its wait status; kills it when it takes too long.
Result<int> run(const std::string& program, const std::string& script, int errors_fd,
                const Environment& environment) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment.values())
    variables.push_back(concat(name, "=", value));
  std::vector<char*> pointers;
  for (std::string& variable : variables) pointers.push_back(variable.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, errors_fd, 1);
  ::posix_spawn_file_actions_adddup2(&actions, errors_fd, 2);
  std::array<std::string, 2> words{program, script};
  std::array<char*, 3> arguments{words[0].data(), words[1].data(), nullptr};
  pid_t pid = 0;
  errno =
      ::posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments.data(), pointers.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (errno != 0) return system_error(concat("--plot: start ", program));
  const Deadline deadline = Deadline::after(kPatienceS);
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (deadline.expired()) ::kill(pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return status;
}

}  // namespace

Result<std::string> find_gnuplot(const Environment& environment) {
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

Status check_plot_file(const std::string& output_file) {
  if (output_file.ends_with(".svg") || output_file.ends_with(".png")) return {};
  return invalid_argument(concat("--plot: \"", output_file,
                                 "\" ends neither in .svg nor in .png, which are what is drawn."));
}

Status draw(const Chart& chart, const std::string& output_file, const Environment& environment) {
  WEFT_TRY(check_plot_file(output_file));
  const Result<std::string> program = find_gnuplot(environment);
  if (!program.ok()) return program.status();
  const auto empty = [](const Panel& panel) {
    return std::all_of(panel.curves.begin(), panel.curves.end(),
                       [](const Curve& curve) { return curve.spots.empty(); });
  };
  if (std::all_of(chart.panels.begin(), chart.panels.end(), empty))
    return unsupported("--plot: there is no figure to draw.");
  const TemporaryFile script, errors;
  if (!script.ok() || !errors.ok()) return system_error("--plot: make a temporary file");
  std::ofstream(script.path()) << gnuplot_script(chart, output_file);
  const Result<int> status = run(*program, script.path(), errors.fd(), environment);
  if (!status.ok()) return status.status();
  if (WIFEXITED(*status) && WEXITSTATUS(*status) == 0) return {};
  return Status(Code::system,
                concat("--plot: gnuplot failed: ", errors.text().substr(0, kWordsMax)));
}

}  // namespace weft
