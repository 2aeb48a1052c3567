"""The report's style sheet: one column on a phone; light or dark like the reader's system."""

STYLE = """
:root { color-scheme: light dark; --bg: #f6f7f9; --card: #fff; --fg: #1b1f24; --dim: #5d6875; --line: #dde2e8;
  --c0: #2f6fde; --c1: #e08a1e; --c2: #2a9d6f; --c3: #a05bd6; --c4: #d2556b; --c5: #5f8a9e; --rest: #a9b3be;
  --ok: #1f8a55; --bad: #c92a3a; --soft: #eef1f5; }
@media (prefers-color-scheme: dark) { :root { --bg: #101317; --card: #191e24; --fg: #e6eaef; --dim: #97a3b0;
  --line: #2d353e; --c0: #6ea3ff; --c1: #f0ab52; --c2: #4fc795; --c3: #c28bf0; --c4: #f07f92; --c5: #8db8cc;
  --rest: #5d6875; --ok: #4fc98a; --bad: #ff7180; --soft: #222931; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--fg); line-height: 1.5;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 66rem; margin: 0 auto; padding: 1rem 1rem 3rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 1rem 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 0 0 .6rem; }
h3 { font-size: .95rem; margin: 1.4rem 0 .5rem; }
p { margin: .3rem 0 .8rem; }
small, .dim, figcaption { color: var(--dim); }
small { font-size: .8rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .7rem; padding: 1.1rem 1.2rem;
  margin: 1rem 0; }
code, .num { font-variant-numeric: tabular-nums; }
code { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .88em; overflow-wrap: anywhere; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .9rem 1.2rem;
  margin: 0 0 .8rem; }
.facts dt { color: var(--dim); font-size: .8rem; }
.facts dd { margin: 0; font-size: 1.05rem; overflow-wrap: anywhere; }
.headline { font-size: 1.35rem; line-height: 1.3; font-weight: 600; margin: .2rem 0 .6rem; }
.next { list-style: none; padding: 0; margin: 0; } .next li { margin: .25rem 0; }
.next code { display: inline-block; background: var(--soft); border-radius: .35rem; padding: .2rem .6rem; }
.next span { display: inline-block; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 0 1.4rem; } .pair h3 { margin-top: .4rem; }
.reading { white-space: pre-wrap; overflow-wrap: anywhere; }
mark { background: #f6c65b; color: #1b1f24; border-radius: .2rem; }
/* A shadow at the side where a table goes on: the covers scroll along with it, the shadows do not. */
.wide { overflow-x: auto; background:
  linear-gradient(to right, var(--card) 40%, transparent) left / 2.4rem 100% no-repeat local,
  linear-gradient(to left, var(--card) 40%, transparent) right / 2.4rem 100% no-repeat local,
  linear-gradient(to right, rgb(0 0 0 / .28), transparent) left / .9rem 100% no-repeat scroll,
  linear-gradient(to left, rgb(0 0 0 / .28), transparent) right / .9rem 100% no-repeat scroll; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th { text-align: left; font-weight: 600; color: var(--dim); font-size: .8rem; vertical-align: bottom; }
th, td { padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); }
td { vertical-align: top; }
.told td:last-child { min-width: 9rem; }
th.num, td.num { text-align: right; white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
.badge { display: inline-block; border-radius: 1rem; padding: 0 .6rem; font-size: .8rem; white-space: nowrap;
  background: var(--soft); color: var(--dim); }
.facts .badge { white-space: normal; border-radius: .7rem; }
.badge.ok { color: var(--ok); } .badge.bad { background: var(--bad); color: var(--card); font-weight: 600; }
.row { display: grid; grid-template-columns: minmax(0, 15rem) minmax(0, 1fr) 10.5rem; column-gap: 1rem;
  align-items: center; padding: .22rem 0; font-size: .9rem; }
.row > .label { overflow-wrap: anywhere; line-height: 1.25; }
.row > .value { text-align: right; font-variant-numeric: tabular-nums; line-height: 1.25; }
.row small { display: block; }
.track { position: relative; height: 1.3rem; background: var(--soft); border-radius: .25rem; }
.track i { position: absolute; top: 0; bottom: 0; }
.track .bar { left: 0; border-radius: .25rem; min-width: 2px; }
.track .limit { width: 2px; margin-left: -1px; background: var(--fg); opacity: .55; }
.track .grid { width: 1px; background: var(--line); }
.track .dot { width: .8rem; height: .8rem; top: .25rem; margin-left: -.4rem; border-radius: 50%;
  border: 2px solid var(--card); background: var(--c0); }
.track .dot.bad { background: var(--bad); } .track .dot.thin { opacity: .6; width: .65rem; height: .65rem; top: .32rem;
  margin-left: -.32rem; border: 0; }
.axis { position: relative; height: 1.2rem; font-size: .75rem; color: var(--dim); }
.axis span { position: absolute; transform: translateX(-50%); white-space: nowrap; }
.axis .first { transform: none; } .axis .last { transform: translateX(-100%); }
.wide code { white-space: nowrap; }
.stack { display: flex; height: 1.6rem; border-radius: .3rem; overflow: hidden; background: var(--soft); gap: 1px; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; font-size: .85rem; margin: .5rem 0 .9rem; padding: 0;
  list-style: none; }
.legend i { display: inline-block; width: .75rem; height: .75rem; border-radius: .2rem; margin-right: .4rem; }
.plot { position: relative; height: 14rem; margin: .8rem .6rem 3.2rem 5rem; border-left: 1px solid var(--line);
  border-bottom: 1px solid var(--line); font-size: .75rem; color: var(--dim); }
.plot svg { position: absolute; inset: 0; width: 100%; height: 100%; overflow: visible; }
.plot .y { position: absolute; right: calc(100% + .5rem); transform: translateY(50%); white-space: nowrap; }
.plot .x { position: absolute; top: calc(100% + .3rem); transform: translateX(-50%); white-space: nowrap; }
.plot .xname { position: absolute; top: calc(100% + 1.6rem); left: 0; right: 0; text-align: center; }
.plot .h { position: absolute; left: 0; right: 0; height: 1px; background: var(--line); }
@media (max-width: 38rem) {
  .row { grid-template-columns: minmax(0, 1fr) auto; padding: .4rem 0; }
  .row > .track, .row > .axis { grid-column: 1 / -1; grid-row: 2; }
  .row > .axis + .value, .row.ticks > .label { display: none; }
  .told thead { display: none; } .told tr { display: flex; flex-wrap: wrap; gap: 0 .9rem; padding: .4rem 0;
    border-bottom: 1px solid var(--line); }
  .told tr:last-child { border-bottom: 0; } .told td { border: 0; padding: 0; }
  .told td:last-child { flex-basis: 100%; color: var(--dim); }
  .pair { grid-template-columns: 1fr; } .headline { font-size: 1.15rem; }
  section { padding: .9rem .8rem; } .plot { margin-left: 4.4rem; }
}
@media print { body { background: #fff; } section { break-inside: avoid; } }
""".strip()
