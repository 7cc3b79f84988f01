# An image with Caddy and Fairway only: no shell, no package manager, no root user.
#
#	docker build -t fairway .
#	docker build -t fairway --build-arg MODULES="github.com/mholt/caddy-ratelimit@v0.1.0" .
#
# The image has no health check of its own, because that depends on the Caddyfile. docs/install.md has one, and so does
# compose.yaml. An option of docker run cannot add it: that needs a shell.
#
# The container needs no writable file system except /data, where the store and the
# certificates are:
#
#	docker run --read-only -v fairway-data:/data -v ./Caddyfile:/etc/caddy/Caddyfile:ro -p 8080:8080 fairway

# Base images are pinned by digest. Dependabot updates them; see packaging/README.md.
FROM golang:1.26.8-bookworm@sha256:a688600ca24f8a4d3ca77f95b0dd40704a9fc787c826660eb7ba0b641b8b175d AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# Further Caddy modules, separated by spaces. Default: none.
ARG MODULES=""
RUN set -- ; for module in $MODULES; do set -- "$@" --with "$module"; done ; \
	OUTPUT=/out/caddy ./xcaddy.sh "$@"
RUN mkdir -p /out/data /out/tmp

FROM scratch
ARG VERSION="" REVISION=""
LABEL org.opencontainers.image.title="Fairway" \
	org.opencontainers.image.version="$VERSION" \
	org.opencontainers.image.revision="$REVISION" \
	org.opencontainers.image.description="Caddy with Fairway: AI agents use your existing REST APIs as tools" \
	org.opencontainers.image.source="https://github.com/fairwayhq/fairway" \
	org.opencontainers.image.documentation="https://github.com/fairwayhq/fairway/tree/main/docs" \
	org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /usr/share/zoneinfo /usr/share/zoneinfo
COPY --from=build /out/caddy /usr/bin/caddy
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build --chown=65532:65532 /out/tmp /tmp
# Caddy stores its certificates in $XDG_DATA_HOME/caddy, and Fairway its store.
ENV XDG_DATA_HOME=/data XDG_CONFIG_HOME=/data/config HOME=/data
USER 65532:65532
VOLUME /data
EXPOSE 80 443 443/udp 8080
ENTRYPOINT ["/usr/bin/caddy"]
CMD ["run", "--config", "/etc/caddy/Caddyfile"]
