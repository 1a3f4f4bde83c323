# SPDX-License-Identifier: MIT
"""Runs tests as clients of NVIDIA's Multi-Process Service. The service is started for them, with its pipes in a temporary folder, and
ended afterwards. After a failure each test that kills a process gets a new service, because killing a client may disturb others."""
import contextlib
import json
import pathlib
import shutil
import tempfile

from gpucheck.plan import Phase, Task
from gpucheck.suite import Suite, clean_up, run
from mps import Mps, Unavailable


class Service:
    """A context in which programs started with `environment` are clients, unless `why_not` says why they are not."""

    def __init__(self, sluice, log):
        self.sluice, self.log = sluice, log
        self.stack, self.environment, self.why_not = None, {}, None

    def __enter__(self):
        self.stack, self.environment, self.why_not = contextlib.ExitStack(), {}, None
        clean_up.append(self.end)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gpu-check-"))  # short: a socket's path is
        self.stack.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            mps = self.stack.enter_context(Mps(folder))
            self.environment = mps.settings
            if not self.has_client():
                raise Unavailable(f"programs do not reach its server: {mps.last_log_line()}")
        except Unavailable as why:
            self.why_not = str(why)
        return self

    def has_client(self):
        _, text, _ = run([self.sluice, "doctor", "--json"], self.log, 60, **self.environment)
        with contextlib.suppress(ValueError, KeyError):
            return any(gpu["mps"] == "client" for gpu in json.loads(text)["gpus"])
        return False

    def end(self):
        if self.stack:
            self.stack.close()
        self.stack = None

    def __exit__(self, *_):
        self.end()
        clean_up.remove(self.end)

    def again(self):
        self.__exit__()
        self.__enter__()


def phase_of(title, workers, service, tasks, anew):
    """A phase of tasks whose jobs take the environment. `anew`: restart the service after a failure."""
    def job_of(task):
        def job():
            if service.why_not:
                return Suite(title, "".join(f"ok 1 - {name} # SKIP {service.why_not}\n" for name in task.names), 0, 0)
            suite = task.job(service.environment)
            if anew and suite.failed:
                service.again()
            return suite
        return job

    return Phase(title, workers, [Task(title, task.seconds, job_of(task), task.names, task.rank) for task in tasks], lambda: service)
