# The image of a release, from binaries that are built already. See also ../Dockerfile.
FROM alpine:3 AS files
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
