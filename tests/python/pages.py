"""The programs in Python that pages for users show, the package's own page included, as they stand
there.

pages.py lists their places, as docs/python.md:14; weft run -n 2 -- python pages.py PLACE runs one.
"""

import re
import sys
import textwrap
from pathlib import Path

import weft

ROOT = Path(__file__).resolve().parents[2]
FENCED = re.compile(r"^( *)```python\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
#: A line that prints, and says behind it what it prints.
PROMISED = re.compile(r"^ *print\(.*\) +# (.*)$", re.MULTILINE)


def programs():
    """All of them, by place."""
    found = {}
    for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]:
        text = page.read_text()
        for match in FENCED.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            place = f"{page.relative_to(ROOT)}:{line}"
            found[place] = textwrap.dedent(match.group(2))
    for paragraphs in re.findall(r"(?:^(?: {4}.*)?\n)+", weft.__doc__, re.MULTILINE):
        if paragraphs.strip():
            found[f"weft:{len(found)}"] = textwrap.dedent(paragraphs)
    return found


def run(place, text):
    """Runs it; what does not make its endpoint itself begins with one at hand."""
    said = []
    names = {"__name__": "__main__", "print": lambda *words: said.append(" ".join(map(str, words)))}
    if "weft.Endpoint(" not in text:
        exec("import numpy, weft\nendpoint = weft.Endpoint(weft.Job.from_env())\n", names)
    exec(compile(text, place, "exec"), names)
    # What is not for this rank to say it does not say.
    assert said in ([], PROMISED.findall(text)), said
    print(f"{place} ended well, having said {said}", flush=True)


def main():
    found = programs()
    # The page of Python has two, the package one.
    assert len(found) >= 3, found
    if sys.argv[1:]:
        run(sys.argv[1], found[sys.argv[1]])
    else:
        print(*found)


if __name__ == "__main__":
    main()
