# The image of a release, from binaries that are built already. See also ../Dockerfile.
# What it copies from Alpine is the same for all platforms. Base images are pinned by digest: see README.md.
FROM --platform=$BUILDPLATFORM alpine:3.23.5@sha256:fd791d74b68913cbb027c6546007b3f0d3bc45125f797758156952bc2d6daf40 AS files
RUN apk add --no-cache ca-certificates tzdata && mkdir -p /empty/data /empty/tmp

FROM scratch
ARG TARGETPLATFORM
COPY --from=files /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=files /usr/share/zoneinfo /usr/share/zoneinfo
COPY --from=files --chown=65532:65532 /empty/ /
COPY $TARGETPLATFORM/fairway /usr/bin/caddy
ENV XDG_DATA_HOME=/data XDG_CONFIG_HOME=/data/config HOME=/data
USER 65532:65532
VOLUME /data
EXPOSE 80 443 443/udp 8080
ENTRYPOINT ["/usr/bin/caddy"]
CMD ["run", "--config", "/etc/caddy/Caddyfile"]
