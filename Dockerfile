# All images of serval-live. Targets: operator, predictor, predictor-gpu.
#
#   docker build --target predictor --tag REGISTRY/serval-live/predictor:VERSION .
#
# pip and apt use whatever index the builder is configured for; mount a pip.conf to change it. What every image keeps:
# - any user id works (files belong to root and are readable by all; HOME is /tmp), 65532 in group 0 by default;
# - a read-only root file system works: nothing is written beside the code, byte code is already there;
# - no pip, no setuptools, no compiler, no shell script of ours.

# ---------------------------------------------------------------------------------------------------------------
FROM debian:bookworm-slim AS python
# Debian compiles the whole standard library on installation; the images bring the part that they import themselves.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 \
    && find /usr/lib/python3 /usr/lib/python3.* /usr/share/python3 -name __pycache__ -prune -exec rm -r {} + \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/log/apt /var/log/dpkg.log \
              /usr/share/doc/python3* /usr/share/man /usr/share/info
ENV PATH=/opt/serval-live/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# ---------------------------------------------------------------------------------------------------------------
FROM python AS builder
RUN apt-get update && apt-get install --yes --no-install-recommends binutils python3-pip python3-venv
RUN python3 -m venv --without-pip /opt/serval-live
ENV PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
# The packages themselves come after their dependencies, so that a changed line of ours installs nothing anew.
RUN mkdir contract predictor operator devcluster tinymodel
COPY scripts/image-trim scripts/image-bytecode /usr/local/bin/

# ---------------------------------------------------------------------------------------------------------------
# Libraries are one layer and what is ours another: a new release of ours is a few megabytes to pull, not hundreds.
FROM builder AS operator-libraries
RUN pip --python /opt/serval-live/bin/python install --constraint constraints.txt '.[operator]' \
    && pip --python /opt/serval-live/bin/python uninstall --yes serval-live \
    && image-trim

FROM operator-libraries AS operator-builder
COPY contract contract
COPY operator operator
RUN pip --python /opt/serval-live/bin/python install --no-deps --root /own . \
    && rm -f /own/opt/serval-live/bin/nllb-predictor /own/opt/serval-live/bin/devcluster \
    && cp -a /own/opt/. /opt/
RUN /opt/serval-live/bin/python /usr/local/bin/image-bytecode /own engine_operator

FROM python AS operator
COPY --from=operator-libraries /opt/serval-live /opt/serval-live
COPY --from=operator-builder /own /
USER 65532:0
EXPOSE 8080
ENTRYPOINT ["engine-operator"]
CMD ["run"]

# ---------------------------------------------------------------------------------------------------------------
FROM builder AS predictor-libraries
RUN pip --python /opt/serval-live/bin/python install --constraint constraints.txt '.[predictor,tracing]' \
    && pip --python /opt/serval-live/bin/python uninstall --yes serval-live \
    && image-trim

FROM predictor-libraries AS predictor-builder
COPY contract contract
COPY predictor predictor
RUN pip --python /opt/serval-live/bin/python install --no-deps --root /own . \
    && rm -f /own/opt/serval-live/bin/engine-operator /own/opt/serval-live/bin/devcluster \
    && cp -a /own/opt/. /opt/
RUN /opt/serval-live/bin/python /usr/local/bin/image-bytecode /own nllb_predictor \
    uvicorn.loops.auto uvicorn.loops.uvloop uvicorn.protocols.http.auto uvicorn.protocols.http.httptools_impl \
    uvicorn.protocols.websockets.auto uvicorn.lifespan.on anyio._backends._asyncio \
    importlib.readers importlib.resources.readers importlib.resources._itertools

FROM python AS predictor
COPY --from=predictor-libraries /opt/serval-live /opt/serval-live
COPY --from=predictor-builder /own /
USER 65532:0
EXPOSE 8080 8081
ENTRYPOINT ["nllb-predictor"]
CMD ["serve"]

# ---------------------------------------------------------------------------------------------------------------
# CTranslate2's wheel has its kernels and the CUDA runtime inside and opens cuBLAS by name when a GPU is used; the driver
# (libcuda) comes from the node. Its major version must be the one that the wheel was built for.
FROM builder AS cuda
ARG CUDA_PACKAGES=nvidia-cublas-cu12
RUN pip install --target /opt/cuda --no-deps ${CUDA_PACKAGES} \
    && rm -rf /opt/cuda/nvidia/*/include /opt/cuda/nvidia/*/lib/libnvblas.so*

FROM predictor AS predictor-gpu
COPY --from=cuda /opt/cuda /opt/cuda
ENV LD_LIBRARY_PATH=/opt/cuda/nvidia/cublas/lib \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
