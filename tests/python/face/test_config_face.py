"""braze.config and the environment."""

import json
import os
import subprocess
import sys

import pytest

import braze


def test_defaults():
    assert braze.config.recompile_limit == 8
    assert braze.config.cache_size_limit == 64
    assert braze.config.suppress_errors is False
    assert braze.config.fusion is True
    assert "recompile_limit = 8" in repr(braze.config)


def test_set_and_patch():
    with braze.config.patch(recompile_limit=3):
        assert braze.config.recompile_limit == 3
        with braze.config.patch({"recompile_limit": 4, "fusion": False}):
            assert braze.config.to_dict()["recompile_limit"] == 4
            assert braze.config.fusion is False
        assert braze.config.recompile_limit == 3
    assert braze.config.recompile_limit == 8
    before = braze.config.verify
    with pytest.raises(ZeroDivisionError), braze.config.patch(verify=not before):
        raise ZeroDivisionError
    assert braze.config.verify is before

    @braze.config.patch(recompile_limit=5)
    def inside():
        return braze.config.recompile_limit

    assert inside() == 5
    assert braze.config.recompile_limit == 8


def test_unknown_names_and_wrong_types():
    with pytest.raises(AttributeError, match="there are recompile_limit"):
        braze.config.recompile_limits = 3
    with pytest.raises(AttributeError, match="no setting 'speed'"):
        _ = braze.config.speed
    with pytest.raises(AttributeError, match="speed"), braze.config.patch(recompile_limit=2, speed=3):
        pass
    assert braze.config.recompile_limit == 8
    with pytest.raises(TypeError, match="of type int"):
        braze.config.recompile_limit = "8"
    with pytest.raises(AttributeError, match="resets"):
        del braze.config.fusion


def read(**environment):
    code = "import json, braze; print(json.dumps(braze.config.to_dict()))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr


def test_environment(tmp_path):
    values = read(BRAZE_RECOMPILE_LIMIT="2", BRAZE_FUSE="0", BRAZE_CACHE_DIR=str(tmp_path))
    assert values["recompile_limit"] == 2
    assert values["fusion"] is False
    assert values["cache_dir"] == str(tmp_path)
    assert "should be 0 or 1" in read(BRAZE_VERIFY="yes")


def test_cache_dir_in_code(tmp_path):
    code = """
import sys, torch, braze
braze.config.cache_dir = sys.argv[1]
braze.trace(lambda x: torch.relu(x * 3.5) - 1, (torch.randn(33),), check=False)
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert any(path.is_file() for path in tmp_path.rglob("*"))
