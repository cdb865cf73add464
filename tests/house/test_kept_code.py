"""What LLVM has made of a text is kept from run to run, by all that decides it."""

import tempfile

import kept_code
import pytest

from staticflow.runtime import compiler


@pytest.fixture
def made(monkeypatch, tmp_path):
    """The texts that are compiled, of runs whose folder is new."""
    asked = []
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(compiler, "_emit", lambda text, opt: asked.append((text, opt)) or b"code")
    return asked


def test_a_text_is_compiled_once(made, monkeypatch):
    emit = compiler._emit
    for _ in range(2):  # runs
        monkeypatch.setattr(compiler, "_emit", emit)
        kept_code.keep_code()
        for text, opt in (("a", 3), ("a", 0), ("b", 3), ("a", 3)):
            assert compiler._emit(text, opt) == b"code"
    assert made == [("a", 3), ("a", 0), ("b", 3)]


def test_another_processor_or_question_compiles_anew(made, monkeypatch):
    kept_code.keep_code()
    for parts in (("object", "avx2"), ("object", "avx512")):
        monkeypatch.setattr(kept_code, "machine_parts", lambda parts=parts: parts)
        compiler._emit("a", 3)
    assert len(made) == 2


def test_a_folder_that_others_can_write_to_is_refused(made, tmp_path):
    kept_code.keep_code()
    (folder,) = tmp_path.iterdir()
    folder.chmod(0o777)
    with pytest.raises(PermissionError, match="written to by others"):
        kept_code.keep_code()
    folder.chmod(0o700)
