"""What a predictor gets by profile where nobody said anything: resources, device, compute type.

CPU requests are modest, since a sleeping engine costs nothing but a waking one must find a node that others use too.
The GPU profile asks for one whole GPU; node selectors differ per cloud and are therefore people's to write, only the
usual taint of GPU nodes is tolerated.
"""

from engine_operator.domain.effective import Defaults, ProfileDefaults
from engine_operator.domain.engine import Profile, Resources, Toleration
from engine_operator.domain.keys import Quantization

GPU = "nvidia.com/gpu"

CPU_RESOURCES = Resources(
    requests={"cpu": "500m", "memory": "1Gi"},
    limits={"memory": "4Gi"},
)
"""A 600M model in int8 needs about 0.6 GiB, its 256k tokenizer a quarter of one, a batch the rest. No CPU limit:
throttling would cost latency exactly when somebody waits."""

GPU_RESOURCES = Resources(
    requests={"cpu": "1", "memory": "4Gi", GPU: "1"},
    limits={"memory": "8Gi", GPU: "1"},
)

GPU_TAINT = Toleration(key=GPU, operator="Exists", effect="NoSchedule")


def defaults(cpu_image: str, gpu_image: str, converter_image: str = "") -> Defaults:
    """Defaults of this release; images by digest."""
    return Defaults(
        converter_image=converter_image,
        profiles={
            Profile.CPU: ProfileDefaults(
                resources=CPU_RESOURCES,
                device="cpu",
                compute_type="default",
                runtime_image=cpu_image,
                quantization=Quantization.INT8,
                concurrency=8,
            ),
            Profile.GPU: ProfileDefaults(
                resources=GPU_RESOURCES,
                device="cuda",
                compute_type="int8_float16",
                runtime_image=gpu_image,
                quantization=Quantization.INT8_FLOAT16,
                concurrency=32,
                tolerations=(GPU_TAINT,),
            ),
        },
    )
