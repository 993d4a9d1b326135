"""Builds the wheel: the programs of the release build first, then, by maturin, the extension module
and the package around it. pip calls these functions (PEP 517)."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import maturin

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "crates/py/python/weft/_bin"
PACKAGES = ["weft-cli", "weft-ofi", "weft-mpi", "weft-calls"]
# As a build and as an installation name them.
FILES = {
    "weft": "weft",
    "libweft_fi.so": "libweft-fi.so",
    "libweft_mpi.so": "libweft-mpi.so",
    "libweft_calls.so": "libweft-calls.so",
}


def build_programs():
    """Puts the command, and beside it the libraries that it looks for there, into the package.
    Gives their files."""
    packages = [word for package in PACKAGES for word in ("-p", package)]
    subprocess.run(["cargo", "build", "--release", *packages], cwd=ROOT, check=True)
    metadata = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    told = json.loads(subprocess.run(metadata, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    release = Path(told["target_directory"]) / "release"
    shutil.rmtree(PROGRAMS, ignore_errors=True)
    PROGRAMS.mkdir(parents=True)
    files = [Path(shutil.copy(release / built, PROGRAMS / name)) for built, name in FILES.items()]
    strip = shutil.which("strip")
    if strip:
        # Names stay, so that a panic says where it was; lines would make the wheel three times as
        # long.
        subprocess.run([strip, "--strip-debug", *files], check=True)
    return files


def glibc_of(files):
    """The newest symbols of glibc that files ask for: 35 for 2.35; None without glibc."""
    asked = re.compile(rb"GLIBC_2\.(\d+)\b")
    found = [int(minor) for file in files for minor in asked.findall(file.read_bytes())]
    return max(found, default=None)


def settings(given):
    """Tells maturin which systems the programs run on. It looks at the extension module only, and
    fails if that asks for more."""
    files = build_programs()
    given = dict(given or {})
    if "build-args" in given or "MATURIN_PEP517_ARGS" in os.environ:
        return given
    minor = glibc_of(files)
    given["build-args"] = "" if minor is None else f"--compatibility manylinux_2_{minor}"
    return given


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """The wheel."""
    return maturin.build_wheel(wheel_directory, settings(config_settings), metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """A wheel that points here: what changes in `crates/py/python` needs no other build."""
    return maturin.build_editable(wheel_directory, settings(config_settings), metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    """There is none: the wheel has programs of other crates, which an archive of this one lacks."""
    raise RuntimeError("weft has no source archive: build the wheel, `pip wheel --no-deps .`")


get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
get_requires_for_build_editable = maturin.get_requires_for_build_editable
prepare_metadata_for_build_wheel = maturin.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = maturin.prepare_metadata_for_build_editable
