// Draws the report's charts from the JSON in #data.  report_html.cpp writes that; Chart.js is in the page already.
'use strict';
(() => {
  const runs = JSON.parse(document.getElementById('data').textContent);
  // Okabe and Ito's colours, which colour-blind readers can tell apart, and lighter ones of the same hue for dark paper.
  const onLight = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#8c6bb1', '#7f7f7f'];
  const onDark = ['#4aa8e0', '#ff8c42', '#2fc79a', '#e79cc8', '#f5c04a', '#9ad6f7', '#b9a2e0', '#b5b5b5'];
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const colour = (i) => (dark.matches ? onDark : onLight)[i % onLight.length];
  const charts = [];
  Chart.defaults.animation = false;
  Chart.defaults.responsive = true;
  Chart.defaults.maintainAspectRatio = false;
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function short(x) {
    const prefixes = ['', 'k', 'M', 'G', 'T', 'P'];
    let i = 0;
    while (Math.abs(x) >= 999.5 && i + 1 < prefixes.length) { x /= 1000; ++i; }
    return String(Number(x.toPrecision(3))) + prefixes[i];
  }
  const bytes = (x) => { const s = short(x); return /[a-zA-Z]$/.test(s) ? s.slice(0, -1) + ' ' + s.slice(-1) + 'B' : s + ' B'; };
  const two = (x) => String(Math.floor(x)).padStart(2, '0');
  function duration(s) {
    if (s < 10) return Number(s.toPrecision(3)) + 's';
    s = Math.round(s);
    if (s < 60) return s + 's';
    if (s < 3600) return Math.floor(s / 60) + 'm' + two(s % 60) + 's';
    return Math.floor(s / 3600) + 'h' + two(s % 3600 / 60) + 'm';
  }
  // "diverged (failed)"; the table says at which step.
  const label = (run) => run.finished ? run.name : run.name + ' (' + run.status.split(/ at |,/)[0] + ')';
  const style = (run, i) => ({
    borderColor: colour(i), backgroundColor: colour(i), borderWidth: 2, tension: 0, borderDash: run.finished ? [] : [6, 4],
  });

  function card(title, about, config, height) {
    const box = document.createElement('section');
    box.className = 'card';
    const heading = document.createElement('h2');
    heading.textContent = title;
    const text = document.createElement('p');
    text.className = 'about';
    text.textContent = about;
    const frame = document.createElement('div');
    frame.className = 'canvas';
    if (height) frame.style.height = height + 'px';
    const canvas = document.createElement('canvas');
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', title + ': ' + about);
    frame.append(canvas);
    box.append(heading, text, frame);
    document.getElementById('charts').append(box);
    charts.push(new Chart(canvas, config));
  }

  const axis = (title, format, more) => ({
    title: {display: true, text: title}, ...more,
    ticks: {callback: (x) => format(x), maxRotation: 0, includeBounds: false, autoSkipPadding: 14, ...(more && more.ticks)},
  });
  const legend = (pointStyle) => ({position: 'bottom', labels: {usePointStyle: true, pointStyle, padding: 12, color: css('--ink')}});

  // A loss that falls from 5.5 to 1.7 leaves no room to see 1.70 beside 1.73: the first tenth may leave the top.
  function lossTop(curves) {
    const last = Math.max(...curves.flat().map((p) => p.x), 0);
    const late = curves.flat().filter((p) => p.x >= 0.1 * last).map((p) => p.y);
    const low = Math.min(...late), high = Math.max(...late);
    return high > low ? high + 0.08 * (high - low) : undefined;
  }

  // Logarithmic axis: words at 1, 10, 100 ..., and at 2 and 5 times those when there are few of them and room for more.
  function decade(format, curves) {
    const all = curves.flatMap((c) => c.points.map((p) => p.x));
    const wide = Math.max(...all) > (window.innerWidth < 700 ? 5 : 300) * Math.min(...all);
    return (x) => {
      const first = Math.round(x / 10 ** Math.floor(Math.log10(x) + 1e-9));
      return first === 1 || (!wide && (first === 2 || first === 5)) ? format(x) : '';
    };
  }

  function lines(title, about, xTitle, format, curves, more = {}) {
    const some = curves.filter((c) => c.points.length > 0);
    if (some.length === 0) return;
    const log = more.log === true;
    card(title, about, {
      type: 'line',
      data: {datasets: some.map((c) => ({
        ...c.style, label: c.label, data: c.points, pointRadius: more.points || c.points.length === 1 ? 3 : 0, pointHitRadius: 8,
      }))},
      options: {
        parsing: false, normalized: true,
        interaction: {mode: 'nearest', axis: 'x', intersect: false},
        scales: {
          x: axis(xTitle, format, log ? {type: 'logarithmic', ticks: {callback: decade(format, some), autoSkip: false},
                              grid: {color: (c) => c.tick && c.tick.label ? css('--line') : 'transparent'}} : {type: 'linear', min: 0, ticks: {maxTicksLimit: 8}}),
          y: axis('nats a token', (y) => Number(y.toPrecision(4)), {type: 'linear', max: log ? undefined : lossTop(some.map((c) => c.points))}),
        },
        plugins: {legend: legend('line'), tooltip: {callbacks: {
          title: (items) => format(items[0].parsed.x) + ' ' + (more.unit || ''),
          label: (item) => item.dataset.label + ': ' + item.parsed.y.toFixed(4),
        }}},
      },
    });
  }

  const over = (key, column) => runs.map((run, i) => ({
    label: label(run), style: style(run, i),
    points: run[key].filter((p) => p.length > column).map((p) => ({x: p[column], y: p[3]})).filter((p) => column !== 2 || p.x > 0),
  }));
  const tokens = 0, seconds = 1, sent = 2, modelled = 4;

  // A bar a run, made of parts: {label, shade, of(run)}.
  function bars(title, about, xTitle, format, some, parts) {
    if (!some.some((run) => parts.some((part) => part.of(run) > 0))) return;
    const total = (run) => parts.reduce((sum, part) => sum + part.of(run), 0);
    card(title, about, {
      type: 'bar',
      data: {
        labels: some.map((run) => [label(run), format(total(run))]),
        datasets: parts.map((part) => ({label: part.label, data: some.map(part.of), backgroundColor: colour(part.shade), maxBarThickness: 30})),
      },
      options: {
        indexAxis: 'y',
        scales: {
          x: axis(xTitle, format, {stacked: true, ticks: {maxTicksLimit: 6}}),
          y: {stacked: true, grid: {display: false}, ticks: {autoSkip: false}},
        },
        plugins: {
          legend: legend('rect'),
          tooltip: {callbacks: {label: (item) => item.dataset.label + ': ' + format(item.parsed.x)}},
        },
      },
    }, 110 + 42 * some.length);
  }

  // Colours are fixed when a chart is made, so another scheme makes them anew.
  function draw() {
    for (const chart of charts.splice(0)) chart.destroy();
    document.getElementById('charts').replaceChildren();
    Chart.defaults.color = css('--soft');
    Chart.defaults.borderColor = css('--line');
    lines('Held-out loss over tokens', 'of the shared parameters, on fixed windows', 'tokens, all sites together', short,
          over('evaluations', tokens), {points: true, unit: 'tokens'});
    lines('Held-out loss over time', 'this machine’s clock, evaluation not counted', 'time', duration,
          over('evaluations', seconds), {points: true});
    lines('Held-out loss over bytes', 'sent by one site; logarithmic', 'bytes a site', bytes,
          over('evaluations', sent), {points: true, log: true});
    lines('Held-out loss over modelled time', 'of the modelled network and step time', 'modelled time', duration,
          over('evaluations', modelled), {points: true});
    bars('Bytes', 'sent by one site in the whole run', 'bytes a site', bytes, runs, [
      {label: 'payload', shade: 0, of: (r) => r.payload_bytes},
      {label: 'headers, acknowledgements, retransmissions', shade: 4, of: (r) => r.other_bytes},
    ]);
    bars('Waiting', 'how long a site stood still for the others, of its training time', 'time', duration, runs, [
      {label: 'waiting', shade: 1, of: (r) => r.wait_s},
      {label: 'the rest', shade: 2, of: (r) => Math.max(0, r.seconds - r.wait_s)},
    ]);
    bars('Modelled time', 'what the run would take over the modelled network', 'time', duration,
         runs.filter((r) => r.modelled_s !== null), [
           {label: 'waiting', shade: 1, of: (r) => r.modelled_s * (1 - r.utilisation)},
           {label: 'computing', shade: 2, of: (r) => r.modelled_s * r.utilisation},
         ]);
    lines('Training loss over tokens', 'of the sites’ own parameters; mean over sites and neighbouring steps',
          'tokens, all sites together', short, over('training', tokens), {unit: 'tokens'});
    for (const run of runs.filter((r) => r.sites.length > 1)) {
      lines('Training loss of each site: ' + label(run), 'mean over neighbouring steps', 'inner steps', short,
            run.sites.map((site, i) => ({
              label: 'site ' + i, style: {...style({finished: true}, i), borderWidth: 1.3},
              points: site.map((p) => ({x: p[0], y: p[1]})),
            })), {unit: 'steps'});
    }
  }
  draw();
  dark.addEventListener('change', draw);
})();
