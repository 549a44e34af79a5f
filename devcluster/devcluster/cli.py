"""Command line. Answers go to stdout, progress to stderr, failures end with the exit code of their error."""

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from devcluster import backends, images, versions
from devcluster.control_plane import ControlPlane
from devcluster.errors import DevclusterError, NotRunning, UsageError
from devcluster.go_modules import GROUPS, modules
from devcluster.processes import tail
from devcluster.programs import Programs
from devcluster.progress import say
from devcluster.status import report

_DESCRIPTION = """\
A real Kubernetes + Knative + Kourier + KServe + S3 on this machine.

  devcluster up                                start it (minutes the first time, under a minute later)
  devcluster exec -- kubectl get pods -A       run a program inside the cluster's network
  devcluster load-image dev.local/x:1          give an image of buildah's storage to the cluster
  devcluster down                              remove it without a trace

Which cluster: the one of KUBECONFIG if that is set, else kind where a Docker engine answers, else one that is built
from source. Built programs are kept in ~/.cache/serval-live (SERVAL_LIVE_CACHE chooses another folder).
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.run
    try:
        return command(options)
    except DevclusterError as error:
        say(f"error ({error.reason}): {error}")
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted; `devcluster down` removes what was begun")
        return 130


Run = Callable[[argparse.Namespace], int]
Add = Callable[[str, Run, str], argparse.ArgumentParser]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="devcluster", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Run, help_text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help_text, description=help_text)
        added.set_defaults(run=run)
        return added

    _add_cluster_commands(add)
    _add_use_commands(add)
    _add_image_commands(add)
    _add_program_commands(add)
    return parser


def _add_cluster_commands(add: Add) -> None:
    add("up", _up, "Start the cluster and wait until all of it answers. Returns at once where it runs.")
    add("down", _down, "End and remove the cluster: processes, namespaces, mounts, cgroups, files.")
    status = add("status", _status, "Show which cluster is used and its pods. Exit code 6: not running.")
    status.add_argument("--warm", action="store_true", help="ask whether `up` would only have to start it")
    status.add_argument("--quiet", action="store_true", help="print nothing; the exit code tells")


def _add_use_commands(add: Add) -> None:
    add("kubeconfig", _kubeconfig, "Print the path of the kubeconfig. Its server answers inside `exec` only.")
    run = add("exec", _exec, "Run a program in the cluster's network, with KUBECONFIG and the cluster's DNS.")
    run.add_argument("words", nargs=argparse.REMAINDER, metavar="-- PROGRAM ...", help="what to run")
    logs = add("logs", _logs, "Print the log of a program of the node, e.g. kubelet; no name: list them.")
    logs.add_argument("name", nargs="?", help="kubelet, containerd, kube-apiserver, etcd, ...")
    logs.add_argument("--lines", type=int, default=200, help="how many of the last lines (default 200)")


def _add_image_commands(add: Add) -> None:
    load = add("load-image", _load_image, "Give images of buildah's storage to the cluster, names unchanged.")
    load.add_argument("name", nargs="+", help="e.g. dev.local/serval-live/predictor:0123456789ab")
    build = add("build-image", _build_image, "Build an image of the repository's Dockerfile by buildah.")
    build.add_argument("--target", required=True, help="stage of the Dockerfile: predictor, operator, ...")
    build.add_argument("--tag", help="full name (default: the one that image-name prints)")
    build.add_argument("--load", action="store_true", help="load it into the cluster as well")
    build.add_argument("--push", action="store_true", help="push it, and print its digest behind its name")
    name = add("image-name", _image_name, "Print an image's name; its tag changes when its content does.")
    name.add_argument("--target", required=True, help="stage of the Dockerfile")


def _add_program_commands(add: Add) -> None:
    known = ", ".join([*GROUPS, *modules(versions.load())])
    build = add("build", _build, "Build programs into the cache: all but kind, or those of named modules.")
    build.add_argument("module", nargs="*", help=f"modules or groups of them: {known}")
    tool = add("tool", _tool, "Run a built program (building it first if need be), e.g. tool helm list.")
    tool.add_argument("name", help="kubectl, helm, kube-apiserver, versitygw, ...")
    tool.add_argument("words", nargs=argparse.REMAINDER, metavar="...", help="its arguments")
    plane = add("control-plane", _control_plane, "Run only etcd and kube-apiserver on loopback.")
    plane.add_argument("--controllers", action="store_true", help="with kube-controller-manager")
    plane.add_argument("--resource-types", action="store_true", help="with the CRDs of Knative and KServe")
    plane.add_argument("--workdir", type=Path, help="where data and logs go (default: a temporary folder)")


def _up(_: argparse.Namespace) -> int:
    backends.current().up()
    return 0


def _down(_: argparse.Namespace) -> int:
    backends.current().down()
    return 0


def _status(options: argparse.Namespace) -> int:
    backend = backends.current()
    if options.warm:
        good = backend.is_warm()
        text = "installed: `devcluster up` only has to start it" if good else "not installed yet"
    else:
        good, text = backend.is_up(), report(backend)
    if not options.quiet:
        print(text)
    return 0 if good else NotRunning.exit_code


def _kubeconfig(_: argparse.Namespace) -> int:
    print(backends.current().kubeconfig())
    return 0


def _load_image(options: argparse.Namespace) -> int:
    backend = backends.current()
    for name in options.name:
        backend.load_image(name)
    return 0


def _exec(options: argparse.Namespace) -> int:
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    if not words:
        raise UsageError("say what to run: devcluster exec -- PROGRAM ARGUMENTS")
    backend = backends.current()
    os.environ["KUBECONFIG"] = str(backend.kubeconfig())
    # kubectl of the cluster's own version before any other.
    os.environ["PATH"] = f"{Programs.default().path('kubectl').parent}:{os.environ.get('PATH', '')}"
    command = backend.exec_command(words)
    os.execvp(command[0], command)


def _logs(options: argparse.Namespace) -> int:
    folder = Programs.default().settings.state / "logs"
    if not folder.is_dir():
        raise NotRunning("there are no logs: the cluster is not running")
    if options.name is None:
        print("\n".join(sorted(path.stem for path in folder.glob("*.log"))))
        return 0
    log = folder / f"{options.name}.log"
    if not log.exists():
        raise UsageError(f"no log {options.name!r}; `devcluster logs` lists them")
    print(tail(log, options.lines))
    return 0


def _build(options: argparse.Namespace) -> int:
    names = [name for given in options.module for name in GROUPS.get(given, (given,))]
    Programs.default().build_all(names)
    return 0


def _tool(options: argparse.Namespace) -> int:
    program = Programs.default().path(options.name)
    os.execv(program, [options.name, *options.words])


def _image_name(options: argparse.Namespace) -> int:
    print(images.tag_for(options.target))
    return 0


def _build_image(options: argparse.Namespace) -> int:
    tag = options.tag or images.tag_for(options.target)
    images.build(images.BuildRequest(options.target, tag))
    if options.load:
        backends.current().load_image(tag)
    digest = f"@{images.push(tag)}" if options.push else ""
    print(tag + digest)
    return 0


def _control_plane(options: argparse.Namespace) -> int:
    workdir = options.workdir or Path(tempfile.mkdtemp(prefix="serval-live-control-plane-"))
    try:
        with ControlPlane.start(workdir, controllers=options.controllers) as plane:
            if options.resource_types:
                plane.install_resource_types()
            print(plane.kubeconfig, flush=True)
            say("running until interrupted (Ctrl-C)")
            plane.apiserver.process.wait()
    finally:
        if options.workdir is None:
            shutil.rmtree(workdir, ignore_errors=True)
    return 0
