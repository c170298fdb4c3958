"""
Builds the wheel of package attn: PEP 517 and 660 by Python's own library, so that nothing is downloaded. The library and the
program `study` come from the tree above, by make and a C compiler, and lie in the wheel.

    pip install ./python            or  pip wheel --no-deps ./python,  pip install -e ./python
"""

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent
if not (TREE / "attn.h").is_file():
    sys.exit(f"{TREE}: here are no sources of attn; pip before 21.3 copies a folder away from what lies about it: "
             "take a later one")
VERSION = re.search(r'#define ATTN_VERSION "(.*)"', (TREE / "attn.h").read_text()).group(1)
TAG = "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())
METADATA = f"""Metadata-Version: 2.1
Name: attn
Version: {VERSION}
Summary: A tiny GPT-style inference engine with everything inside in view: GGUF and Hugging Face models, hooks, NumPy
License: MIT
Requires-Python: >=3.9
Requires-Dist: numpy
"""
WHEEL = f"Wheel-Version: 1.0\nGenerator: attn\nRoot-Is-Purelib: false\nTag: {TAG}\n"


def make(folder):
    """
    Library and program: those that ATTN_LIBRARY and ATTN_STUDY name, else built in the tree's own build folder, or in `folder`
    where the tree cannot be written to.
    """
    if "ATTN_LIBRARY" in os.environ and "ATTN_STUDY" in os.environ:
        named = [pathlib.Path(os.environ[variable]) for variable in ("ATTN_LIBRARY", "ATTN_STUDY")]
        return dict(zip(("attn/libattn.so", "attn/study"), named))
    build = TREE / "build" if os.access(TREE, os.W_OK) else pathlib.Path(folder)
    study = TREE / "study" if os.access(TREE, os.W_OK) else build / "study"
    shared = build / f"libattn.so.{VERSION}"
    # Words for a make above are not for this one.
    clean = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    build, study, shared = (os.path.relpath(path, TREE) for path in (build, study, shared))
    try:
        subprocess.run(["make", "-C", TREE, f"BUILD={build}", f"STUDY={study}", shared, study], env=clean, check=True,
                       stdout=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{TREE}: cannot be built, which needs make and a C compiler: {error}")
    return {"attn/libattn.so": TREE / shared, "attn/study": TREE / study}


def stripped(path, folder):
    """The file's bytes, without what debuggers read, where there is a `strip`."""
    to = pathlib.Path(folder) / f"stripped-{path.name}"
    try:
        subprocess.run(["strip", "--strip-debug", "-o", to, path], check=True, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return path.read_bytes()
    return to.read_bytes()


def write(folder, files):
    """The wheel: files of name to bytes or to the path of a file. Returns its name."""
    info = f"attn-{VERSION}.dist-info"
    name = f"attn-{VERSION}-{TAG}.whl"
    files = {**files, f"{info}/METADATA": METADATA.encode(), f"{info}/WHEEL": WHEEL.encode()}
    record = ""
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        def add(path, data, mode):
            entry = zipfile.ZipInfo(path)  # of 1980: the same tree gives the same bytes
            entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)

        for path, source in files.items():
            data = source if isinstance(source, bytes) else source.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(data)}\n"
            add(path, data, 0o755 if path == "attn/study" else 0o644)
        add(f"{info}/RECORD", (record + f"{info}/RECORD,,\n").encode(), 0o644)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    package = {f"attn/{path.name}": path for path in sorted((HERE / "attn").iterdir()) if path.suffix in (".py", ".typed")}
    with tempfile.TemporaryDirectory() as folder:
        built = {name: stripped(path, folder) for name, path in make(folder).items()}
        return write(wheel_directory, {**package, **built})


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """A wheel that only points here, where the package finds what `make` built."""
    if not os.access(TREE, os.W_OK):
        sys.exit(f"{TREE}: cannot be written to, as an editable installation must be")
    make(None)
    return write(wheel_directory, {"attn.pth": f"{HERE}\n".encode()})


def build_sdist(sdist_directory, config_settings=None):
    sys.exit("attn has no source distribution of its own: its sources are the whole tree; make a wheel (pip wheel ./python)")
