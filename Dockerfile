# An image of `surefind serve`. Build it in the repository:  docker build -t surefind .
# Put documents and surefind.toml into a volume and mount it as /data:
#   docker run -v ./handbook:/data surefind sync docs
#   docker run -v ./handbook:/data surefind keys create chatbot
#   docker run -v ./handbook:/data -p 8080:8080 surefind
FROM python:3.12-slim AS build
WORKDIR /source
COPY . .
RUN python -m venv /opt/surefind \
 && PIP_CONSTRAINT=constraints.txt /opt/surefind/bin/pip install --no-cache-dir ./models '.[formats,llm,mcp,serve]'

FROM python:3.12-slim
RUN useradd --create-home --uid 10001 surefind
COPY --from=build /opt/surefind /opt/surefind
ENV PATH=/opt/surefind/bin:$PATH SUREFIND_KB=/data
USER surefind
WORKDIR /data
EXPOSE 8080
HEALTHCHECK CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/healthz', timeout=3)"]
ENTRYPOINT ["surefind"]
CMD ["serve", "--host", "0.0.0.0"]
