"""The Python package: `import tjit` and what it offers.

What it proves: a training loop and an inference loop are replayed by more than
85 % under tjit.enable(), with the bits of a run without tjit, on the main thread
and on another one; with tjit imported before torch, behind it, and under
`tjit run`. Every reader of bytes that Python has sees complete values. Wrong
options, wrong types and another libtorch are errors that say what to do. The
stubs name what the module has.

Usage: package_test.py TJIT_COMMAND TORCH_FOLDER BUILD_FOLDER SOURCE_FOLDER
    [unittest arguments]
"""
import ast
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from package_case import BEHIND, FIRST, NEVER, REFUSED, PackageCase

# Prints hashes of what it computed, and lines of JSON.
LOOPS = """
import hashlib, json, threading
torch.set_num_threads(1)
torch.backends.mha.set_fastpath_enabled(False)  # else a layer is one op

def digest(tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(repr(t.tolist()).encode())
    return h.hexdigest()

def train():
    torch.manual_seed(1)
    x, y = torch.randn(64, 16), torch.randn(64, 4)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1),
        torch.nn.Linear(32, 4))
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    losses = []
    for _ in range(STEPS):
        sgd.zero_grad()
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        sgd.step()
        losses.append(loss.item().hex())
    return digest(model.parameters()) + " " + losses[-1]

def infer():
    torch.manual_seed(2)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    total, seen = torch.zeros(4, 8, 16), []
    with torch.inference_mode():
        for i in range(STEPS):
            out = layer(torch.full((4, 8, 16), 0.01 * i) + total)
            total = total * 0.5 + torch.tanh(out)
            seen.append(total[0, 0, 0].item().hex())
    return digest([total]) + " " + seen[-1]
"""

RUN_LOOPS = LOOPS + """
def everything():
    print(train())
    print(infer())

everything()
thread = threading.Thread(target=everything)
thread.start()
thread.join()
"""


class LoopsTest(PackageCase):
    """Training and inference, however tjit gets into the process."""
    STEPS = "STEPS = 200\n"
    EAGER = {}
    # hot_threshold is small: what is counted is replay, not waiting for it.
    ON = "assert tjit.enable(hot_threshold=3)\n"
    SAY = "tjit.sync()\nprint(json.dumps(tjit.stats()))\n"

    def eager(self, steps):
        """What the loops print without tjit; they run once."""
        if steps not in self.EAGER:
            self.EAGER[steps] = self.out_of(NEVER + steps + RUN_LOOPS)
        return self.EAGER[steps]

    def expect_replayed(self, imports, **options):
        lines = self.out_of(imports + self.ON + self.STEPS + RUN_LOOPS + self.SAY,
                            **options).splitlines(keepends=True)
        self.assertEqual("".join(lines[:-1]), self.eager(self.STEPS))
        did = json.loads(lines[-1])
        self.assertGreater(did["ops_replayed"], 0.85 * did["ops_seen"], did)
        # All of this is interposed: backward passes, calls without dispatcher.
        self.assertGreater(did["backwards_own"], 200, did)
        self.assertGreater(did["ops_direct"], 0.2 * did["ops_seen"], did)
        return did

    def test_tjit_first(self):
        self.expect_replayed(FIRST)

    def test_torch_first(self):
        self.expect_replayed(BEHIND)

    def test_under_tjit_run(self):
        self.expect_replayed(FIRST, run=True)
        self.expect_replayed(BEHIND, run=True)

    def test_on_from_outside(self):
        lines = self.out_of(FIRST + self.STEPS + RUN_LOOPS + self.SAY,
                            TJIT_AUTO_COMPILE="1").splitlines()
        did = json.loads(lines[-1])
        self.assertGreater(did["ops_replayed"], 0.5 * did["ops_seen"], did)

    def test_modes_find_nothing(self):
        """Eager runs beside what is replayed, and every bit is compared."""
        for imports in (FIRST, BEHIND):
            did = self.expect_same_under(imports, shadow=True)
            self.assertGreater(did["shadow_checks"], 500, did)
            self.assertEqual(did["shadow_mismatches"], 0, did)
            did = self.expect_same_under(imports, stress="late")
            self.assertGreater(did["ops_late"], 1000, did)

    def expect_same_under(self, imports, **options):
        steps = "STEPS = 30\n"
        on = f"assert tjit.enable(**{options!r})\n"
        lines = self.out_of(imports + on + steps + RUN_LOOPS +
                            self.SAY).splitlines(keepends=True)
        self.assertEqual("".join(lines[:-1]), self.eager(steps))
        return json.loads(lines[-1])


# Each reader gets a value that is pending.
READERS = """
import copy, ctypes, io, json, pickle, tempfile
torch.set_num_threads(1)
assert tjit.enable(hot_threshold=2, backend="replay")
x = torch.linspace(0, 1, 48)

def step():
    y = (x * 1.25 + 0.5).tanh()
    return (y - x) * 3

with tjit.Pause():
    right = step()
    bytes_of = ctypes.string_at(right.data_ptr(), 192)
    values = right.tolist()
for _ in range(20):
    step()
    tjit.mark_step()

def saved(t):
    file = io.BytesIO()
    torch.save(t, file)
    file.seek(0)
    return torch.load(file).tolist()

def traced(t):
    return torch.jit.trace(lambda a: a + 0, (t,))(t).tolist()

readers = {
    "tolist": lambda t: t.tolist() == values,
    "item": lambda t: t[7].item() == values[7],
    "repr": lambda t: repr(t) == repr(right),
    "data_ptr": lambda t: ctypes.string_at(t.data_ptr(), 192) == bytes_of,
    "storage_ptr": lambda t: ctypes.string_at(
        t.untyped_storage().data_ptr(), 192) == bytes_of,
    "save": lambda t: saved(t) == values,
    "pickle": lambda t: pickle.loads(pickle.dumps(t)).tolist() == values,
    "deepcopy": lambda t: copy.deepcopy(t).tolist() == values,
    "equal": lambda t: torch.equal(t, right),
    "iterate": lambda t: [float(v) for v in t] == values,
    "bool": lambda t: bool(t[47] == right[47]),
    "dlpack": lambda t: torch.utils.dlpack.from_dlpack(
        torch.utils.dlpack.to_dlpack(t)).tolist() == values,
    "share": lambda t: t.share_memory_().tolist() == values,
    "index": lambda t: x[(t > 1e9).long()].tolist() == [0.0] * 48,
    "jit": lambda t: traced(t) == values,
    "tensor": lambda t: torch.tensor(t.tolist()).tolist() == values,
}
wrong, pending = [], 0
for name, read in readers.items():
    for _ in range(3):
        step()
        tjit.mark_step()
    y = step()
    did = tjit.stats()
    pending += did["ops_deferred"] > did["ops_replayed"] + did["ops_drained"]
    if not read(y):
        wrong.append(name)
print(json.dumps([wrong, pending, len(readers)]))
"""


# What is looked at in a training loop, and whether that may keep a pointer.
LOOKS = '''
import copy, ctypes, io, json, pickle
assert tjit.enable(hot_threshold=2)
net = torch.nn.Linear(8, 8)
sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
x = torch.linspace(-1, 1, 32).reshape(4, 8)

def steps(count):
    before = tjit.stats()
    for _ in range(count):
        sgd.zero_grad()
        net(x).square().mean().backward()
        sgd.step()
        tjit.mark_step()
    tjit.sync()
    seen, replayed = (tjit.stats()[name] - before[name]
                      for name in ("ops_seen", "ops_replayed"))
    return replayed / seen

def legacy():
    torch.save(net.state_dict(), io.BytesIO(),
               _use_new_zipfile_serialization=False)

def pointer():
    with tjit.Reading():
        return ctypes.string_at(net.weight.data_ptr(), 256)

@tjit.Reading()
def decorated():
    return ctypes.string_at(net.bias.data_ptr(), 32)

def kept():
    net.weight.data_ptr()

steps(100)
def after(look):
    look()
    return tjit.stats()["blocks_exposed"], steps(100)

print(json.dumps([after(look) for look in (
    lambda: torch.save(net.state_dict(), io.BytesIO()),
    lambda: torch.save({"net": net.state_dict(), "sgd": sgd.state_dict()},
                       io.BytesIO()),
    legacy, lambda: pickle.dumps(net), pointer, decorated, kept)]))
'''


class ReadersTest(PackageCase):
    def test_a_checkpoint_changes_nothing(self):
        for imports in (FIRST, BEHIND):
            *readers, kept = json.loads(
                self.out_of(imports + LOOKS).splitlines()[-1])
            for exposed, share in readers:
                self.assertEqual(exposed, 0, readers)
                self.assertGreater(share, 0.95, readers)
            self.assertEqual(kept[0], 1)
            self.assertLess(kept[1], 0.95)

    def expect_right(self, imports, **options):
        done = self.run_program(imports + READERS, **options)
        wrong, pending, count = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(wrong, [])
        self.assertGreater(pending, 0.7 * count)

    def test_tjit_first(self):
        self.expect_right(FIRST)

    def test_torch_first(self):
        self.expect_right(BEHIND)

    def test_under_tjit_run(self):
        self.expect_right(FIRST, run=True)


API = FIRST + """
import pathlib, sys, tempfile, threading
torch.set_num_threads(1)
x = torch.ones(32)

def loop(n=30):
    y = x
    for _ in range(n):
        y = ((y * 1.5).tanh() + 0.25) * 0.5
        tjit.mark_step()
    tjit.sync()
    return y.tolist()

def did(body):
    before = tjit.stats()
    body()
    after = tjit.stats()
    return {k: after[k] - before[k] for k in ("ops_seen", "ops_eager",
                                              "ops_replayed")}

eager = loop()
assert tjit.version() == tjit.__version__, tjit.version()
assert not tjit.is_enabled()
assert tjit.stats()["ops_seen"] == 0

# A scope of this thread.
with tjit.AutoCompile(hot_threshold=3) as scope:
    assert tjit.is_enabled()
    elsewhere = []
    thread = threading.Thread(target=lambda: elsewhere.append(did(loop)))
    thread.start(); thread.join()
    assert elsewhere[0]["ops_seen"] == 0, elsewhere
    assert did(loop)["ops_replayed"] > 60
    with scope:
        assert tjit.is_enabled()
assert not tjit.is_enabled()
assert did(loop)["ops_seen"] == 0

# As a decorator, and of the process.
@tjit.AutoCompile("process", hot_threshold=3)
def compiled():
    "A name and a text."
    thread = threading.Thread(target=loop)
    thread.start(); thread.join()
    return loop()
assert compiled.__name__ == "compiled" and compiled.__doc__
assert did(compiled)["ops_replayed"] > 150
assert not tjit.is_enabled()

assert tjit.enable(hot_threshold=3)
assert loop() == eager
with tjit.Pause():
    assert not tjit.is_enabled()
    with tjit.Pause():
        done = did(loop)
    assert not tjit.is_enabled()
assert done["ops_replayed"] == 0 and done["ops_eager"] == 120, done
@tjit.Pause()
def paused(depth=2):
    assert not tjit.is_enabled()
    return paused(depth - 1) if depth else did(loop)
assert paused()["ops_replayed"] == 0
try:
    with tjit.Pause():
        raise KeyError("out")
except KeyError:
    pass
assert tjit.is_enabled()
assert did(loop)["ops_eager"] == 0

# A profile.
with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder) / "loop.profile"
    assert tjit.save_profile(file) >= 1
    tjit.clear()
    assert tjit.stats()["trace_steps"] == 0
    assert tjit.prewarm(str(file)) >= 1
    try:
        tjit.prewarm(file.with_name("none"))
        raise AssertionError("a file that is not there was read")
    except RuntimeError as error:
        assert "none" in str(error) and "\\n" not in str(error), error
assert tjit.wait_until_compiled() is True
assert tjit.wait_until_compiled(0) is True
loop()
tjit.mark_opaque("aten::tanh")
loop()
assert did(loop)["ops_eager"] == 30
assert "ops" in tjit.explain() and len(tjit.explain(verbose=True)) > 100
tjit.reset_memory_peak()

# After the warm-up.
def other(n=30):
    y = x
    for _ in range(n):
        y = (y - 0.125).sigmoid() * 0.75
        tjit.mark_step()
    tjit.sync()
    return y.tolist()

with tjit.Pause():
    right = other()
tjit.set_stance("eager_on_recompile")
assert did(loop)["ops_replayed"] == 90
assert other() == right and did(other)["ops_replayed"] == 0
assert tjit.stats()["recordings_refused"] > 0
tjit.set_stance("fail_on_recompile")
loop()
try:
    other()
    raise AssertionError("nothing was refused")
except RuntimeError as error:
    assert "fail_on_recompile" in str(error), error
tjit.set_stance("default")
other()
assert did(other)["ops_replayed"] > 60
tjit.disable()
assert not tjit.is_enabled()
print("ok")
"""

ERRORS = FIRST + REFUSED + """
E = tjit.enable
refused(TypeError, lambda: E(hot_treshold=3), "hot_treshold",
        "did you mean hot_threshold?", "There are backend, cache_dir")
refused(TypeError, lambda: E(zzz=3), "no option zzz; There are")
refused(TypeError, lambda: E(hot_threshold="3"), "hot_threshold must be a int",
        "'3'", "str")
refused(TypeError, lambda: E(hot_threshold=True), "is True, a bool")
refused(TypeError, lambda: E(hot_threshold=3.0), "3.0")
refused(TypeError, lambda: E(shadow=1), "shadow must be a bool")
refused(TypeError, lambda: E(cache_dir=b"x"), "cache_dir must be a str")
refused(TypeError, lambda: E(3))
refused(ValueError, lambda: E(hot_threshold=1), "hot_threshold is 1",
        "2 to 1000000")
refused(ValueError, lambda: E(hot_threshold=1 << 70), "whole number")
refused(ValueError, lambda: E(backend="lvm"), "lvm", "replay, interpreter, llvm")
refused(ValueError, lambda: E(stress="late,no"), "no", "shuffle")
refused(ValueError, lambda: E(stress="hide,late"), "cannot be combined")
refused(ValueError, lambda: E(cache_dir="a\\0b"), "zero byte")
refused(ValueError, lambda: tjit.AutoCompile("cpu"), "'thread' and 'process'")
refused(TypeError, lambda: tjit.AutoCompile(hot=3), "hot")
def entered(scope):
    with scope:
        pass
refused(ValueError, lambda: entered(tjit.AutoCompile(hot_threshold=1)),
        "hot_threshold is 1")
refused(ValueError, lambda: tjit.mark_opaque(""), "name is empty")
refused(TypeError, lambda: tjit.mark_opaque(3), "name must be a str")
refused(TypeError, lambda: tjit.prewarm(3), "file must be a str")
refused(ValueError, lambda: tjit.set_stance("never"), "never",
        "default, eager_on_recompile")
refused(TypeError, lambda: tjit.set_stance(1), "stance must be a str")
refused(RuntimeError, lambda: tjit.save_profile("/none/there"), "/none/there")
refused(ValueError, lambda: tjit.write_sequences("d", "fast"), "all, slow")
refused(TypeError, lambda: tjit.write_sequences(3), "folder must be a str")
refused(TypeError, lambda: tjit.write_sequences("d", 3), "which must be a str")
refused(TypeError, lambda: tjit.wait_until_compiled("1"), "seconds")
refused(ValueError, lambda: tjit.wait_until_compiled(float("nan")), "number")
assert tjit.wait_until_compiled(float("inf")) and tjit.wait_until_compiled(-1)
def generator():
    yield 1
async def coroutine():
    pass
refused(TypeError, lambda: tjit.Pause()(generator), "with")
refused(TypeError, lambda: tjit.AutoCompile()(coroutine), "with")
import threading
pause, errors = tjit.Pause(), []
pause.__enter__()
def leave():
    refused(RuntimeError, lambda: pause.__exit__(None, None, None), "thread")
    errors.append("none")
thread = threading.Thread(target=leave)
thread.start(); thread.join()
assert errors == ["none"]
pause.__exit__(None, None, None)
assert not tjit.is_enabled()
print("ok")
"""

# What works where tjit is inert.
INERT = FIRST + """
import warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    assert tjit.enable() is False
    assert tjit.enable(hot_threshold=3) is False
    with tjit.AutoCompile(), tjit.Pause():
        assert torch.ones(3).add(1).sum().item() == 6
    tjit.sync(); tjit.mark_step(); tjit.clear(); tjit.disable()
    tjit.mark_opaque("aten::add"); tjit.reset_memory_peak()
    tjit.set_region_options("a", threshold=3)
    @tjit.jit
    def function(x):
        with tjit.NoJit("why"), tjit.Region("a"):
            return x + 1
    class Object:
        @tjit.jit(name="named")
        def method(self, x):
            return function(x) * 2
    assert Object().method(torch.ones(3)).tolist() == [4.0] * 3
    assert function.stats()["calls"] == 0 and Object().method.stats()["why"]
    function.reset()
assert [w.category for w in said] == [RuntimeWarning], said
assert said[0].filename == __file__, said[0].filename
print(said[0].message)
assert not tjit.is_enabled() and tjit.stats() == {} and tjit.options() == {}
assert tjit.region_stats("a") == {}
assert "inert" in tjit.explain() and tjit.version() == tjit.__version__
assert tjit.wait_until_compiled()
try:
    tjit.prewarm("x")
except RuntimeError as error:
    assert "inert" in str(error)
print("ok")
"""


class ApiTest(PackageCase):
    def test_all_of_it(self):
        for options in ({}, {"run": True, "TJIT_AUTO_COMPILE": "0"}):
            done = self.run_program(API, **options)
            self.assertEqual(done.stdout, "ok\n")
            # The one thing that is said, once.
            self.assertRegex(done.stderr, r"\Atjit: a sequence is not recorded "
                             r"or promoted that begins with aten::\S+, as the "
                             r"stance is eager_on_recompile\. [^\n]*\n\Z")

    def test_errors(self):
        self.assertEqual(self.out_of(ERRORS), "ok\n")

    def test_switched_off_by_the_operator(self):
        done = self.run_program(
            FIRST + "print(tjit.enable(), tjit.is_enabled(), tjit.enable())",
            TJIT_DISABLE="1")
        self.assertEqual(done.stdout, "False False False\n")
        self.assertEqual(done.stderr.count("TJIT_DISABLE=1"), 1, done.stderr)

    def test_options_of_the_header(self):
        header = (self.source / "runtime/include/tjit/options.h").read_text()
        body = header[header.index("struct Options {"):]
        kinds = {"std::int64_t": "int", "bool": "bool", "std::string": "str",
                 "Backend": "str", "Stress": "str"}
        there = {name: kinds[kind] for kind, name in re.findall(
            r"^  ([\w:]+) (\w+) =", body, re.M)}
        self.assertGreater(len(there), 15)
        said = self.out_of(FIRST + "print(dict((n, k.__name__) for n, k in "
                                   "tjit.options().items()))")
        self.assertEqual(ast.literal_eval(said), there)

    def test_version(self):
        cmake = (self.source / "CMakeLists.txt").read_text()
        version = re.search(r"project\(tjit VERSION ([\d.]+)", cmake).group(1)
        module = (self.source / "python/tjit/__init__.py").read_text()
        self.assertIn(f'\n__version__ = "{version}"\n', module)


class InertTest(PackageCase):
    def package_with_another_shim(self):
        """The package, with a shim that was built for another libtorch."""
        folder = self.folder / "packages"
        shutil.copytree(self.build / "python", folder, symlinks=True)
        libraries = folder / "tjit/lib"
        libraries.unlink()
        libraries.mkdir()
        for name in ("libtjit.so", "libtjit_python.so", "libtjit_yaml.so"):
            (libraries / name).symlink_to(self.build / "lib" / name)
        ids = (self.build / "include/tjit_build_ids.h").read_text()
        # The compiler may compare eight letters at a time.
        begin = re.search('TORCH_CPU_BUILD_ID "(.{8})', ids).group(1).encode()
        data = (self.build / "lib/libtjit_preload.so").read_bytes()
        self.assertIn(begin, data)
        (libraries / "libtjit_preload.so").write_bytes(
            data.replace(begin, b"00000000"))
        return folder

    def test_another_libtorch(self):
        package = self.package_with_another_shim()
        for imports in (FIRST, BEHIND):
            done = self.run_program(INERT.replace(FIRST, imports),
                                    package=package)
            lines = done.stdout.splitlines()
            self.assertEqual(lines[-1], "ok")
            self.assertIn("Rebuild tjit", lines[0])
            self.assertEqual(done.stderr.count("tjit: inert"), 1, done.stderr)

    def test_a_function_says_it(self):
        package = self.package_with_another_shim()
        done = self.run_program(
            FIRST + "import warnings\n"
            "with warnings.catch_warnings(record=True) as said:\n"
            "    warnings.simplefilter('always')\n"
            "    for _ in range(2):\n"
            "        f = tjit.jit(lambda x: x + 1)\n"
            "        assert f(torch.ones(1)).item() == 2\n"
            "assert [w.filename for w in said] == [__file__], said\n"
            "print(said[0].message)\n", package=package)
        self.assertIn("Rebuild tjit", done.stdout)

    def test_no_torch(self):
        package = self.folder / "packages"
        shutil.copytree(self.build / "python", package, symlinks=True)
        (package / "torch.py").write_text("raise ImportError('none here')\n")
        done = self.run_program("import tjit", package=package, fails=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("tjit needs torch 2.13 or newer", done.stderr)
        self.assertIn("none here", done.stderr)

    def test_incomplete(self):
        package = self.folder / "packages"
        (package / "tjit").mkdir(parents=True)
        for name in ("__init__.py", "_library.py"):
            shutil.copy(self.build / "python/tjit" / name, package / "tjit")
        done = self.run_program("import tjit", package=package, fails=True)
        self.assertIn("installed incompletely", done.stderr)
        self.assertIn("libtjit_preload.so", done.stderr)


class StubsTest(PackageCase):
    def setUp(self):
        super().setUp()
        package = self.source / "python/tjit"
        self.stub = ast.parse((package / "__init__.pyi").read_text())
        self.module = ast.parse((package / "__init__.py").read_text())

    @staticmethod
    def functions(tree, inside=None):
        """Names of arguments by function, of the module or of a class."""
        body = tree.body
        if inside:
            body = next(n for n in body if isinstance(n, ast.ClassDef) and
                        n.name == inside).body
        found = {}
        for node in body:
            if isinstance(node, ast.FunctionDef):
                a = node.args
                found[node.name] = [x.arg for x in (*a.posonlyargs, *a.args)]
        return found

    def test_names(self):
        said = self.out_of(FIRST + "print(tjit.__all__)")
        stub = {n.name for n in self.stub.body
                if isinstance(n, (ast.FunctionDef, ast.ClassDef))
                and not n.name.startswith("_")}
        self.assertEqual(sorted(stub), ast.literal_eval(said))
        self.assertTrue((self.source / "python/tjit/py.typed").exists())

    def test_arguments(self):
        stub = self.functions(self.stub)
        module = {name: arguments for name, arguments
                  in self.functions(self.module).items() if name in stub}
        self.assertEqual(stub, module)

    def test_options(self):
        said = self.out_of(FIRST + "print(sorted(tjit.options()))")
        wanted = ast.literal_eval(said)
        for node in ast.walk(self.stub):
            if (isinstance(node, ast.FunctionDef) and node.name in
                    ("enable", "__init__") and node.args.kwonlyargs):
                names = sorted(a.arg for a in node.args.kwonlyargs)
                self.assertEqual(names, wanted, node.name)

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not there")
    def test_mypy(self):
        program = self.folder / "typed.py"
        program.write_text(
            "import tjit\n"
            "on: bool = tjit.enable(hot_threshold=3, backend='llvm')\n"
            "with tjit.AutoCompile('process', strict=True):\n"
            "    n: int = tjit.save_profile('x')\n"
            "@tjit.Pause()\n"
            "def f(x: int) -> str:\n"
            "    return str(x)\n"
            "s: str = f(3) + tjit.explain(verbose=True)\n"
            "@tjit.jit(name='g', verify_every=3)\n"
            "def g(x: int) -> str:\n"
            "    with tjit.NoJit('why'), tjit.Region('a'):\n"
            "        return str(x)\n"
            "class C:\n"
            "    @tjit.jit\n"
            "    def h(self, x: int) -> str:\n"
            "        return g(x)\n"
            "t: str = C().h(3) + g.stats()['why']\n"
            "m: int = C().h.stats()['replays']\n"
            "tjit.write_sequences('folder', which='slow')\n"
            "tjit.set_region_options('a', shapes='exact', exclude_ops=['b'])\n"
            "tjit.jit(lambda: 1, strict=True).reset()\n"
            "tjit.save_package('p', g, 3, tensors={}, given=['w'])\n"
            "tjit.save_torchscript('p', g, x=3, arguments=['x'])\n"
            "p: tjit.Package = tjit.load_package('p', warms_up=False)\n"
            "u: str = p.names[0] + p.tensors['w'] + p.verify()\n"
            "p(1.5, x=2.5)\n")
        env = dict(os.environ, MYPYPATH=str(self.build / "python"))
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", program],
                              env=env, capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    PackageCase.read_arguments(sys.argv[1:5])
    del sys.argv[1:5]
    unittest.main()
