# edgec with its compiler, and the example model: docker build -t edgec . && docker run --rm edgec
# docs/install.md says what else it does.
FROM debian:bookworm-slim

# The engine is compiled with g++ for the processor that runs it.
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ python3.11 python3.11-venv \
    && rm -rf /var/lib/apt/lists/*

ENV PATH=/opt/edgec/bin:$PATH EDGEC_CACHE_DIR=/var/cache/edgec PIP_NO_CACHE_DIR=1
# With an index of PyTorch's CPU builds, the image is several gigabytes smaller: --build-arg PIP_EXTRA_INDEX_URL=...
ARG PIP_EXTRA_INDEX_URL
RUN python3.11 -m venv /opt/edgec
RUN pip install "setuptools>=77" wheel
RUN pip install "torch==2.13.*"

WORKDIR /edgec
COPY . .
RUN pip install --no-build-isolation -e .
# Compiled once for this machine; on a processor of another kind, the first command compiles it again.
RUN edgec runner build

CMD ["python", "examples/demo.py", "--model", "examples/tiny-stories", "--out", "build/demo"]
