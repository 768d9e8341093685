# An image for Ray's nodes and for one machine: the package, and the versions that constraints.txt pins.
#   docker build --tag tausearch .                      # CUDA
#   docker build --tag tausearch:cpu --build-arg TORCH=cpu .
FROM python:3.11-slim-bookworm AS build
# `cuda` is the build of the package index, which brings CUDA along; `cpu` is PyTorch's smaller one, of the same version.
ARG TORCH=cuda
RUN python -m venv /opt/venv
COPY . /source
RUN case "$TORCH" in \
      cuda) more='' ;; \
      cpu) more='--extra-index-url https://download.pytorch.org/whl/cpu' ;; \
      *) echo "TORCH is cuda or cpu, not $TORCH" >&2; exit 2 ;; \
    esac && \
    /opt/venv/bin/python -m pip install --no-cache-dir --progress-bar off --disable-pip-version-check $more \
      --constraint /source/constraints.txt /source

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
