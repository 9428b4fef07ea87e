"""Pages shaped like the two practice sites that the example spiders crawl, generated, so that tests run offline."""

from __future__ import annotations

from tests.support.pages import Answer

CATEGORIES = ["Travel", "Poetry", "Science"]
STARS = ["One", "Two", "Three", "Four", "Five"]


def quotes_site(pages: int = 3, per_page: int = 4) -> dict[str, str | Answer]:
    """Pages of quotes, each with a link to the next one; the first under ``/``."""
    site: dict[str, str | Answer] = {}
    for page in range(1, pages + 1):
        quotes = "".join(_quote(number) for number in range((page - 1) * per_page, page * per_page))
        after = (
            f'<li class="next"><a href="/page/{page + 1}/">Next <span>&rarr;</span></a></li>' if page < pages else ""
        )
        before = f'<li class="previous"><a href="/page/{page - 1}/">Previous</a></li>' if page > 1 else ""
        site["/" if page == 1 else f"/page/{page}/"] = f"""<!DOCTYPE html><html><head><title>Quotes</title></head><body>
            <h1><a href="/">Quotes</a></h1><p><a href="/login">Login</a></p><div class="col-md-8">{quotes}
            <nav><ul class="pager">{before}{after}</ul></nav></div>
            <div class="tags-box"><span class="tag-item"><a class="tag" href="/tag/love/">love</a></span></div>
            </body></html>"""
    site["/login"] = "<form><input name=user></form>"
    return site


def _quote(number: int) -> str:
    return f"""<div class="quote" itemscope><span class="text" itemprop="text">“Saying {number} &amp; more.”</span>
        <span>by <small class="author" itemprop="author">Author {number % 5}</small>
        <a href="/author/Author-{number % 5}">(about)</a></span><div class="tags">Tags:
        <a class="tag" href="/tag/n{number}/page/1/">n{number}</a> <a class="tag" href="/tag/all/page/1/">all</a>
        </div></div>"""


def books_site(books: int = 12, per_page: int = 3) -> dict[str, str | Answer]:
    """A shop: all books page by page, the same by category, one page per book. Book N costs N.50 pounds."""
    site: dict[str, str | Answer] = {}
    everything = list(range(books))
    _list(site, "/index.html", "/catalogue/page-{}.html", everything, per_page)
    site["/"] = site["/index.html"]
    for number, category in enumerate(CATEGORIES):
        folder = f"/catalogue/category/books/{category.lower()}_{number + 2}"
        of_category = [book for book in everything if book % len(CATEGORIES) == number]
        _list(site, f"{folder}/index.html", folder + "/page-{}.html", of_category, per_page)
    for book in everything:
        site[f"/catalogue/book-{book}_{book}/index.html"] = _product(book)
    return site


def _list(site: dict[str, str | Answer], first: str, other: str, books: list[int], per_page: int) -> None:
    pages = [books[start : start + per_page] for start in range(0, len(books), per_page)]
    paths = [first, *(other.format(page) for page in range(2, len(pages) + 1))]
    for page, (path, shown) in enumerate(zip(paths, pages, strict=True)):
        after = f'<li class="next"><a href="{paths[page + 1]}">next</a></li>' if page + 1 < len(paths) else ""
        before = f'<li class="previous"><a href="{paths[page - 1]}">previous</a></li>' if page else ""
        products = "".join(f"<li>{_pod(book)}</li>" for book in shown)
        site[path] = f"""<html><head><title>All products</title></head><body>
            <ul class="breadcrumb"><li><a href="/index.html">Home</a></li></ul>{_navigation()}
            <ol class="row">{products}</ol><ul class="pager">{before}<li class="current">Page</li>{after}</ul>
            </body></html>"""


def _navigation() -> str:
    links = "".join(
        f'<li><a href="/catalogue/category/books/{name.lower()}_{number + 2}/index.html">\n  {name}\n</a></li>'
        for number, name in enumerate(CATEGORIES)
    )
    return f"""<div class="side_categories"><ul class="nav nav-list"><li><a href="/index.html">Books</a>
        <ul>{links}</ul></li></ul></div>"""


def _pod(book: int) -> str:
    return f"""<article class="product_pod"><div class="image_container">
        <a href="/catalogue/book-{book}_{book}/index.html"><img src="/media/{book}.jpg"></a></div>
        <p class="star-rating {STARS[book % 5]}"></p>
        <h3><a href="/catalogue/book-{book}_{book}/index.html" title="Book {book}">Book ...</a></h3>
        <div class="product_price"><p class="price_color">£{book}.50</p>
        <p class="instock availability">In stock</p></div>
        </article>"""


def _product(book: int) -> str:
    category = CATEGORIES[book % len(CATEGORIES)]
    stock = "In stock (3 available)" if book % 2 else "Out of stock"
    return f"""<html><head><title>Book {book} | Shop</title></head><body><ul class="breadcrumb">
        <li><a href="/index.html">Home</a></li><li><a href="/catalogue/category/books_1/index.html">Books</a></li>
        <li><a href="../category/x/index.html">{category}</a></li><li class="active">Book {book}</li></ul>
        <article class="product_page"><div class="col-sm-6 product_main"><h1>Book {book}</h1>
        <p class="price_color">£{book}.50</p><p class="instock availability"><i class="icon-ok"></i>
        {stock}
        </p><p class="star-rating {STARS[book % 5]}"><i class="icon-star"></i></p></div>
        <table><tr><th>Price</th><td>£0.00</td></tr></table></article></body></html>"""
