"""YOURS: the whole wiring on one page. Deployment values come from the environment or ``.env``, by their names here.

``docs/settings.md`` explains each line. Most can be set for one run too: ``scrapy crawl NAME -s DOWNLOAD_DELAY=2``.
"""

import os
import socket
from pathlib import Path

from scrapy.settings import default_settings as scrapys

from crawler.consoles import imported_late
from crawler.env import Env

_env = Env.load()

# --- Identity: who is crawling. Site owners read this, so let CONTACT be a page or an address where they reach you.
BOT_NAME = _env.header("BOT_NAME", "crawler")
USER_AGENT = _env.header("USER_AGENT", f"{BOT_NAME}/1.0 (+{_env.header('CONTACT', 'contact not set')})")
ROBOTSTXT_USER_AGENT = BOT_NAME  # the name that robots.txt rules are matched against
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
REDIS_KEY_PREFIX = _env.text("REDIS_KEY_PREFIX", "crawler")  # first part of every key

# --- Manners: the pace is per site over all workers, and private networks are left alone
ROBOTSTXT_OBEY = _env.flag("ROBOTSTXT_OBEY", True)
DOWNLOAD_DELAY = _env.number("DOWNLOAD_DELAY", 1.0)  # seconds between two requests to one site
CONCURRENT_REQUESTS = _env.integer("CONCURRENT_REQUESTS", 16, low=1)  # in flight in one worker
CONCURRENT_ITEMS = _env.integer("CONCURRENT_ITEMS", 16, low=1)  # Scrapy starts so many tasks for each response
CONCURRENT_REQUESTS_PER_DOMAIN = _env.integer("CONCURRENT_REQUESTS_PER_DOMAIN", 1, low=1)  # in flight at one site
AUTOTHROTTLE_ENABLED = False  # it would tune each worker alone; the frontier keeps the pace for all of them
DOWNLOADER_MIDDLEWARES_BASE = {  # yours go into DOWNLOADER_MIDDLEWARES, here or in a spider, and add to these
    **scrapys.DOWNLOADER_MIDDLEWARES_BASE,
    "crawler.guard.SchemeGuard": 935,
    "crawler.guard.PrivateAddressGuard": 940,
    "crawler.robots.RobotsCache": 945,
    "crawler.frontier.politeness.Politeness": 950,
    # Scrapy's own lets through what waits while robots.txt is fetched (crawler/robots.py).
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
    "crawler.robots.RobotsTxtMiddleware": 100,
    # Scrapy's own keeps what a decompression bomb unpacked for a while.
    "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
    "crawler.compression.HttpCompressionMiddleware": 590,
    # Scrapy's own two would drop a redirect to another spelling of the same page as a duplicate.
    "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None,
    "crawler.canonical.redirects.RedirectMiddleware": 600,
    "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware": None,
    "crawler.canonical.redirects.MetaRefreshMiddleware": 580,
}

# --- What a site can do to us: see docs/security.md
CRAWLER_ALLOW_PRIVATE = _env.flag("CRAWLER_ALLOW_PRIVATE", False)  # 1: private and local addresses too
CRAWLER_PRIVATE_HOSTS = _env.text("CRAWLER_PRIVATE_HOSTS")  # these only, with commas
CRAWLER_SCHEMES = _env.text("CRAWLER_SCHEMES", "http,https")
DOWNLOAD_MAXSIZE = _env.integer("DOWNLOAD_MAXSIZE", 64 * 1024**2)  # bytes, before and after decompression
DOWNLOAD_TIMEOUT = _env.number("DOWNLOAD_TIMEOUT", 60)  # seconds, from the connection to the last byte

# --- One URL, one page: what counts as the same request
REQUEST_FINGERPRINTER_CLASS = "crawler.canonical.CanonicalFingerprinter"
CANONICAL_RULES = _env.text("CANONICAL_RULES")  # further files like crawler/rules.toml, with commas
CANONICAL_GROUPS = _env.text("CANONICAL_GROUPS")  # opt-in parameters to drop everywhere: session, cachebuster, ...
CANONICAL_OFF = _env.text("CANONICAL_OFF")  # trackers that are to stay: campaign, email, ...
CANONICAL_AUDIT = _env.number("CANONICAL_AUDIT", 0)  # share of changed URLs fetched twice, to find rules that eat pages
CANONICAL_LEARN = _env.number("CANONICAL_LEARN", 0)  # the same, to find rules that are missing

# --- Seen before?
FRONTIER = _env.choice("FRONTIER", "redis", ["redis", "memory"])  # memory: one process alone, without Redis
DUPEFILTER_CLASS = f"crawler.dedup.{'Bloom' if FRONTIER == 'redis' else 'MemoryBloom'}DupeFilter"
BLOOM_CAPACITY = _env.integer("BLOOM_CAPACITY", 1_000_000, low=1)  # pages
BLOOM_ERROR_RATE = _env.number("BLOOM_ERROR_RATE", 1e-6)  # share of new pages taken for seen
BLOOM_GROWTH = _env.flag("BLOOM_GROWTH", True)  # 0: refuse new work when it is full
BLOOM_BACKEND = _env.choice("BLOOM_BACKEND", "auto", ["auto", "bitmap", "native"])  # native: the server's own BF.*
DEDUP_SCOPE = _env.text("DEDUP_SCOPE")  # a name: all spiders with it share one memory
DEDUP_WINDOW = _env.text("DEDUP_WINDOW")  # e.g. 30d: what was seen longer ago is new again
DEDUP_WINDOW_GENERATIONS = _env.integer("DEDUP_WINDOW_GENERATIONS", 4, low=1)  # steps in which the window moves
DEDUP_MEMORY_SIZE = _env.integer("DEDUP_MEMORY_SIZE", 10_000)  # fingerprints known without asking Redis
DEDUP_RECENT_SIZE = _env.integer("DEDUP_RECENT_SIZE", 1_000_000, low=2)  # for LayeredDupeFilter

# --- The shared frontier
SCHEDULER = "crawler.frontier.Scheduler" if FRONTIER == "redis" else "scrapy.core.scheduler.Scheduler"
SPIDER_MIDDLEWARES_BASE = {  # yours: SPIDER_MIDDLEWARES
    **scrapys.SPIDER_MIDDLEWARES_BASE,
    "crawler.frontier.start.StartOnce": 10,
    "crawler.canonical.audit.AuditMiddleware": 20,
    "crawler.itemkeys.ItemFingerprint": 40,
}
SCHEDULER_PERSIST = _env.flag("SCHEDULER_PERSIST", True)  # 0: a finished run frees its memory
SCHEDULER_FLUSH_ON_START = _env.flag("SCHEDULER_FLUSH_ON_START", False)  # a new run begins with an empty memory
FRONTIER_RUN = _env.text("FRONTIER_RUN")  # pins workers to the run of this name
FRONTIER_ORDER = _env.choice("FRONTIER_ORDER", "priority", ["priority", "fifo", "lifo"])  # within a site
FRONTIER_HOST_DELAY = _env.number("FRONTIER_HOST_DELAY", 0) if _env.isset("FRONTIER_HOST_DELAY") else None
FRONTIER_HOST_CONCURRENCY = (
    _env.integer("FRONTIER_HOST_CONCURRENCY", 1, low=1) if _env.isset("FRONTIER_HOST_CONCURRENCY") else None
)
FRONTIER_BACKOFF = _env.number("FRONTIER_BACKOFF", 1)  # seconds that a failing site is left alone; doubles
FRONTIER_BACKOFF_MAX = _env.number("FRONTIER_BACKOFF_MAX", 600)  # seconds
FRONTIER_CRAWL_DELAY_MAX = _env.number("FRONTIER_CRAWL_DELAY_MAX", 30)  # seconds; a longer Crawl-delay counts as this
FRONTIER_ROBOTS_TTL = _env.integer("FRONTIER_ROBOTS_TTL", 86_400)  # seconds that robots.txt is kept for all workers
FRONTIER_HOST_GIVE_UP = _env.number("FRONTIER_HOST_GIVE_UP", 14_400)  # seconds without any answer
FRONTIER_HOST_MAX_PAGES = _env.integer("FRONTIER_HOST_MAX_PAGES", 0)  # in one run; 0: no cap
FRONTIER_MAX_REPEATED_SEGMENTS = _env.integer("FRONTIER_MAX_REPEATED_SEGMENTS", 10)  # more: a trap
FRONTIER_CALENDAR_MAX = _env.integer("FRONTIER_CALENDAR_MAX", 1000)  # pages of odd dates of one calendar
FRONTIER_PIN_COOKIEJARS = _env.flag("FRONTIER_PIN_COOKIEJARS", False)  # a jar's requests go to one worker
FRONTIER_SHARDS = _env.integer("FRONTIER_SHARDS", 1, low=1, high=256)  # fixed for the life of the data
FRONTIER_WAIT_REPLICAS = _env.integer("FRONTIER_WAIT_REPLICAS", 0)  # that must have what was admitted
FRONTIER_LEASE = _env.number("FRONTIER_LEASE", 120, low=1)  # seconds until a silent worker's requests go to another
FRONTIER_GRACE = _env.number("FRONTIER_GRACE", 8)  # seconds that a stopped worker takes to finish
FRONTIER_IDLE = _env.number("FRONTIER_IDLE", 0)  # seconds without work after which a waiting spider ends; 0: never
FRONTIER_MAX_DELIVERIES = _env.integer("FRONTIER_MAX_DELIVERIES", 5, low=1)  # more: a dead letter
FRONTIER_DEAD_MAX = _env.integer("FRONTIER_DEAD_MAX", 10_000)  # newest dead letters kept

# --- Output: JSON lines, one file per spider and worker, kept whole over crashes (`scrapy items SPIDER` merges them)
FEED_DIR = _env.text("FEED_DIR", "items")
FEED_BATCH_ITEMS = _env.integer("FEED_BATCH_ITEMS", 0)  # so many items, then the next file
_FEED = "%(worker)s-%(batch_time)s.jsonl" if FEED_BATCH_ITEMS else "%(worker)s.jsonl"
FEEDS = {f"%(feed_dir)s/%(name)s/{_FEED}": {"format": "jsonlines", "batch_item_count": FEED_BATCH_ITEMS}}
FEED_URI_PARAMS = "crawler.feeds.uri_params"
FEED_STORAGES = {"": "crawler.feeds.LocalFeedStorage", "file": "crawler.feeds.LocalFeedStorage"}
FEED_EXPORT_ENCODING = "utf-8"
ITEM_PIPELINES: dict[str, int | None] = {}  # yours: "crawler.pipelines.Tidy": 100
ITEM_PIPELINES_BASE = {
    "crawler.output.redis_list.RedisPipeline": 900,  # does nothing without REDIS_PIPELINE_ENABLED
    "crawler.output.postgres.PostgresPipeline": 910,  # does nothing without POSTGRES_URL
}
REDIS_PIPELINE_ENABLED = _env.flag("REDIS_PIPELINE_ENABLED", False)
POSTGRES_URL = _env.text("POSTGRES_URL")  # postgresql://user:password@host/database
POSTGRES_TABLE = _env.text("POSTGRES_TABLE", "items")

# --- Metrics: /metrics, /healthz, /readyz and /livez of each worker; a port that is taken moves on to the next
EXTENSIONS_BASE = {  # yours: EXTENSIONS
    **imported_late(scrapys.EXTENSIONS_BASE),
    "crawler.metrics.extension.MetricsExtension": 500,
}
METRICS_ENABLED = _env.flag("METRICS_ENABLED", True)
METRICS_HOST = _env.text("METRICS_HOST", "127.0.0.1")
METRICS_PORT = _env.integer("METRICS_PORT", 9410, high=65535)
METRICS_LINGER = _env.number("METRICS_LINGER", 0)  # seconds that a finished worker waits for a last scrape
METRICS_TEXTFILE = _env.text("METRICS_TEXTFILE")  # also a file for node_exporter
METRICS_SD_FILE = _env.text("METRICS_SD_FILE")  # this worker's address, for Prometheus's file discovery

# --- Logs and doors. Scrapy opens a telnet console and a remote-control HTTP port by default; a worker needs neither.
LOG_LEVEL = _env.choice("LOG_LEVEL", "INFO", ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"])
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
# The cookies middleware would ask the internet for the list of public suffixes, and hold up everything meanwhile.
os.environ.setdefault("TLDEXTRACT_PUBLIC_SUFFIX_LIST_URLS", "")  # nothing: the list that its package brings
TWISTED_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
