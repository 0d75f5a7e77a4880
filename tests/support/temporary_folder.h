// A folder of a test's own, empty at first, and gone with the object.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

namespace weft::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    char name[] = "/tmp/weft-test-XXXXXX";
    if (::mkdtemp(name))
      path_ = name;
    else
      ADD_FAILURE() << "there is no folder for this test in /tmp";
  }
  ~TemporaryFolder() {
    if (!path_.empty()) std::filesystem::remove_all(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace weft::test
