"""One page of HTML that stands alone: no script, no request, light and dark, read by keyboard, by ear and on paper."""

from __future__ import annotations

import base64
import hashlib
import html
from typing import Final

from orchconverge.core.views.text import clean

_STYLE: Final = """
:root{--bg:#fcfcfa;--fg:#23272f;--mute:#5c6470;--line:#d9dce2;--card:#fff;--run:#3d4552;--met:#1a7a45;--need:#ffd166;
--needfg:#2b2100;--focus:#0b57d0}
@media(prefers-color-scheme:dark){:root{--bg:#16181d;--fg:#e3e6ec;--mute:#a0a7b4;--line:#333843;--card:#1c1f26;
--run:#c2c8d2;--met:#7cc48a;--need:#e2b55c;--needfg:#1d1600;--focus:#8ab4f8}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1280px;margin:0 auto;padding:28px 20px 60px;overflow-wrap:anywhere}
h1{font-size:22px;margin:0}h2{font-size:17px;margin:34px 0 10px}h3{font-size:15px;margin:22px 0 6px}
code{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}pre{overflow-x:auto}
blockquote{margin:6px 0 12px;padding-left:12px;border-left:3px solid var(--line);color:var(--mute)}
a{color:inherit}a:focus-visible,.chart:focus-visible{outline:3px solid var(--focus);outline-offset:2px;border-radius:3px}
.skip{position:absolute;left:-9999px}.skip:focus{left:12px;top:12px;background:var(--card);padding:8px}
.sub{color:var(--mute);margin:2px 0 18px}.quiet{color:var(--mute);margin:6px 0}
.need{background:var(--need);color:var(--needfg);padding:10px 14px;border-radius:6px;margin:0 0 18px}
.need b{margin-right:.6em}.need code{font-weight:600}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;vertical-align:top;padding:4px 14px 4px 0;border-top:1px solid var(--line)}
th{font-weight:600;overflow-wrap:normal}th.g{width:7em}td.n,th.n{text-align:right}
td.k{white-space:nowrap;color:var(--mute);width:7.5em}
td.t{white-space:nowrap;color:var(--mute);width:4em;font-variant-numeric:tabular-nums}
tr:target{background:color-mix(in srgb,var(--need) 30%,transparent)}
footer{margin-top:40px;color:var(--mute);font-size:13px}
.chart{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:8px}
svg{display:block;min-width:980px;width:100%;height:auto;font:13px system-ui,sans-serif}svg.wide{width:auto}
figure{margin:12px 0}nav .key{margin:12px 0 18px}
.key{display:flex;flex-wrap:wrap;gap:6px 18px;list-style:none;padding:0;margin:12px 0 0;color:var(--mute)}
.key li{display:flex;align-items:center;gap:6px}.key svg{min-width:0;width:22px;height:22px}
.badge{fill:var(--card);stroke:var(--fg);stroke-width:1.6}.badge.full{fill:var(--met);stroke:var(--met)}
.badge.warn{fill:var(--need);stroke:var(--needfg)}
.lt{font-weight:700;font-size:11px;text-anchor:middle;fill:var(--fg)}.lt.in{fill:var(--bg)}.lt.warn{fill:var(--needfg)}
.run{stroke:var(--run);stroke-width:5;stroke-linecap:round}
.idle{stroke:var(--mute);stroke-width:1.5;stroke-dasharray:1 6;stroke-linecap:round}
.day,.axis{stroke:var(--line)}.whole{stroke:var(--mute);stroke-width:1.5;stroke-dasharray:5 4}
.dl{fill:var(--mute)}.dl.now{fill:var(--fg);font-weight:700}.dl.mid{text-anchor:middle}.dl.end{text-anchor:end}
.gap{fill:var(--mute);font-size:11.5px;text-anchor:middle;paint-order:stroke;stroke:var(--card);stroke-width:6px}
.nm{font-weight:700;fill:var(--fg)}.st{fill:var(--mute);font-size:12px}.stn{fill:var(--fg);font-weight:700;font-size:12px}
.met{fill:var(--met)}.work{fill:var(--run)}.wait{fill:var(--card);stroke:var(--mute);stroke-dasharray:3 2}
@media(max-width:600px){table{display:block;overflow-x:auto}td,th{padding-right:8px;font-size:13px}
td.k,td.k+td{display:block;width:auto}td.k+td{border-top:0;padding-top:0}}
@media print{body{background:#fff}.chart{border:0;overflow:visible}svg,svg.wide{min-width:0;width:100%}
tr,svg{break-inside:avoid}.skip{display:none}}
"""
_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY: Final = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"
"""Nothing is loaded, run or sent, and no other style than ours applies: not even one in an attribute."""


def words(text: str, most: int | None = None) -> str:
    """Untrusted text as words of a page, or as an attribute in double quotes; clipped to ``most`` cells."""
    return html.escape(clean(text, most))


def page(title: str, body: str) -> str:
    """A whole page: ``title`` is text, ``body`` is HTML, in which every word of others went through `words`."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{words(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )
