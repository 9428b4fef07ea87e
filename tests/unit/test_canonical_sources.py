"""Where site rules come from: files, spiders, settings and what is shipped; they prove themselves at the start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scrapy import Spider
from scrapy.settings import Settings

from crawler.canonical import sources
from crawler.errors import ConfigError

RULE = '[[site]]\nhosts = ["a.example"]\nstrip = ["x"]\n'
APART = 'different = [["http://a.example/1", "http://a.example/2"]]\n'


def load(tmp_path: Path, text: str, **settings: Any) -> sources.RuleSet:
    file = tmp_path / "my.toml"
    file.write_text(text, "utf-8")
    return sources.load(Settings({"CANONICAL_RULES": str(file), **settings}))


def test_an_example_that_fails_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, RULE + APART + 'same = [["http://a.example/?x=1", "http://a.example/?y=1"]]').checked()
    assert str(caught.value).endswith(
        "my.toml: site 1 (a.example): same 1=http://a.example/?x=1 http://a.example/?y=1: "
        "they stay apart as http://a.example/ and http://a.example/?y=1"
    )
    with pytest.raises(ConfigError, match=r"different 1=.*: they both become http://a.example/$"):
        load(tmp_path, RULE + 'different = [["http://a.example/?x=1", "http://a.example/?x=2"]]').checked()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[[site]\n", "my.toml=not TOML: "),
        ("[site]\nhosts = ['a']\n", "my.toml: site={'hosts': ['a']}: must be an array of tables: write [[site]]"),
        ("[[sites]]\n", "my.toml: sites="),
        ("x = " + "[" * 100_000, "my.toml=not TOML: values are nested too deeply"),
        ('"c\\nd" = 1', "my.toml: c\\nd=1: unknown key"),
    ],
)
def test_a_file_that_is_no_rule_file(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert line in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    assert load(tmp_path, "\ufeff" + RULE + APART).checked().canonical("http://a.example/?x=1") == "http://a.example/"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    with pytest.raises(ConfigError, match=f"CANONICAL_RULES={missing}: cannot be read: No such file"):
        sources.load(Settings({"CANONICAL_RULES": [str(missing)]}))
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        sources.load(Settings({"CANONICAL_RULES": str(tmp_path / "latin.toml")}))


@pytest.mark.parametrize(("name", "value"), [("CANONICAL_GROUPS", "sessions"), ("CANONICAL_OFF", "everything")])
def test_unknown_words_in_settings(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}={value}: must be one of "):
        sources.load(Settings({name: value}))


class RuledSpider(Spider):
    name = "ruled"
    canonical_rules = [{"hosts": ["c.example"], "fold": ["www"],
                        "different": [["http://c.example/1", "http://c.example/2"]]}]  # fmt: skip


def test_three_sources_and_the_groups(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(RULE + APART)
    settings = Settings({"CANONICAL_RULES": str(tmp_path / "my.toml"), "CANONICAL_GROUPS": "cachebuster,session"})
    made = sources.load(settings, RuledSpider).checked()
    assert made.canonical("http://www.simple.test/A/") == "https://simple.test/a"
    assert made.canonical("http://a.example/?x=1") == "http://a.example/"
    assert made.canonical("http://www.c.example/?_=1700000000000") == "http://c.example/"


def test_a_spiders_rules_as_toml_text() -> None:
    class Texted(Spider):
        name = "texted"
        canonical_rules = RULE + APART

    assert sources.load(Settings(), Texted).checked().canonical("http://a.example/?x=1") == "http://a.example/"
    Texted.canonical_rules = "[[site]]\nhosts = []"
    with pytest.raises(ConfigError, match=r"spider texted: site 1: hosts=\[\]"):
        sources.load(Settings(), Texted)


def test_the_shipped_rules_hold_and_each_proves_itself() -> None:
    made = sources.load(Settings())
    made.checked()
    assert len(made.sites) >= 5
    assert all(site.same and site.different for site in made.sites)
    assert all(host.endswith(".test") for site in made.sites for host in site.hosts), "no real host by default"


def test_the_shipped_shop_rule_leaves_the_list_alone() -> None:
    made = sources.load(Settings()).checked()
    assert made.canonical("https://shop.test/product/?id=1&x=2") == "https://shop.test/product/?id=1"
    for path in ("products", "product-list"):
        assert made.canonical(f"https://shop.test/{path}?page=2") == f"https://shop.test/{path}?page=2"


def test_the_version_follows_what_can_change_a_key(tmp_path: Path) -> None:
    base = load(tmp_path, RULE + APART).version
    same = 'same = [["http://a.example/?x=1", "http://a.example/"]]\n'
    assert load(tmp_path, "# words\n" + RULE + same + APART).version == base
    assert load(tmp_path, RULE.replace('"x"', '"y"') + APART).version != base
    assert load(tmp_path, RULE + APART, CANONICAL_GROUPS="session").version != base
    assert load(tmp_path, RULE + APART, CANONICAL_OFF="email").version != base
