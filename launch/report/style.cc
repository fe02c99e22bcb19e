#include <nestor/launch/report/style.h>

namespace nestor::launch {

const std::string_view kReportStyle = R"css(
:root{color-scheme:light dark;
--page:#f6f6f3;--card:#fff;--ink:#16181d;--soft:#5b616b;--line:#e3e3dd;--grid:#ededE8;--good:#177245;--bad:#b3261e;
--series-1:#2563c9;--series-2:#c2570c;--series-3:#0b8476;--series-4:#8a3fb8;--series-5:#a8700a;--series-6:#c2255c;--series-7:#4b5563;--series-8:#5a8f1e;
--shadow:0 1px 2px rgb(20 20 30/.05),0 4px 16px rgb(20 20 30/.04)}
@media (prefers-color-scheme:dark){:root{
--page:#111316;--card:#191c20;--ink:#eceef1;--soft:#9aa1ab;--line:#2a2e34;--grid:#24282d;--good:#58c48b;--bad:#ff8a80;
--series-1:#6ea8fe;--series-2:#f59a57;--series-3:#4cc9b8;--series-4:#c792ea;--series-5:#e0b354;--series-6:#f783ac;--series-7:#a3adba;--series-8:#a5d36a;
--shadow:none}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;-webkit-font-smoothing:antialiased}
main{max-width:1180px;margin:0 auto;padding:40px 24px 64px}
header{margin-bottom:28px}
.kicker{font-size:12px;letter-spacing:.09em;text-transform:uppercase;color:var(--soft);font-weight:600}
h1{font-size:32px;line-height:1.15;letter-spacing:-.02em;margin:4px 0 6px;font-weight:680}
header p{margin:0;color:var(--soft);max-width:74ch}
h2{font-size:19px;letter-spacing:-.01em;margin:44px 0 4px;font-weight:650}
h2+p{margin:0 0 14px;color:var(--soft);max-width:78ch}
h3{font-size:13px;font-weight:600;margin:18px 0 6px;color:var(--soft)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(126px,1fr));gap:12px;margin-top:22px}
.card{line-height:1.35;background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px 16px;box-shadow:var(--shadow)}
.card b{display:block;white-space:nowrap;font-size:23px;line-height:1.2;letter-spacing:-.02em;font-weight:640;font-variant-numeric:tabular-nums}
.card b small{font-size:14px;font-weight:500;color:var(--soft);letter-spacing:0}
.card span{font-size:12.5px;color:var(--soft)}
.grid2{display:grid;grid-template-columns:repeat(auto-fit,minmax(440px,1fr));gap:14px}
.panel{margin:0;background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px 16px 10px;box-shadow:var(--shadow);position:relative;min-width:0}
.panel.wide{overflow-x:auto}
.panel.wide svg{display:block}
figcaption{display:flex;flex-wrap:wrap;gap:4px 16px;justify-content:space-between;align-items:baseline;font-size:13.5px;margin-bottom:6px}
figcaption b{font-weight:620}
.legend{display:flex;flex-wrap:wrap;gap:4px 14px;color:var(--soft);font-size:12.5px}
.legend span{display:inline-flex;align-items:center;gap:6px}
.rule{width:16px;height:0;border-top:2.5px solid var(--c);border-radius:2px}
.ring{width:9px;height:9px;border:2px solid var(--c);border-radius:50%}
.box{width:11px;height:11px;border-radius:3px;background:var(--c)}
svg.chart{width:100%;height:auto;display:block;overflow:visible}
.plot{overflow:hidden}
.chart .grid line,.chart line.grid{stroke:var(--grid);stroke-width:1}
.chart .axis{stroke:var(--line)}
.chart .tick{fill:var(--soft);font-size:11.5px;font-variant-numeric:tabular-nums}
.chart .curve{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.chart .faint{fill:none;stroke-width:1;opacity:.28}
.chart .dot{fill:var(--card);stroke-width:2}
.chart .cross{stroke:var(--soft);stroke-dasharray:3 3;opacity:.7}
.tip{position:absolute;pointer-events:none;background:var(--ink);color:var(--page);border-radius:8px;padding:6px 10px;font-size:12.5px;line-height:1.45;white-space:nowrap;display:none;z-index:2;font-variant-numeric:tabular-nums}
.tip i{display:inline-block;width:8px;height:8px;border-radius:50%;margin-right:6px}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(165px,1fr));gap:12px}
.tile{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:12px;box-shadow:var(--shadow);text-align:center;min-width:0}
.tile img{width:64px;height:64px;image-rendering:pixelated;background:#fff;border-radius:6px;border:1px solid var(--line)}
.tile .pair{display:flex;justify-content:center;gap:8px}
.tile .pair div{font-size:11px;color:var(--soft)}
.tile .pair img{display:block}
.tile p{margin:8px 0 0;font-size:13px;line-height:1.35;overflow-wrap:anywhere}
.tile p.name{font-weight:560}
.right{color:var(--good)}.wrong{color:var(--bad)}
.muted{color:var(--soft)}
.timelines h2{font-size:14px;margin:18px 0 4px}.timelines h2:first-child{margin-top:4px}
.timelines .figures{display:flex;flex-wrap:wrap;gap:6px 26px;margin:0 0 8px}
.timelines .figure b{display:inline;font-size:14px;font-weight:600;font-variant-numeric:tabular-nums;margin-right:6px}
.timelines .figure span,.soft{color:var(--soft);font-size:12.5px}
.timelines .legend{margin:2px 0 4px}.timelines .legend svg{display:inline-block}
.scroll{overflow-x:auto;padding:6px 0 10px}
.nt-arrows{display:none}.timelines:has(.show-arrows:checked) .nt-arrows{display:inline}
.peaks{margin-top:14px}
table{border-collapse:collapse;font-size:13.5px;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:5px 14px 5px 0;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}
th{font-weight:600;color:var(--soft);font-size:12.5px}
details{margin-top:40px;background:var(--card);border:1px solid var(--line);border-radius:12px;padding:12px 16px}
summary{cursor:pointer;font-weight:600}
pre{overflow:auto;font:12.5px/1.5 ui-monospace,"SFMono-Regular",Menlo,Consolas,"DejaVu Sans Mono",monospace;margin:12px 0 4px}
footer{margin-top:32px;color:var(--soft);font-size:12.5px}
@media (max-width:560px){main{padding:24px 14px 40px}.grid2{grid-template-columns:1fr}h1{font-size:26px}}
@media print{body{background:#fff}.panel,.card,.tile{box-shadow:none;break-inside:avoid}}
)css";

const std::string_view kReportScript = R"js(
for (const figure of document.querySelectorAll('figure[data-x]')) {
  const series = JSON.parse(figure.querySelector('script').textContent);
  const svg = figure.querySelector('svg.chart'), box = svg.viewBox.baseVal;
  const tip = figure.appendChild(Object.assign(document.createElement('div'), {className: 'tip'}));
  const cross = svg.appendChild(document.createElementNS(svg.namespaceURI, 'line'));
  cross.setAttribute('class', 'cross'); cross.setAttribute('y1', 6); cross.setAttribute('y2', box.height - 30);
  cross.style.display = 'none';
  svg.addEventListener('pointermove', event => {
    const area = svg.getBoundingClientRect(), at = (event.clientX - area.left) / area.width * box.width;
    const near = series.filter(s => s.p.length).map(s => [s, s.p.reduce((a, b) => Math.abs(b[2] - at) < Math.abs(a[2] - at) ? b : a)]);
    if (!near.length) return;
    const best = near.reduce((a, b) => Math.abs(b[1][2] - at) < Math.abs(a[1][2] - at) ? b : a)[1];
    cross.setAttribute('x1', best[2]); cross.setAttribute('x2', best[2]); cross.style.display = '';
    tip.textContent = figure.dataset.x + ' ' + best[0];
    for (const [s, p] of near) {
      const line = tip.appendChild(document.createElement('div'));
      line.appendChild(document.createElement('i')).style.background = `var(--series-${s.c})`;
      line.append(`${s.n} ${p[1]}${figure.dataset.unit ? ' ' + figure.dataset.unit : ''}` + (p[0] === best[0] ? '' : ` (${figure.dataset.x} ${p[0]})`));
    }
    tip.style.display = 'block';
    const x = best[2] / box.width * area.width + area.left - figure.getBoundingClientRect().left;
    tip.style.top = area.top - figure.getBoundingClientRect().top + 'px';
    tip.style.left = (x + 12 + tip.offsetWidth > figure.clientWidth ? x - tip.offsetWidth - 12 : x + 12) + 'px';
  });
  svg.addEventListener('pointerleave', () => { tip.style.display = 'none'; cross.style.display = 'none'; });
}
)js";

}  // namespace nestor::launch
