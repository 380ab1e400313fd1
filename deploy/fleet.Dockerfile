# syntax=docker/dockerfile:1
# Driver and executors of the fleet that publishes with Spark.  `make fleet-image` builds it with docker, podman or
# buildah; by hand, from the repository's root:
#
#   docker build -f deploy/fleet.Dockerfile -t p2prdf-fleet .
#
# Spark is the one that pip installs; Java comes from the distribution.
ARG PYTHON_IMAGE=python:3.12-slim-bookworm

FROM ${PYTHON_IMAGE} AS wheels
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY p2prdf ./p2prdf
COPY node ./node
COPY cli ./cli
RUN --mount=type=secret,id=pip-settings,target=/etc/pip.conf \
    --mount=type=secret,id=pip-authorities,target=/run/secrets/pip-authorities \
    pip wheel --no-cache-dir --wheel-dir /wheels '.[spark]'

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="p2prdf-fleet" \
      org.opencontainers.image.description="Spark drivers and executors that publish into a p2prdf overlay" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && PIP_BREAK_SYSTEM_PACKAGES=1 pip install --no-cache-dir --no-index --find-links=/wheels 'p2prdf[spark]' \
    && useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin p2prdf
COPY --chmod=0755 deploy/fleet-entrypoint /usr/local/bin/fleet-entrypoint
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYSPARK_PYTHON=python3 \
    HOME=/tmp
USER 10001:10001
ENTRYPOINT ["fleet-entrypoint"]
CMD ["spark-publish", "--help"]
