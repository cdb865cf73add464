"""The wheel and the source distribution: what is in them, and that what is installed from them runs."""

from __future__ import annotations

import email.message
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FULL_NAME = f"{PROJECT['name']}-{PROJECT['version']}"
PACKAGE = {
    file.relative_to(ROOT).as_posix()
    for file in (ROOT / "staticflow").rglob("*")
    if file.is_file() and "__pycache__" not in file.parts
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of both, built without a network of a copy of the checkout: the wheel is built of
    the source distribution, so that nothing is missing there."""
    pytest.importorskip("build")
    copy = tmp_path_factory.mktemp("checkout")
    (copy / "docs").mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "docs/package.md"):
        shutil.copy(ROOT / name, copy / name)
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "staticflow", copy / "staticflow", ignore=without)
    shutil.copytree(ROOT / "tests" / "house", copy / "tests", ignore=without)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(copy / "dist"), str(copy)],
        capture_output=True, text=True, check=False, env=environment, cwd=copy,
    )  # fmt: skip
    assert not done.returncode, done.stdout + done.stderr
    assert "deprecated" not in done.stdout.lower() + done.stderr.lower()
    return copy / "dist"


def test_the_wheel_has_the_package_and_the_license_alone(built: Path) -> None:
    with zipfile.ZipFile(built / f"{FULL_NAME}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
        license_file = wheel.read(f"{FULL_NAME}.dist-info/licenses/LICENSE").decode()
        metadata = email.message_from_bytes(wheel.read(f"{FULL_NAME}.dist-info/METADATA"))
    beside = {f"{FULL_NAME}.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD",
              "entry_points.txt", "top_level.txt", "licenses/LICENSE")}  # fmt: skip
    assert names == PACKAGE | beside
    assert "staticflow/py.typed" in names
    assert license_file == (ROOT / "LICENSE").read_text()
    assert "Version 2.0, January 2004" in license_file
    check_metadata(metadata)


def check_metadata(metadata: email.message.Message) -> None:
    assert (metadata["Name"], metadata["Version"]) == (PROJECT["name"], PROJECT["version"])
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["License-File"] == "LICENSE"
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload() == (ROOT / "docs" / "package.md").read_text()
    assert "](" not in metadata.get_payload(), "a link that the page of an index cannot follow"
    assert metadata.get_all("Classifier") == PROJECT["classifiers"]
    assert set(metadata.get_all("Provides-Extra") or ()) == set(PROJECT["optional-dependencies"])
    wanted = metadata.get_all("Requires-Dist") or []
    assert len([w for w in wanted if "extra ==" not in w]) == len(PROJECT["dependencies"])


def test_the_source_distribution_has_the_package_and_what_builds_it(built: Path) -> None:
    with tarfile.open(built / f"{FULL_NAME}.tar.gz") as archive:
        names = {m.name.removeprefix(f"{FULL_NAME}/") for m in archive.getmembers() if m.isfile()}
    others = {n for n in names - PACKAGE if not n.startswith("staticflow.egg-info/")}
    assert names >= PACKAGE
    assert others == {
        "LICENSE",
        "MANIFEST.in",
        "PKG-INFO",
        "README.md",
        "docs/package.md",
        "pyproject.toml",
        "setup.cfg",
    }


def test_what_is_installed_runs(built: Path, tmp_path: Path) -> None:
    wheel = built / f"{FULL_NAME}-py3-none-any.whl"
    target, environment = str(tmp_path / "installed"), {**os.environ, "PYTHONPATH": ""}
    install = ["-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run(
        [sys.executable, *install, "--target", target, str(wheel)], check=True, env=environment
    )
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import staticflow as sf\n"
        "import importlib.metadata as m\n"
        "d = m.distribution('staticflow')\n"
        "x = sf.placeholder((None,)); print(sf.compile([x], x.sum())(sf.ones(3)).item())\n"
        "print(sf.__file__.startswith(sys.argv[1]), d.version == sf.__version__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, target],
        capture_output=True, text=True, check=True, env=environment, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout.split() == ["3.0", "True", "True"]
