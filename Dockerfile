# The bridge as a container: built in one stage, run in another that has only its libraries.
FROM debian:12 AS build
WORKDIR /src
COPY scripts/ scripts/
RUN scripts/install-deps.sh --quiet
COPY . .
RUN scripts/build.sh release simbridge \
 && install -D -s build/release/src/app/simbridge /out/simbridge \
 # The Debian packages that own the libraries it is linked with, so that the list below cannot go stale.
 && ldd /out/simbridge | awk '$3 ~ /^\// {print $3}' | xargs -n1 realpath | xargs -n1 dpkg-query -S \
    | cut -d: -f1 | sort -u > /out/packages

FROM debian:12-slim
COPY --from=build /out/ /out/
RUN apt-get update -qq \
 && xargs -a /out/packages apt-get install -qq -y --no-install-recommends ca-certificates \
 && rm -rf /var/lib/apt/lists/* \
 && mv /out/simbridge /usr/local/bin/simbridge && rm -r /out \
 && useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin simbridge
USER 10001:10001
# 8080: sensors and consumers; 8090: health, metrics, admin. Both bind to the loopback unless told otherwise.
EXPOSE 8080 8090
STOPSIGNAL SIGTERM
ENTRYPOINT ["simbridge", "serve"]
