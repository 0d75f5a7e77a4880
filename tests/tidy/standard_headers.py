"""What of the standard library a file uses, its includes have to name.

The compiler does not see to it: layers and tests are compiled with these headers read beforehand.
"""

import re

NAMES = {
    "algorithm": "adjacent_find all_of any_of binary_search clamp copy copy_n count_if equal fill fill_n find "
                 "find_if is_sorted lower_bound max max_element merge min min_element minmax minmax_element "
                 "mismatch none_of nth_element replace_if reverse rotate shuffle sort stable_partition "
                 "stable_sort unique upper_bound",
    "array": "array",
    "atomic": r"atomic\w* memory_order\w*",
    "chrono": "chrono",
    "cstring": "memcmp memcpy memmove memset strerror strlen strncpy",
    "functional": "function hash less not_equal_to",
    "map": "map multimap",
    "memory": r"enable_shared_from_this make_shared make_unique\w* shared_ptr unique_ptr weak_ptr",
    "mutex": "lock_guard mutex scoped_lock try_to_lock unique_lock",
    "optional": "nullopt optional",
    "set": "multiset set",
    "span": "as_bytes as_writable_bytes span",
    "string": "getline stoi stoul stoull string to_string",
    "string_view": "string_view",
    "thread": "jthread this_thread thread",
    "vector": "vector",
}
USES = {header: re.compile(r"\bstd::(" + "|".join(names.split()) + r")\b") for header, names in NAMES.items()}
ANY_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)


class StandardHeaders:
    """Of the files of a tree; `files` maps their paths to their text."""

    def __init__(self, files):
        self.files = files
        self.known = {}

    def named(self, path):
        """The standard headers that a file includes, itself or by way of files of the tree."""
        if path not in self.known:
            self.known[path] = found = set()  # a circle of includes finds this
            for name in ANY_INCLUDE.findall(self.files[path]):
                found |= self.named(name) if name in self.files else {name}
            if "string" in found:
                found.add("string_view")
        return self.known[path]

    def check(self, path, code):
        """(line, what) of every header that is not named; `code` is without comments and literals."""
        for header, uses in USES.items():
            if header not in self.named(path) and (match := uses.search(code)):
                yield code.count("\n", 0, match.start()) + 1, f"{match.group(0)} without #include <{header}>"
