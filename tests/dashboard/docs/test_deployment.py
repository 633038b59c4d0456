"""The snippets of the deployment page are configurations that the proxies accept."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT

PAGE = CHECKOUT / "dashboard" / "docs" / "deployment.md"
BLOCK = r"^```{}\n(.*?)^```$"


def snippet(language: str) -> str:
    blocks = re.findall(BLOCK.format(language), PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    return str(blocks[0])


@pytest.mark.parametrize("language", ["nginx", "caddy"])
def test_a_snippet_has_its_braces_and_names_the_port_of_serve(language: str) -> None:
    text = snippet(language)
    assert text.count("{") == text.count("}")
    assert "127.0.0.1:8000" in text


@pytest.mark.skipif(not (shutil.which("nginx") and shutil.which("openssl")), reason="nginx and openssl are not here")
def test_nginx_accepts_its_snippet(tmp_path: Path) -> None:
    key, certificate = tmp_path / "counterfoil.key", tmp_path / "counterfoil.pem"
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    subprocess.run([*request, "-keyout", key, "-out", certificate, "-subj", "/CN=x"], check=True, capture_output=True)
    server = snippet("nginx").replace("/etc/ssl/counterfoil", str(tmp_path / "counterfoil"))
    config = tmp_path / "nginx.conf"
    config.write_text(f"pid {tmp_path}/pid;\nerror_log {tmp_path}/log;\nevents {{}}\nhttp {{\n{server}}}\n")
    done = subprocess.run(["nginx", "-t", "-p", tmp_path, "-c", config], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not shutil.which("caddy"), reason="caddy is not here")
def test_caddy_accepts_its_snippet(tmp_path: Path) -> None:
    config = tmp_path / "Caddyfile"
    config.write_text(snippet("caddy"))
    done = subprocess.run(
        ["caddy", "validate", "--adapter", "caddyfile", "--config", config], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
