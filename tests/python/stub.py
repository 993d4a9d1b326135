"""The stub says what the module has: every name, and no other; and all that has no obvious meaning
has a page of its own."""

import ast
import inspect
from pathlib import Path

import weft
from weft import _weft

#: What Python gives to every class, or what a class has by its base.
COMMON = set(dir(object)) | set(dir(Exception)) | {"__module__", "__weakref__", "__hash__"}
#: The type of a constant, which checkers of types want to have a name.
TYPES = {"AnyOf"}


def names(body):
    """What a piece of the stub declares, by name: classes with what they have, also by a base."""
    found = {}
    for node in body:
        if isinstance(node, ast.ClassDef):
            bases = [found.get(base.id) or {} for base in node.bases if isinstance(base, ast.Name)]
            found[node.name] = names(node.body)
            for base in bases:
                found[node.name].update(base)
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = None
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = None
    return found


def own(cls):
    return {name for name in vars(cls) if name not in COMMON or name == "__eq__"}


def main():
    stub = Path(_weft.__file__).with_name("_weft.pyi").read_text()
    said = names(ast.parse(stub).body)
    said = {name: has for name, has in said.items() if name[0] != "_" and name not in TYPES}
    there = {name for name in dir(_weft) if name[0] != "_"}
    assert set(said) == there, f"only in one of the two: {sorted(set(said) ^ there)}"
    wrong, bare = [], []
    for name, has in said.items():
        thing = getattr(_weft, name)
        if not (inspect.isclass(thing) or callable(thing)):
            continue
        if not (thing.__doc__ or "").strip():
            bare.append(name)
        if not inspect.isclass(thing) or issubclass(thing, BaseException):
            continue
        plain = {member for member in own(thing) if not member.startswith("_")}
        declared = {member for member in has if not member.startswith("_")}
        wrong += [f"{name}.{member}" for member in plain ^ declared]
        for member in plain:
            of = inspect.getattr_static(thing, member)
            explains = callable(getattr(thing, member)) or inspect.isgetsetdescriptor(of)
            if explains and not (getattr(of, "__doc__", None) or "").strip():
                bare.append(f"{name}.{member}")
    assert not wrong, f"in the stub or in the module only: {sorted(wrong)}"
    assert not bare, f"without a word of what it is: {sorted(bare)}"
    missing = there - set(dir(weft))
    assert not missing, f"not given on by the package: {sorted(missing)}"
    print(f"{len(said)} names are as the stub says")


if __name__ == "__main__":
    main()
