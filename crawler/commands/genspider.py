"""``scrapy genspider``: a spider from one of the templates in ``crawler/templates/spiders``."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scrapy.commands import genspider
from scrapy.commands.edit import _edit_file
from scrapy.spiderloader import get_spider_loader
from w3lib.url import safe_url_string

from crawler.commands.spider import one_line
from crawler.errors import ConfigError
from crawler.starts import is_web, sitemap_url

USAGE = "scrapy genspider [-t TEMPLATE] NAME URL"


class Command(genspider.Command):
    """Scrapy's command; what it cannot do is one line and exit code 2. ``-l`` lists the templates.

    Unlike Scrapy's, a spider may have the project's name (the package is always ``crawler``), and the domain is the
    URL's host without its port, which is what ``allowed_domains`` compares.
    """

    @one_line
    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Writes the spider's file, unless there is one."""
        if opts.list or opts.dump:
            super().run(args, opts)
            return
        if len(args) != 2:
            raise ConfigError("arguments", " ".join(args) or "(none)", f"give a name and a URL: {USAGE}")
        name, url = args[0], genspider.verify_url_scheme(args[1])
        if not is_web(url):
            raise ConfigError("URL", args[1], f"must be one URL with http:// or https://, as in {USAGE}")
        url = safe_url_string(url)
        if not re.fullmatch(r"[A-Za-z][\w.-]*", name):
            raise ConfigError("NAME", name, "must begin with a letter and have letters, digits, _ - . only")
        assert self.settings is not None
        if name in get_spider_loader(self.settings).list() and not opts.force:
            raise ConfigError("NAME", name, "there is such a spider; take another name, or overwrite it with --force")
        module = genspider.sanitize_module_name(name)
        if (Path(__file__).parents[1] / "spiders" / f"{module}.py").exists() and not opts.force:
            raise ConfigError("NAME", name, f"crawler/spiders/{module}.py is there; overwrite it with --force")
        template = self._template(opts.template)
        spider = self._genspider(module, name, url, opts.template, template)
        if opts.edit:
            self.exitcode = _edit_file(self.settings["EDITOR"], spider)

    def _template(self, name: str) -> Path:
        for path in (Path(name), Path(self.templates_dir, f"{name}.tmpl")):
            if path.suffix == ".tmpl" and path.is_file():
                return path
        known = sorted(path.stem for path in Path(self.templates_dir).glob("*.tmpl"))
        raise ConfigError("-t", name, f"must be one of {', '.join(known)}, or a .tmpl file")

    def _generate_template_variables(self, module: str, name: str, url: str, template_name: str) -> dict[str, Any]:
        variables = super()._generate_template_variables(module, name, url, template_name)
        return {**variables, "domain": urlsplit(url).hostname, "sitemap": sitemap_url(url)}
