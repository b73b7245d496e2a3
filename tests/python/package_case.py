"""What the tests of the Python package share: how they run a program."""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent /
                       "acceptance"))
from clean_environment import environment  # noqa: E402
from torch_python import TorchPythonCase, torch_python  # noqa: E402

# How a program gets tjit, and torch.
FIRST = "import tjit, torch\n"
BEHIND = "import torch\ntorch.ones(3).add(1).sum().item()\nimport tjit\n"
NEVER = "import torch\n"
# A function of programs: body() raises an error of that kind, of one line, which
# has these words.
REFUSED = """
def refused(kind, body, *words):
    try:
        body()
    except kind as error:
        for word in words:
            assert word in str(error), (word, str(error))
        assert "\\n" not in str(error), str(error)
        return
    raise AssertionError((kind, words))
"""
# Another one, for which collections, dataclasses and struct are imported.
BITS = """
def bits(value):
    'What tells a result from each other one.'
    if isinstance(value, torch.Tensor):
        data = value.detach().contiguous().reshape(-1)
        data = data.view(torch.uint8).tolist() if data.numel() else []
        return (type(value), value.dtype, tuple(value.shape), value.stride(),
                value.requires_grad, data)
    if dataclasses.is_dataclass(value):
        return type(value), [bits(getattr(value, f.name))
                             for f in dataclasses.fields(value)]
    if isinstance(value, dict):
        return type(value), [(k, bits(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [bits(v) for v in value]
    if isinstance(value, float):
        return struct.pack('d', value)
    return type(value), value
"""


class PackageCase(TorchPythonCase):
    # The command tjit, the build folder and that of the sources.
    tjit = build = source = None

    @classmethod
    def read_arguments(cls, arguments):
        """TJIT_COMMAND TORCH_FOLDER BUILD_FOLDER SOURCE_FOLDER"""
        cls.tjit, torch_folder, cls.build, cls.source = (
            pathlib.Path(p).resolve() for p in arguments)
        TorchPythonCase.python = torch_python(torch_folder)

    def run_program(self, text, *, run=False, fails=False, package=None,
                    **extra):
        """Runs a program that can import the package; what it printed."""
        path = self.folder / "program.py"
        path.write_text(text)
        folder = self.build / "python" if package is None else package
        env = environment(PYTHONPATH=str(folder), TJIT_CACHE_DIR="off", **extra)
        command = [self.tjit, "run", "--"] if run else []
        done = subprocess.run(
            [str(c) for c in (*command, self.python, "-W",
                              "ignore:Failed to initialize NumPy", path)],
            env=env, text=True,
            capture_output=True, timeout=300, check=False)
        if not fails:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def out_of(self, text, **options):
        done = self.run_program(text, **options)
        self.assertEqual(done.stderr, "")
        return done.stdout
