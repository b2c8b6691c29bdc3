# Two images of one tree: the trainer with everything, and the edge runtime, which has no torch.
#
# docker build -t sheafedge .
# docker run --rm -v sheafedge-runs:/home/sheafedge/runs sheafedge
# docker run --rm sheafedge --help
#
# docker build --target edge -t sheafedge-edge .
# docker run --rm --network host -v ./runs/NAME/bundles:/bundles sheafedge-edge serve /bundles/NAME-client-00 --bind tcp://127.0.0.1:5560
#
# All of it together, see compose.yaml:
# docker compose up --build
#
# Without CUDA the trainer is several gigabytes smaller:
# docker build --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cpu -t sheafedge .

FROM python:3.11-slim AS wheel
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.11-slim AS edge
COPY constraints.txt /tmp/constraints.txt
COPY --from=wheel /wheels /wheels
# The edge set of pyproject.toml; the package itself comes without its dependencies, or torch would come too.
RUN pip install --no-cache-dir -c /tmp/constraints.txt msgpack numpy onnxruntime pyzmq \
    && pip install --no-cache-dir --no-deps /wheels/*.whl \
    && rm -rf /wheels /tmp/constraints.txt \
    && useradd --create-home sheafedge
USER sheafedge
WORKDIR /home/sheafedge
ENTRYPOINT ["sheafedge"]
CMD ["serve", "--help"]

FROM python:3.11-slim AS trainer
ARG TORCH_INDEX=""
COPY constraints.txt /tmp/constraints.txt
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir -c /tmp/constraints.txt ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} /wheels/*.whl \
    && rm -rf /wheels /tmp/constraints.txt \
    && useradd --create-home sheafedge \
    && install -d -o sheafedge -g sheafedge /home/sheafedge/runs
USER sheafedge
WORKDIR /home/sheafedge
VOLUME /home/sheafedge/runs
ENTRYPOINT ["sheafedge"]
CMD ["run", "blockage"]
