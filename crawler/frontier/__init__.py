"""The shared frontier: admitted request → queue → lease → acknowledgement."""

from crawler.frontier.politeness import Politeness
from crawler.frontier.scheduler import FAILED_REASONS, Scheduler
from crawler.frontier.start import StartOnce

__all__ = ["FAILED_REASONS", "Politeness", "Scheduler", "StartOnce"]
