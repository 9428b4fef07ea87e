"""The whole wiring on one page. Every deployment value comes from the environment or ``.env``, by the name it has here.

``docs/settings.md`` explains each line. Anything can be set for one run too: ``scrapy crawl NAME -s DOWNLOAD_DELAY=2``.
"""

import os
import socket
from pathlib import Path

from crawler.env import Env

_env = Env.load()

# --- Identity: who is crawling. Site owners read this, so let CONTACT be a page or an address where they reach you.
BOT_NAME = _env.text("BOT_NAME", "crawler")
USER_AGENT = _env.text("USER_AGENT", f"{BOT_NAME}/1.0 (+{_env.text('CONTACT', 'contact not set')})")
ROBOTSTXT_USER_AGENT = BOT_NAME
WORKER_NAME = _env.text("WORKER_NAME", f"{socket.gethostname()}-{os.getpid()}")

# --- Where things are
SPIDER_MODULES = ["crawler.spiders"]
NEWSPIDER_MODULE = "crawler.spiders"
COMMANDS_MODULE = "crawler.commands"
TEMPLATES_DIR = str(Path(__file__).with_name("templates"))  # what scrapy genspider -t offers

# --- Redis: the first that is set of REDIS_URL, REDIS_HOST, an embedded server that local workers share
REDIS_URL = _env.text("REDIS_URL") or None
REDIS_HOST = _env.text("REDIS_HOST") or None
REDIS_PORT = _env.integer("REDIS_PORT", 6379, low=1, high=65535)
REDIS_DB = _env.integer("REDIS_DB", 0)
REDIS_CLUSTER = _env.flag("REDIS_CLUSTER", False)  # the server is a node of a Redis Cluster
REDIS_CLUSTER_NODES = _env.text("REDIS_CLUSTER_NODES")  # HOST:PORT of further nodes, with commas
REDIS_SENTINELS = _env.text("REDIS_SENTINELS")  # HOST:PORT, with commas; the host in REDIS_URL is the master's name
REDIS_KEY_PREFIX = _env.text("REDIS_KEY_PREFIX", "crawler")

# --- Manners: the pace is per site over all workers, and private networks are left alone
ROBOTSTXT_OBEY = _env.flag("ROBOTSTXT_OBEY", True)
DOWNLOAD_DELAY = _env.number("DOWNLOAD_DELAY", 1.0)
CONCURRENT_REQUESTS = _env.integer("CONCURRENT_REQUESTS", 16, low=1)
CONCURRENT_ITEMS = _env.integer("CONCURRENT_ITEMS", 16, low=1)  # Scrapy starts so many tasks for each response
CONCURRENT_REQUESTS_PER_DOMAIN = _env.integer("CONCURRENT_REQUESTS_PER_DOMAIN", 1, low=1)
AUTOTHROTTLE_ENABLED = False  # it would tune each worker alone; the frontier keeps the pace for all of them
DOWNLOADER_MIDDLEWARES = {
    "crawler.guard.SchemeGuard": 935,
    "crawler.guard.PrivateAddressGuard": 940,
    "crawler.robots.RobotsCache": 945,
    "crawler.frontier.Politeness": 950,
    # Scrapy's own lets through what waits while robots.txt is fetched (crawler/robots.py).
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
    "crawler.robots.RobotsTxtMiddleware": 100,
    # Scrapy's own keeps what a decompression bomb unpacked for a while.
    "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
    "crawler.compression.HttpCompressionMiddleware": 590,
    # Scrapy's own two would drop a redirect to another spelling of the same page as a duplicate.
    "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None,
    "crawler.canonical.RedirectMiddleware": 600,
    "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware": None,
    "crawler.canonical.MetaRefreshMiddleware": 580,
}

# --- What a site can do to us: see docs/security.md
CRAWLER_ALLOW_PRIVATE = _env.flag("CRAWLER_ALLOW_PRIVATE", False)
CRAWLER_PRIVATE_HOSTS = _env.text("CRAWLER_PRIVATE_HOSTS")
CRAWLER_SCHEMES = _env.text("CRAWLER_SCHEMES", "http,https")
DOWNLOAD_MAXSIZE = _env.integer("DOWNLOAD_MAXSIZE", 64 * 1024**2)  # bytes, before and after decompression
DOWNLOAD_TIMEOUT = _env.number("DOWNLOAD_TIMEOUT", 60)  # seconds, from the connection to the last byte

# --- One URL, one page: what counts as the same request
REQUEST_FINGERPRINTER_CLASS = "crawler.canonical.CanonicalFingerprinter"
CANONICAL_RULES = _env.text("CANONICAL_RULES")  # further files like crawler/rules.toml, with commas
CANONICAL_GROUPS = _env.text("CANONICAL_GROUPS")
CANONICAL_OFF = _env.text("CANONICAL_OFF")
CANONICAL_AUDIT = _env.number("CANONICAL_AUDIT", 0)
CANONICAL_LEARN = _env.number("CANONICAL_LEARN", 0)

# --- Seen before?
FRONTIER = _env.choice("FRONTIER", "redis", ["redis", "memory"])  # memory: one process alone, without Redis
DUPEFILTER_CLASS = f"crawler.dedup.{'Bloom' if FRONTIER == 'redis' else 'MemoryBloom'}DupeFilter"
BLOOM_CAPACITY = _env.integer("BLOOM_CAPACITY", 1_000_000, low=1)
BLOOM_ERROR_RATE = _env.number("BLOOM_ERROR_RATE", 1e-6)
BLOOM_GROWTH = _env.flag("BLOOM_GROWTH", True)
BLOOM_BACKEND = _env.choice("BLOOM_BACKEND", "auto", ["auto", "bitmap", "native"])
DEDUP_SCOPE = _env.text("DEDUP_SCOPE")
DEDUP_WINDOW = _env.text("DEDUP_WINDOW")  # e.g. 30d: what was seen longer ago is new again
DEDUP_WINDOW_GENERATIONS = _env.integer("DEDUP_WINDOW_GENERATIONS", 4, low=1)
DEDUP_MEMORY_SIZE = _env.integer("DEDUP_MEMORY_SIZE", 10_000)
DEDUP_RECENT_SIZE = _env.integer("DEDUP_RECENT_SIZE", 1_000_000, low=2)  # for LayeredDupeFilter

# --- The shared frontier
SCHEDULER = "crawler.frontier.Scheduler" if FRONTIER == "redis" else "scrapy.core.scheduler.Scheduler"
SPIDER_MIDDLEWARES = {
    "crawler.frontier.StartOnce": 10,
    "crawler.canonical.AuditMiddleware": 20,
    "crawler.itemkeys.ItemFingerprint": 40,
}
SCHEDULER_PERSIST = _env.flag("SCHEDULER_PERSIST", True)
SCHEDULER_FLUSH_ON_START = _env.flag("SCHEDULER_FLUSH_ON_START", False)
FRONTIER_RUN = _env.text("FRONTIER_RUN")
FRONTIER_ORDER = _env.choice("FRONTIER_ORDER", "priority", ["priority", "fifo", "lifo"])
FRONTIER_HOST_DELAY = _env.number("FRONTIER_HOST_DELAY", 0) if _env.isset("FRONTIER_HOST_DELAY") else None
FRONTIER_HOST_CONCURRENCY = (
    _env.integer("FRONTIER_HOST_CONCURRENCY", 1, low=1) if _env.isset("FRONTIER_HOST_CONCURRENCY") else None
)
FRONTIER_BACKOFF = _env.number("FRONTIER_BACKOFF", 1)
FRONTIER_BACKOFF_MAX = _env.number("FRONTIER_BACKOFF_MAX", 600)
FRONTIER_CRAWL_DELAY_MAX = _env.number("FRONTIER_CRAWL_DELAY_MAX", 30)
FRONTIER_ROBOTS_TTL = _env.integer("FRONTIER_ROBOTS_TTL", 86_400)
FRONTIER_HOST_GIVE_UP = _env.number("FRONTIER_HOST_GIVE_UP", 14_400)
FRONTIER_HOST_MAX_PAGES = _env.integer("FRONTIER_HOST_MAX_PAGES", 0)
FRONTIER_MAX_REPEATED_SEGMENTS = _env.integer("FRONTIER_MAX_REPEATED_SEGMENTS", 10)
FRONTIER_CALENDAR_MAX = _env.integer("FRONTIER_CALENDAR_MAX", 1000)
FRONTIER_PIN_COOKIEJARS = _env.flag("FRONTIER_PIN_COOKIEJARS", False)  # a jar's requests go to one worker
FRONTIER_SHARDS = _env.integer("FRONTIER_SHARDS", 1, low=1, high=256)  # fixed for the life of the data
FRONTIER_WAIT_REPLICAS = _env.integer("FRONTIER_WAIT_REPLICAS", 0)
FRONTIER_LEASE = _env.number("FRONTIER_LEASE", 120, low=1)
FRONTIER_GRACE = _env.number("FRONTIER_GRACE", 8)
FRONTIER_IDLE = _env.number("FRONTIER_IDLE", 0)
FRONTIER_MAX_DELIVERIES = _env.integer("FRONTIER_MAX_DELIVERIES", 5, low=1)
FRONTIER_DEAD_MAX = _env.integer("FRONTIER_DEAD_MAX", 10_000)

# --- Output: JSON lines, one file per spider and worker, kept whole over crashes (`scrapy items SPIDER` merges them)
FEED_DIR = _env.text("FEED_DIR", "items")
FEED_BATCH_ITEMS = _env.integer("FEED_BATCH_ITEMS", 0)  # so many items, then the next file
_FEED = "%(worker)s-%(batch_time)s.jsonl" if FEED_BATCH_ITEMS else "%(worker)s.jsonl"
FEEDS = {f"%(feed_dir)s/%(name)s/{_FEED}": {"format": "jsonlines", "batch_item_count": FEED_BATCH_ITEMS}}
FEED_URI_PARAMS = "crawler.feeds.uri_params"
FEED_STORAGES = {"": "crawler.feeds.LocalFeedStorage", "file": "crawler.feeds.LocalFeedStorage"}
FEED_EXPORT_ENCODING = "utf-8"
ITEM_PIPELINES = {  # yours: "crawler.pipelines.Tidy": 100
    "crawler.output.RedisPipeline": 900,  # does nothing without REDIS_PIPELINE_ENABLED
    "crawler.output.PostgresPipeline": 910,  # does nothing without POSTGRES_URL
}
REDIS_PIPELINE_ENABLED = _env.flag("REDIS_PIPELINE_ENABLED", False)
POSTGRES_URL = _env.text("POSTGRES_URL")  # postgresql://user:password@host/database
POSTGRES_TABLE = _env.text("POSTGRES_TABLE", "items")

# --- Metrics: /metrics, /healthz and /readyz of each worker; a port that is taken moves on to the next
EXTENSIONS = {"crawler.metrics.MetricsExtension": 500}
METRICS_ENABLED = _env.flag("METRICS_ENABLED", True)
METRICS_HOST = _env.text("METRICS_HOST", "127.0.0.1")
METRICS_PORT = _env.integer("METRICS_PORT", 9410, high=65535)
METRICS_LINGER = _env.number("METRICS_LINGER", 0)
METRICS_TEXTFILE = _env.text("METRICS_TEXTFILE")
METRICS_SD_FILE = _env.text("METRICS_SD_FILE")

# --- Logs and doors. Scrapy opens a telnet console and a remote-control HTTP port by default; a worker needs neither.
LOG_LEVEL = _env.choice("LOG_LEVEL", "INFO", ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"])
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
TWISTED_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
