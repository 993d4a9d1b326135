#!/usr/bin/env python3
"""Wraps comment lines of Rust files that go over the margin, which rustfmt leaves alone.

usage: scripts/wrap_comments.py [FILE...]      (all Rust files of the project without arguments)

Words over the margin move to the next line of the same paragraph. Tables, code blocks, headings and
links are left as they are.
"""

import re
import subprocess
import sys

MARGIN = 100
COMMENT = re.compile(r"^(\s*)(//[/!]?)( +)(.*)$")
# A line that begins something new, so that no word may be put before it.
FRESH = re.compile(r"^([-*] |\d+\. |#|\||```|$|SAFETY:|\[[^]]*\]:)")


def wrapped(lines):
    """The lines with words moved down; a line that cannot be helped stays."""
    out = []
    pending = list(lines)
    fence = False
    while pending:
        line = pending.pop(0)
        match = COMMENT.match(line)
        if match and match[4].startswith("```"):
            fence = not fence
        if not match:
            fence = False
        if len(line) <= MARGIN or not match or fence or match[4].startswith(("|", "#")):
            out.append(line)
            continue
        indent, marker, space, text = match.groups()
        prefix = indent + marker + space
        cut = text.rfind(" ", 0, MARGIN - len(prefix) + 1)
        if cut <= 0:
            out.append(line)
            continue
        hanging = re.match(r"([-*] |\d+\. )?", text)[0]
        follow = prefix + " " * len(hanging)
        out.append(prefix + text[:cut].rstrip())
        rest = text[cut:].strip()
        after = COMMENT.match(pending[0]) if pending else None
        joins = after and after[1] + after[2] + after[3] == follow and not FRESH.match(after[4])
        if joins:
            pending[0] = follow + rest + " " + after[4]
        else:
            pending.insert(0, follow + rest)
    return out


def main():
    """Rewrites the files that need it."""
    files = sys.argv[1:]
    if not files:
        command = ["git", "ls-files", "*.rs"]
        files = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    for name in files:
        with open(name, encoding="utf-8") as file:
            before = file.read()
        after = "\n".join(wrapped(before.splitlines())) + "\n" if before else before
        if after != before:
            with open(name, "w", encoding="utf-8") as file:
                file.write(after)
            print(name)


if __name__ == "__main__":
    main()
