"""What bench/run.py or bench/peers/run.py has measured, kept in a file as it comes.

A run takes minutes to hours and may be stopped: each process adds one line to
samples.jsonl the moment it ends, so that --print shows what is there and
--resume goes on behind it. The first line says what the samples depend on; a
run that goes on must say the same.
"""
import json
import pathlib
import signal

NAME = "samples.jsonl"
ROOT = pathlib.Path(__file__).resolve().parents[1]


class BadSamples(Exception):
    """The file cannot be used; the text says which and why."""


def read(folder):
    """(the first line, the records behind it)."""
    path = folder / NAME
    try:
        lines = path.read_text().splitlines(keepends=True)
    except OSError as error:
        raise BadSamples(f"cannot read {path}: {error.strerror}") from error
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError as error:
            # The process that wrote it was killed meanwhile.
            if number == len(lines) and not line.endswith("\n"):
                break
            raise BadSamples(f"{path}:{number}: {error}") from error
    if not found or "run" not in found[0]:
        raise BadSamples(f"{path} does not begin with what was run")
    return found[0], found[1:]


class SamplesFile:
    """The file that a run adds to."""

    def __init__(self, folder, head, resume):
        """Begins it anew with `head`, or goes on behind its last whole line;
        what `head` has under "run" must be the same then."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / NAME
        self.records = []
        if resume:
            first, records = read(folder)
            was = first["run"]
            for key, value in head["run"].items():
                if was.get(key) != value:
                    raise BadSamples(
                        f"{path} is of a run with {key} {was.get(key)}, this "
                        f"one has {value}: leave out --resume to begin anew")
            # What failed is tried again.
            self.records = [r for r in records if "samples" in r]
        beside = path.with_suffix(".new")
        beside.write_text("".join(json.dumps(r) + "\n"
                                  for r in [head, *self.records]))
        beside.replace(path)
        # pylint: disable-next=consider-using-with
        self._file = open(path, "a", encoding="utf-8")

    def add(self, record):
        """Keeps one process's result."""
        self.records.append(record)
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()

    def close(self):
        """Nothing is added behind this."""
        self._file.close()


def add_options(parser, folder):
    """What a program that keeps samples is told; `folder` in the build folder
    is where they go if nobody says."""
    parser.add_argument("--build", type=pathlib.Path,
                        default=ROOT / "build" / "release",
                        help="build folder (default: build/release)")
    parser.add_argument("--out", type=pathlib.Path,
                        help="where results.md, results.json and "
                        f"samples.jsonl go (default: <build>/{folder})")
    parser.add_argument("--resume", action="store_true",
                        help="go on behind the samples in the output folder")
    parser.add_argument("--print", action="store_true", dest="only_print",
                        help="measure nothing, report the samples there")
    parser.add_argument("--clock", choices=("wall", "processor"),
                        default="wall",
                        help="what times are: processor times do not count "
                        "that others run on the same core (default: wall)")
    parser.set_defaults(folder=folder)


def check_options(parser, options):
    """Sets `out` and `programs`; ends the program if they make no sense."""
    options.programs = options.build / "bin"
    options.out = options.out or options.build / options.folder
    if options.only_print and options.resume:
        parser.error("--print measures nothing, --resume does: give one")
    if not options.programs.is_dir() and not options.only_print:
        parser.error(f"{options.programs} is not there: build first, or name "
                     "the build folder with --build")


def run_until_stopped(kept, measure):
    """Calls measure() and closes the file; true if a signal ended it before it
    was through."""
    def stop(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, stop)
    try:
        measure()
        return False
    except KeyboardInterrupt:
        return True
    finally:
        kept.close()
