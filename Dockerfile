# The command `relatent`, and by default its HTTP service. docs/container.md says how to use it.
FROM python:3.12-slim AS build
ARG EXTRAS=serve,pgvector
COPY pyproject.toml hatch_build.py README.md LICENSE /source/
COPY src /source/src
RUN python -m venv --without-pip /opt/relatent \
    && pip --python /opt/relatent/bin/python install --no-cache-dir --no-compile "/source[${EXTRAS}]"

FROM python:3.12-slim
# Nothing in here can install or build anything.
RUN pip uninstall --yes --quiet --root-user-action=ignore pip \
    && groupadd --gid 10001 relatent \
    && useradd --uid 10001 --gid relatent --create-home relatent \
    && install --directory --owner=relatent --group=relatent /data
COPY --from=build /opt/relatent /opt/relatent
ENV PATH=/opt/relatent/bin:$PATH PYTHONUNBUFFERED=1
USER 10001
WORKDIR /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=2)"]
ENTRYPOINT ["relatent"]
CMD ["serve", "translator.safetensors", "--host", "0.0.0.0", "--port", "8000"]
