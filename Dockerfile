# docker build -t sheafedge .
# docker run --rm -v sheafedge-runs:/home/sheafedge/runs sheafedge
# docker run --rm sheafedge --help
#
# Without CUDA the image is several gigabytes smaller:
# docker build --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cpu -t sheafedge .
FROM python:3.11-slim

ARG TORCH_INDEX=""

COPY . /source
RUN pip install --no-cache-dir -c /source/constraints.txt ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} /source \
    && rm -rf /source \
    && useradd --create-home sheafedge \
    && install -d -o sheafedge -g sheafedge /home/sheafedge/runs

USER sheafedge
WORKDIR /home/sheafedge
VOLUME /home/sheafedge/runs
ENTRYPOINT ["sheafedge"]
CMD ["run", "blockage"]
