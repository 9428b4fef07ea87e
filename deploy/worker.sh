#!/bin/sh
# The container's command: `scrapy crawl $SPIDER` with each word of $SPIDER_ARGS (name=value) as a spider argument.
# Given arguments, it runs `scrapy` with them instead: docker compose run --rm worker frontier status site
set -euf

if [ $# -gt 0 ]; then exec scrapy "$@"; fi
for argument in ${SPIDER_ARGS:-}; do set -- "$@" -a "$argument"; done
exec scrapy crawl "${SPIDER:?SPIDER: name the spider to run}" "$@"
