"""Finds the Python interpreter whose torch tjit is built for."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

from clean_environment import environment


def torch_python(torch):
    """The interpreter whose torch is the folder `torch`, or None."""
    beside = [parent / "bin" / "python3" for parent in torch.parents]
    for python in [*(p for p in beside if p.exists()), sys.executable]:
        done = subprocess.run([str(python), "-W", "ignore", "-c",
                               "import torch; print(torch.__path__[0])"],
                              env=environment(), text=True,
                              capture_output=True, timeout=120, check=False)
        if done.returncode == 0 and (
                pathlib.Path(done.stdout.strip()).resolve() == torch):
            return python
    return None


class TorchPythonCase(unittest.TestCase):
    """Tests of Python programs, with a folder of their own each. `python` is set
    by who runs them."""
    python = None

    def setUp(self):
        if self.python is None:
            self.skipTest("no Python interpreter imports the torch of tjit")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
