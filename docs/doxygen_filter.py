#!/usr/bin/env python3
"""Makes Doxygen read the comments of weft's headers as they are. Usage: doxygen_filter.py HEADER

A comment above a declaration is its documentation, and that of the declarations which follow without
a blank line or a comment of their own; a comment behind one is its documentation, too. The comment
at the top of a file is the file's. Comments inside functions are nobody's.
"""

import re
import sys

CONTAINER = re.compile(r"^(template\s*<.*>\s*)?(requires .*\s)?(namespace|class|struct|enum)\b")
# Not a brace, a label, a directive.
MEMBER = re.compile(r"[\w:\[~(]+(?!:$)[^:]")
# For tools, not for people.
TOOLS = re.compile(r"//\s*(NOLINT|clang-format)")
LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)+\'')
COMMENT = re.compile(r"^(?P<indent>\s*)//(?P<text>.*)$")
TRAILING = re.compile(r"^(?P<code>.*\S)(?P<space>\s+)//(?P<text>.*)$")


class Filter:
    def __init__(self):
        self.out = []
        self.stack = []  # kinds of the braces that are open
        self.head = ""  # the declaration so far
        self.pending = []  # a comment that waits for its declaration
        self.paragraph = []  # the one that holds until a blank line
        self.directive = False  # whether the last line goes on
        self.trailing = False  # whether the last line ended in a comment

    def at_declarations(self):
        return all(kind in ("namespace", "class", "struct") for kind in self.stack)

    def open_declaration(self, line):
        """A declaration begins here: the comment above it, or above those it stands close to."""
        fresh, self.pending = self.pending, []
        text = line.strip()
        if fresh:
            self.paragraph = fresh
        elif TRAILING.match(line) or not MEMBER.match(text):
            return
        self.out += ["///" + comment for comment in self.paragraph]
        if CONTAINER.match(text):
            self.paragraph = []

    def track(self, code):
        """Follows braces; `code` is without comments and literals."""
        for c in code:
            if c == "{":
                kind = CONTAINER.match(" ".join(self.head.split()))
                self.stack.append(kind.group(3) if kind and "(" not in self.head else "body")
                self.head = ""
            elif c == "}":
                self.stack.pop()
                self.head = ""
            elif c == ";":
                self.head = ""
            else:
                self.head += c
        self.head += " "

    def line(self, line):
        comment = COMMENT.match(line)
        if TOOLS.search(line):
            line, comment = TOOLS.sub("//", line).split("//")[0].rstrip(), None
            if not line:
                self.out.append(line)
                return
        declaration = self.at_declarations() and not self.head.strip() and not self.directive
        if comment and self.trailing and not declaration_follows(line):
            self.out.append(line.replace("//", "///<", 1))
            return
        if comment:
            if declaration:
                self.pending.append(comment.group("text"))
            else:
                self.out.append("")
            return
        self.trailing = False
        code = line
        match = TRAILING.match(LITERAL.sub(lambda m: "x" * len(m.group(0)), line))
        if match:
            code = line[: len(match.group("code"))]
            line = f"{code}{match.group('space')}///<{line[match.start('text'):]}"
            self.trailing = True
        if not line.strip() and declaration:
            self.pending = self.paragraph = []
        if line.strip() and declaration:
            self.open_declaration(line)
        self.out.append(line)
        if line.strip() in ("public:", "protected:", "private:"):
            return
        directive = self.directive or line.lstrip().startswith("#")
        self.directive = directive and line.endswith("\\")
        if not directive:
            self.track(LITERAL.sub("", code))


def declaration_follows(line):
    """Whether a comment stands where declarations do, not in a column of comments."""
    return len(line) - len(line.lstrip()) <= 4


def main():
    lines = open(sys.argv[1], encoding="utf-8").read().split("\n")
    top = 0
    while lines[top].startswith("//"):
        top += 1
    filter_ = Filter()
    filter_.out = ["/// \\file"] + ["///" + line[2:] for line in lines[:top]]
    for line in lines[top:]:
        filter_.line(line)
    print("\n".join(filter_.out))


if __name__ == "__main__":
    main()
