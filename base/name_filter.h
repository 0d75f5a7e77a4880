// Names a user chooses from: "eth,ib", "=eth0,=eth1" or "^docker,virbr", as WEFT_SOCKET_IFNAME and
// WEFT_IB_HCA have them.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace weft {

// Signs in front of the list hold for all of it: "^" is all but these, "=" these names and not just
// any that begin so. Words between commas that are empty name nothing.
class NameFilter {
 public:
  explicit NameFilter(std::string_view text) {
    if (text.starts_with('^')) inverted_ = true, text.remove_prefix(1);
    if (text.starts_with('=')) exact_ = true, text.remove_prefix(1);
    while (!text.empty()) {
      std::string_view name = take_word(text, ',');
      if (exact_ && name.starts_with('=')) name.remove_prefix(1);
      if (!name.empty()) names_.emplace_back(name);
    }
  }

  // Whether nothing was chosen, and so nothing is left out.
  bool empty() const { return names_.empty() && !inverted_ && !exact_; }
  // `matches(name, exact)` says whether a word of the list means what is asked for.
  template <class Matches>
  bool accepts_if(Matches&& matches) const {
    const bool named = std::any_of(names_.begin(), names_.end(),
                                   [&](const std::string& name) { return matches(name, exact_); });
    return named != inverted_;
  }
  bool accepts(std::string_view name) const {
    return accepts_if([name](std::string_view wanted, bool exact) {
      return exact ? name == wanted : name.starts_with(wanted);
    });
  }

 private:
  bool inverted_ = false;
  bool exact_ = false;
  std::vector<std::string> names_;
};

}  // namespace weft
