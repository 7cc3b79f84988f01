# An image with Caddy and Fairway only: no shell, no package manager, no root user.
#
#	docker build -t fairway .
#	docker build -t fairway --build-arg MODULES="github.com/mholt/caddy-ratelimit" .
#
# The container needs no writable file system except /data, where the store and the
# certificates are:
#
#	docker run --read-only -v fairway-data:/data -v ./Caddyfile:/etc/caddy/Caddyfile:ro -p 8080:8080 fairway

ARG GO=1.26
FROM golang:${GO}-bookworm AS build
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
LABEL org.opencontainers.image.title="Fairway" \
	org.opencontainers.image.description="Caddy with Fairway: AI agents use your existing REST APIs as tools" \
	org.opencontainers.image.source="https://github.com/fairwayhq/fairway" \
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
