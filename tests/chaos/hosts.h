// Two hosts, played by network namespaces with a virtual cable between them.
#pragma once

#include <optional>
#include <string>

namespace weft::chaos {

class TwoHosts {
 public:
  // Nothing where this user may not make namespaces, or there is no ip(8).
  static std::optional<TwoHosts> make();
  TwoHosts(TwoHosts&& other) noexcept;
  TwoHosts& operator=(TwoHosts&&) = delete;
  ~TwoHosts();

  // The calling process goes to host 0 or 1, for good.
  bool enter(int host) const;
  // From now on nothing passes between them, and nobody is told. False where it cannot be done.
  bool cut() const;

 private:
  explicit TwoHosts(std::string name) : name_(std::move(name)) {}
  std::string host(int index) const { return name_ + (index == 0 ? "a" : "b"); }

  std::string name_;  // empty: moved from
};

}  // namespace weft::chaos
