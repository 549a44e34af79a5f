"""Plays scheduler, kubelet, KServe and Knative on a real API server, for tests of the operator.

Real are the API server, its garbage collector and its Job controller. Simulated is what needs nodes: pods get a node, a
container runs, an InferenceService gets Revisions, traffic and a status, as KServe 0.20 and Knative 0.48 write them. It
refuses to be lenient: a conversion reads the real archive and writes a real manifest, and a predictor "loads" only if
the manifest that its environment names is in the store.

Reading order: `api`, `converter`, `kubelet`, `kserve`, `knative`, `simulator`. `tests/support/calibration` holds it to
what the real controllers were seen to do.
"""

from tests.support.kube_simulator.converter import Converter, Store
from tests.support.kube_simulator.simulator import KubeSimulator
from tests.support.kube_simulator.world import Ending, World

__all__ = ["Converter", "Ending", "KubeSimulator", "Store", "World"]
"""What tests use."""
