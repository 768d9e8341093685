# An image for Ray's nodes and for one machine: the package, and the versions that constraints.txt pins.
#   docker build --tag tausearch .                                            # CUDA
#   docker build --tag tausearch:cpu --build-arg TORCH_INDEX=ADDRESS .        # ADDRESS: PyTorch's index of CPU builds
FROM python:3.11-slim-bookworm AS build
# Without it torch is the build of the package index, which brings CUDA along; one for the CPU has the same version.
ARG TORCH_INDEX=
RUN python -m venv /opt/venv
COPY . /source
RUN /opt/venv/bin/python -m pip install --no-cache-dir --progress-bar off --disable-pip-version-check \
      ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} --constraint /source/constraints.txt '/source[kubernetes]'

FROM python:3.11-slim-bookworm
# KubeRay asks its nodes with wget whether they are well.
RUN apt-get update && \
    apt-get install --yes --no-install-recommends wget && \
    rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/venv /opt/venv
# KubeRay starts Ray in a login shell, which sets its own PATH.
RUN echo 'PATH=/opt/venv/bin:$PATH' >/etc/profile.d/tausearch.sh && \
    useradd --create-home --uid 1000 tausearch
ENV PATH=/opt/venv/bin:$PATH \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    RAY_USAGE_STATS_ENABLED=0
USER tausearch
WORKDIR /home/tausearch
CMD ["tausearch", "--help"]
