/* SPDX-License-Identifier: Apache-2.0 */
/* How the page looks: light and dark, from telephones to walls, and on A4. */
#ifndef SHOAL_CLI_REPORT_STYLE_H
#define SHOAL_CLI_REPORT_STYLE_H

static const char report_style[] =
    ":root{color-scheme:light dark;--ink:#1a1a1a;--ground:#fff;--soft:#595959;--line:#ccc;"
    "--accent:#0b5394;--shade:213,94,0}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#ececec;--ground:#161616;--soft:#b5b5b5;"
    "--line:#4a4a4a;--accent:#8ec5ff}svg .ground{fill:#161616}svg text{fill:#ececec}"
    "svg [stroke='#dddddd']{stroke:#3a3a3a}svg [stroke='#333333']{stroke:#b5b5b5}"
    "svg [stroke='#000000']{stroke:#fff}svg [color='#000000']{color:#fff}"
    "svg [stroke='#0072b2']{stroke:#4aa8e8}svg [color='#0072b2']{color:#4aa8e8}"
    "svg [fill='#0072b2']{fill:#4aa8e8}}\n"
    "@media(prefers-color-scheme:light),print{"
    "svg [stroke='#e69f00']{stroke:#b07600}svg [color='#e69f00']{color:#b07600}"
    "svg [stroke='#56b4e9']{stroke:#2b8bc4}svg [color='#56b4e9']{color:#2b8bc4}}\n"
    "*{box-sizing:border-box}body{margin:0 auto;padding:1rem;max-width:112rem;color:var(--ink);"
    "background:var(--ground);font:1rem/1.5 sans-serif}\n"
    "h1,h2,h3{line-height:1.2;overflow-wrap:anywhere}h2{border-top:2px solid var(--line);"
    "padding-top:1rem}a{color:var(--accent)}p,li,dd{overflow-wrap:anywhere;max-width:60rem}\n"
    ".skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:1rem;background:var(--ground);"
    "padding:.5rem}\n"
    ":focus-visible{outline:3px solid var(--accent);outline-offset:2px}\n"
    "nav ul{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.3rem 1.2rem}\n"
    ".verdict{border-left:6px solid var(--accent);padding:.2rem 1rem}.verdict "
    "strong{font-size:1.1rem}"
    "\n"
    ".pictures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,34rem),1fr));"
    "gap:1rem}figure{margin:0;min-width:0}figure svg{max-width:100%;height:auto;display:block}\n"
    ".wide{overflow-x:auto;max-width:100%}table{border-collapse:collapse;margin:.5rem 0}"
    "caption{text-align:left;font-weight:bold}th,td{border:1px solid var(--line);"
    "padding:.15rem .5rem;text-align:right;vertical-align:top;font-variant-numeric:tabular-nums}"
    "td.text,th[scope=row]{text-align:left;overflow-wrap:anywhere}"
    "td[style]{background:rgba(var(--shade),calc(var(--w)*.55))}\n"
    "dl{display:grid;grid-template-columns:minmax(6rem,max-content) minmax(0,1fr);gap:.2rem 1rem}"
    "dt{color:var(--soft)}dd{margin:0}code{overflow-wrap:anywhere}summary{cursor:pointer}\n"
    "@media(max-width:40rem){dl{grid-template-columns:1fr}dt{margin-top:.4rem}"
    "figure{overflow-x:auto}figure svg{min-width:34rem}}\n"
    "@page{size:A4;margin:14mm}\n"
    "@media print{:root{--ink:#000;--ground:#fff;--soft:#333;--line:#888;--accent:#000}"
    "body{padding:0;font-size:9.5pt;max-width:none}nav,.skip{display:none}svg .ground{fill:#fff}"
    "svg text{fill:#000}svg [stroke='#dddddd']{stroke:#ccc}svg [stroke='#333333']{stroke:#000}"
    "figure,tr,.verdict{break-inside:avoid}h2,h3{break-after:avoid}"
    "section.run+section.run{break-before:page}.wide{overflow:visible}"
    "table{font-size:6pt}th,td{padding:.1rem .15rem}td.text,th[scope=row]{min-width:4.4em}"
    ".pictures{grid-template-columns:1fr 1fr}figure svg{min-width:0}}\n";

#endif
