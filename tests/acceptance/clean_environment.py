"""The environment that tests give to the programs they run."""
import ctypes
import os

TRIALS = {"TJIT_THREAD_TRIALS", "TJIT_TRACE_TRIALS"}


def is_passed_on(name):
    """Of the caller's variables: no TJIT_ one but those which keep threads and
    sequences from being measured, as nothing that is counted may depend on the
    machine."""
    return not name.startswith("TJIT_") or name in TRIALS


def environment(**extra):
    """Without any TJIT_ variable of the caller's, and without a profile: what a
    process does must not depend on those that ran before."""
    env = {k: v for k, v in os.environ.items()
           if is_passed_on(k) and k != "LD_PRELOAD"}
    env.update(OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive",
               TJIT_PROFILE="off")
    env.update(extra)
    return env


def heed_modes():
    """For preexec_fn: root obeys the modes of files as others do."""
    pr_capbset_drop, dac_override = 24, 1
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(pr_capbset_drop, dac_override, 0, 0, 0)
