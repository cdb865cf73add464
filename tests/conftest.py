"""Hooks of the whole test suite."""

import gc
import os
import shutil
import signal
import sys
import tempfile
import zlib

import hypothesis
import pytest
from calling import call_path
from filetests import pytest_addoption, pytest_collect_file
from gpus import gpu
from hypothesis import HealthCheck
from kept_code import keep_code
from kept_programs import keep_none
from slices import DAY, today

import staticflow as sf
from staticflow.config import config as settings

__all__ = ["call_path", "gpu", "pytest_addoption", "pytest_collect_file"]

GUARDED = "STATICFLOW_TEST_GUARDED"
"""The environment variable by which all memory is guarded in a run, see `guarded_memory`."""

CACHE = "STATICFLOW_CACHE_DIR"

KEPT = "STATICFLOW_TEST_KEPT"
"""The environment variable by which programs are kept on disk in a run, see `kept_programs`."""

_STATUS = pytest.StashKey[int]()

_THREADS = sf.get_num_threads()


def pytest_configure(config: pytest.Config) -> None:
    """The day is one for the whole run: workers inherit it, also those that start after midnight.
    Processes that tests start find staticflow from any folder, be it installed or not. They and
    the tests hear Ctrl-C, also where whoever began the run ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ[DAY] = today()
    os.environ["SCIPY_ARRAY_API"] = "1"  # which SciPy reads as it is imported
    _draw_by_the_day(config)
    if not hasattr(config, "workerinput"):  # the machine code that all processes of a run share
        os.environ[CACHE] = tempfile.mkdtemp(prefix="staticflow-tests-")
        config.add_cleanup(lambda folder=os.environ[CACHE]: shutil.rmtree(folder, True))
    settings.cache_dir = os.environ[CACHE]
    if hasattr(os, "getuid"):
        keep_code()
    if not os.environ.get(KEPT):
        keep_none()
    paths = os.environ.get("PYTHONPATH")
    own = (str(config.rootpath), str(config.rootpath / "tests" / "support"))
    os.environ["PYTHONPATH"] = os.pathsep.join((*own, *filter(None, [paths])))
    if os.environ.get(GUARDED):
        from guarded_memory import guard_memory

        guard_memory()


def _draw_by_the_day(config: pytest.Config) -> None:
    """What hypothesis draws is of the day, too, unless a seed is asked for, and no example fails
    since the machine is busy."""
    if config.getoption("--hypothesis-seed", None) is None:
        config.option.hypothesis_seed = str(zlib.crc32(today().encode()))
    hypothesis.settings.register_profile(
        "steady",
        parent=hypothesis.settings.get_profile("default"),  # also where CI has another
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("steady")


def pytest_report_header() -> str:
    """The line above the tests that says which day's share of the generated checks runs."""
    return f"generated checks of {DAY}={today()}"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What a test draws is its own on each day, and it begins with as many threads as the first,
    whichever tests ran before it in the process."""
    sf.manual_seed(zlib.crc32(f"{today()} {item.nodeid}".encode()))
    if sf.get_num_threads() != _THREADS:
        sf.set_num_threads(_THREADS)


@pytest.fixture(scope="session", autouse=True)
def prepare_fast_path() -> None:
    """Tests are of the fast path, whichever of them run before; `test_first_operations` is of those
    that run without."""
    from staticflow.eager.mode import EAGER

    EAGER.prepare()


@pytest.fixture(scope="module", autouse=True)
def forget_what_is_old() -> None:
    """What the files before left alive is not looked through by each pass of the collector: after
    ten thousand tests a pass takes a second, and some tests ask for hundreds."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Guarded memory is gone before the interpreter has freed all of it."""
    if os.environ.get(GUARDED):
        sys.stdout.flush()
        os._exit(int(config.stash[_STATUS]))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    session.config.stash[_STATUS] = int(exitstatus)
