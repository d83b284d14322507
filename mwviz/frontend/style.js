// Sizes and styles of the workbench. They travel with the code, because file-backed styles arrive
// after the first call.

export const NARROW = 940; // CSS pixels of the workbench's width under which panes become tabs
export const STYLE = `
  .mw { position: relative; display: grid; gap: 10px 20px; font-size: 14px; line-height: 1.4;
    grid-template: "timeline timeline" auto "mask text" auto "drift drift" auto / minmax(0, 46fr) minmax(0, 54fr); }
  .mw-pane { display: flex; flex-direction: column; gap: 4px; min-width: 0; }
  .mw-pane.timeline { grid-area: timeline; } .mw-pane.mask { grid-area: mask; }
  .mw-pane.text { grid-area: text; } .mw-pane.drift { grid-area: drift; }
  .mw-head { display: flex; flex-wrap: wrap; gap: 2px 14px; align-items: center; min-height: 26px; }
  .mw-head h4 { font: inherit; font-size: 14px; font-weight: 600; margin: 0 4px 0 0; padding: 0; }
  .mw-keys { display: flex; flex-wrap: wrap; gap: 0 14px; min-height: 18px; align-items: center; }
  .mw-key[hidden] { display: none; }
  .mw-caption { margin: 0; font-size: 12.5px; opacity: 0.78; min-height: 18px; overflow: hidden; overflow-wrap: anywhere;
    display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2; }
  .mw-pane.mask .mw-caption, .mw-pane.text .mw-caption { min-height: 35px; }
  .mw-key { display: inline-flex; gap: 5px; align-items: center; font-size: 12px; white-space: nowrap; }
  .mw-chip { width: 14px; height: 11px; border-radius: 2px; box-sizing: border-box; }
  .mw-tools { margin-left: auto; display: inline-flex; gap: 6px; align-items: center; }
  .mw button { font: inherit; font-size: 12px; line-height: 18px; color: inherit; background: none; cursor: pointer;
    border: 1px solid var(--mw-border); border-radius: 5px; padding: 1px 8px; }
  .mw button:hover { background: var(--mw-raised); }
  .mw button[aria-pressed="true"], .mw button[aria-selected="true"] { background: var(--mw-raised); border-color: var(--mw-accent);
    font-weight: 600; }
  .mw-group { display: inline-flex; }
  .mw-group button { border-radius: 0; margin-left: -1px; }
  .mw-group button:first-child { border-radius: 5px 0 0 5px; margin-left: 0; }
  .mw-group button:last-child { border-radius: 0 5px 5px 0; }
  .mw-stage, .mw-mask, .mw-drift { position: relative; border-radius: 4px; outline: none; cursor: crosshair; touch-action: none; }
  .mw-stage { height: 196px; } .mw-mask, .mw-text { height: 350px; } .mw-drift { height: 130px; }
  .mw-stage:focus-visible, .mw-mask:focus-visible, .mw-drift:focus-visible, .mw-text:focus-visible, .mw button:focus-visible {
    outline: none; box-shadow: 0 0 0 2px var(--mw-accent); }
  .mw canvas { position: absolute; inset: 0; width: 100%; height: 100%; }
  .mw-text { position: relative; overflow: auto; outline: none; border: 1px solid var(--mw-border); border-radius: 4px;
    box-sizing: border-box; font: 13px/20px var(--mw-mono); overflow-x: hidden; }
  .mw-sheet { position: relative; min-height: 100%; }
  .mw-row { position: absolute; left: 0; right: 0; height: 20px; white-space: pre; overflow-x: clip; }
  .mw-role { display: inline-block; box-sizing: border-box; width: 24px; margin-right: 6px; padding-left: 6px; height: 20px;
    vertical-align: top; border-left: 4px solid transparent; font-weight: 700; font-size: 12px; opacity: 0.8; }
  .mw-token { display: inline-block; height: 18px; line-height: 18px; vertical-align: top; margin-top: 1px; border-radius: 2px;
    cursor: pointer; }
  .mw-token.gone { text-decoration: line-through; opacity: 0.55; background: var(--mw-raised); }
  .mw-token.untrained { opacity: 0.62; }
  .mw-token.special { box-shadow: inset 0 0 0 1px var(--mw-border); border-radius: 3px; }
  .mw-tip { position: absolute; z-index: 5; max-width: 400px; padding: 7px 10px; border-radius: 6px; pointer-events: none;
    font-size: 12.5px; line-height: 1.45; visibility: hidden; box-shadow: 0 2px 10px rgba(0, 0, 0, 0.28);
    background: var(--mw-raised); border: 1px solid var(--mw-border); overflow-wrap: anywhere; }
  .mw-tip b { display: block; font-weight: 600; }
  .mw-tip code { display: block; margin-top: 4px; opacity: 0.8; overflow: hidden; white-space: nowrap; text-overflow: ellipsis;
    font: 12px var(--mw-mono); background: none; padding: 0; color: inherit; }
  .mw-help { position: fixed; z-index: 1000; inset: 110px auto auto 50%; transform: translateX(-50%); padding: 14px 18px;
    border-radius: 8px; background: var(--mw-raised); border: 1px solid var(--mw-border); box-shadow: 0 6px 24px rgba(0, 0, 0, 0.3); }
  .mw-help dl { display: grid; grid-template-columns: auto auto; gap: 4px 16px; margin: 0; font-size: 13px; }
  .mw-help dt { font-family: var(--mw-mono); } .mw-help dd { margin: 0; }
  .mw-error { padding: 16px; grid-column: 1 / -1; }
  .mw-said { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .mw-tabs { display: none; gap: 4px; grid-area: tabs; }
  .mw.narrow { grid-template: "timeline" auto "tabs" auto "shown" auto / minmax(0, 1fr); }
  .mw.narrow .mw-tabs { display: flex; }
  .mw.narrow .mw-pane:not(.timeline) { display: none; grid-area: shown; }
  .mw.narrow .mw-pane.shown { display: flex; }
  .mw.narrow .mw-drift { height: 240px; }
`;
