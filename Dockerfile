# The server in a container, for processors without a GPU. Not tested by this project's own checks.
#
#   docker build -t npda .
#   docker run -p 8765:8765 -e NPDA_API_KEY=team:a-long-secret -v npda-data:/data npda
FROM python:3.12-slim

RUN useradd --create-home npda && mkdir /data /models /stores && chown npda /data
COPY . /src
# The package index has builds of torch for GPUs; on a processor they only take more room.
RUN pip install --no-cache-dir -c /src/constraints.txt "/src[serve]"

USER npda
ENV OMP_WAIT_POLICY=passive NPDA_CACHE=/data/cache
WORKDIR /data
VOLUME /data
EXPOSE 8765
# NPDA_API_KEY must be set: npda does not listen on other addresses than loopback without a key.
# With your own model: docker run … npda --model /models/NAME --stores /stores --data /data --host 0.0.0.0
ENTRYPOINT ["npda", "serve"]
CMD ["--host", "0.0.0.0"]
