"""The house: what `import andante` may load, who may import whom, what may stand in a file, what is shipped."""

from __future__ import annotations

import ast
import asyncio
import importlib.metadata
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import anyio.lowlevel
import pytest

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "andante"
SOURCES = sorted(SRC.rglob("*.py"))

# What `import andante` must not load: clients, models of data, metrics, a second event loop.
HEAVY = {
    "aiolimiter",
    "cupy",
    "httpx",
    "numpy",
    "openai",
    "prometheus_client",
    "pydantic",
    "redis",
    "structlog",
    "trio",
}

# Every third-party package comes in by its own door: the files, or folders ("/"), that may import it. No file of
# floors 1 to 3 stands here but those that are made around a package.
DOORS = {
    "aiolimiter": ("simulate/policies.py",),  # the gate takes whatever looks like an AsyncLimiter, and imports nothing
    "anyio": (
        "signals/sampler.py",
        "wake.py",
        "admission.py",
        "pull.py",
        "testing/",
        "calibrate/drive.py",
        "simulate/",
        "cli/",
        "wrappers/",
    ),
    "cupy": ("signals/gpu.py",),
    "httpx": ("calibrate/endpoint.py",),
    "prometheus_client": ("telemetry/prometheus.py", "signals/metric_page.py"),  # one writes pages, one reads them
    "psutil": ("signals/host.py",),
    "pynvml": ("signals/nvml.py",),
    "structlog": ("telemetry/structlog.py",),
    "trio": ("signals/sampler.py", "wake.py", "testing/virtual_time.py"),
}


def imports(file: Path) -> list[tuple[str, str | None]]:
    """What `file` imports, anywhere in it, as (module, name); what stands under `if TYPE_CHECKING` is left out."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    found: list[tuple[str, str | None]] = []
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [("." * node.level + (node.module or ""), alias.name) for alias in node.names]
    return found


def loaded_by(statement: str) -> set[str]:
    """The top-level packages that a fresh interpreter has loaded after `statement`, and had not before."""
    code = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def project_files() -> list[Path]:
    """Every file that is in the repository, or would be after `git add`."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    return [path for name in listed.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


def test_import_is_light() -> None:
    """`import andante` loads no optional package, no client and no second event loop."""
    loaded = loaded_by("import andante")
    assert "andante" in loaded
    assert not loaded & HEAVY
    assert loaded_by("import structlog") & HEAVY, "this test could not fail"


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.relative_to(SRC).as_posix())
def test_doors(file: Path) -> None:
    """Each third-party package is imported by the files made for it, and floors 1 to 3 import none.

    Inside the house nobody uses the front door: `from andante import Cost` would hide who needs whom.
    """
    place = file.relative_to(SRC).as_posix()
    for module, name in imports(file):
        assert not module.startswith("."), f"{place}: imports are absolute, so that one can search for them"
        package = module.partition(".")[0]
        if package == "andante":
            through_front_door = module == "andante" and (name is None or find_spec(f"andante.{name}") is None)
            assert not through_front_door, f"{place} imports {name or 'andante'} from andante, not from its own module"
        elif package not in sys.stdlib_module_names:
            doors = DOORS.get(package, ())
            allowed = any(place == door or (door.endswith("/") and place.startswith(door)) for door in doors)
            assert allowed, f"{place} imports {package}; may do so: {', '.join(doors) or 'no file'}"


def test_import_contract() -> None:
    """Imports go down only, and never in circles (pyproject.toml, [tool.importlinter])."""
    tool = Path(sys.executable).with_name("lint-imports")
    if not tool.exists():
        pytest.skip("import-linter is not installed here; make check runs it")
    done = subprocess.run([tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_machine_in_a_file() -> None:
    """No file names a folder of somebody's machine."""
    folder = re.compile(rb"(?<![\w.:/<}])/(?:home|root|Users|work|tmp|opt|mnt|srv)/\w+")
    assert folder.search(b"see /" + b"tmp/x")
    assert not folder.search(b"https://example.org/" + b"tmp/x")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {hit.decode()}"
        for path in project_files()
        for number, line in enumerate(path.read_bytes().splitlines(), start=1)
        for hit in folder.findall(line)
    ]
    assert not found


def test_lock_names_the_public_index_only() -> None:
    """uv.lock works everywhere: a mirror that one machine used must not stand in it."""
    hosts = set(re.findall(r"\w+://([^/\"]+)", (ROOT / "uv.lock").read_text(encoding="utf-8")))
    assert hosts == {"pypi.org", "files.pythonhosted.org"}


def test_wheel(tmp_path: Path) -> None:
    """The wheel holds the whole package with its data, py.typed, the licence and the command, and nothing else."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed here")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (command_file,) = [name for name in names if name.endswith(".dist-info/entry_points.txt")]
        assert "andante = andante.cli:main" in archive.read(command_file).decode()
    package = {name for name in names if not name.partition("/")[0].endswith(".dist-info")}
    files = {path for path in SRC.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert package == {path.relative_to(SRC.parent).as_posix() for path in files}
    assert "andante/py.typed" in package
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_only_anyio_is_required() -> None:
    """Whoever installs andante gets anyio with it, and nothing else."""
    try:
        required = importlib.metadata.requires("andante") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("andante is not installed here")
    assert [line for line in required if "extra ==" not in line] == ["anyio>=4.5"]


def running_loop() -> str:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return "trio"
    return "asyncio"


@pytest.mark.anyio
async def test_anyio_tests_run_on_both_loops(anyio_backend: str) -> None:
    """A test marked `anyio` runs on the loop that the report names."""
    await anyio.lowlevel.checkpoint()
    assert running_loop() == anyio_backend


@pytest.mark.asyncio
async def test_asyncio_tests_run_on_asyncio_alone() -> None:
    """A test marked `asyncio` runs once: the two plugins leave each other's tests alone."""
    await asyncio.sleep(0)
    assert running_loop() == "asyncio"
