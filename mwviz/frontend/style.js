// Sizes and styles of the workbench. They travel with the code, because file-backed styles arrive
// after the first call.

export const NARROW = 1050; // CSS pixels of the workbench's width under which panes become tabs
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
  .mw-letter { font-weight: 700; } .mw-key.role { gap: 3px; } .mw-key.role .mw-chip { width: 4px; height: 14px; border-radius: 0; }
  .mw-chip { width: 14px; height: 11px; border-radius: 2px; box-sizing: border-box; }
  .mw-tools { margin-left: auto; display: inline-flex; flex-wrap: wrap; justify-content: flex-end; gap: 4px 6px; align-items: center; }
  .mw button { font: inherit; font-size: 12px; line-height: 18px; color: inherit; background: none; cursor: pointer;
    border: 1px solid var(--mw-border); border-radius: 5px; padding: 1px 8px; }
  .mw button:hover { background: var(--mw-raised); }
  .mw button[aria-pressed="true"], .mw button[aria-selected="true"] { background: var(--mw-raised); border-color: var(--mw-accent);
    font-weight: 600; }
  .mw-group { display: inline-flex; }
  .mw-group button { border-radius: 0; margin-left: -1px; }
  .mw-group button:first-child { border-radius: 5px 0 0 5px; margin-left: 0; }
  .mw-group button:last-child { border-radius: 0 5px 5px 0; }
  .mw-stage, .mw-tree, .mw-nodes, .mw-mask, .mw-drift { position: relative; border-radius: 4px; outline: none; cursor: crosshair; touch-action: none; }
  .mw-stage, .mw-tree, .mw-nodes { height: var(--mw-contexts, 178px); }
  .mw:not([data-shape="tree"]) .mw-tree, .mw:not([data-shape="nodes"]) .mw-nodes, .mw:is([data-shape="tree"], [data-shape="nodes"]) .mw-stage { display: none; }
  .mw-mask, .mw-text { height: 348px; } .mw-drift { height: 130px; }
  .mw-stage:focus-visible, .mw-tree:focus-visible, .mw-nodes:focus-visible, .mw-mask:focus-visible, .mw-drift:focus-visible, .mw-text:focus-visible, .mw button:focus-visible {
    outline: none; box-shadow: 0 0 0 2px var(--mw-accent); }
  .mw canvas { position: absolute; inset: 0; width: 100%; height: 100%; }
  .mw-text { position: relative; overflow: auto; outline: none; border: 1px solid var(--mw-border); border-radius: 4px;
    box-sizing: border-box; font: 13px/20px var(--mw-mono); overflow-x: hidden; }
  .mw-sheet { position: relative; min-height: 100%; }
  .mw-row { position: absolute; left: 0; right: 0; height: 20px; white-space: pre; overflow-x: clip; }
  .mw-role { display: inline-block; box-sizing: border-box; width: 24px; margin-right: 6px; padding-left: 10px; height: 20px;
    vertical-align: top; font-weight: 700; font-size: 12px; }
  .mw-role.gone { opacity: 0.75; }
  .mw-line { unicode-bidi: plaintext; display: inline-block; height: 20px; vertical-align: top; }
  .mw-token { border-radius: 2px; cursor: pointer; padding: 1px 0; }
  .mw-token.gone { text-decoration: line-through; opacity: 0.72; background: var(--mw-raised); }
  .mw-token.added { box-shadow: inset 0 -2px var(--mw-accent); background: var(--mw-raised); }
  .mw-token.found { text-decoration: underline 2px var(--mw-accent); text-underline-offset: 3px; }
  .mw-token.gone.found { text-decoration: underline line-through 2px var(--mw-accent); opacity: 0.9; }
  .mw-token.current { background: var(--mw-accent) !important; color: var(--mw-background) !important; opacity: 1; }
  .mw-token.untrained { opacity: 0.7; }
  .mw-token.special { box-shadow: inset 0 0 0 1px var(--mw-border); border-radius: 3px; }
  .mw-tip { position: absolute; z-index: 5; max-width: 400px; padding: 7px 10px; border-radius: 6px; pointer-events: none;
    font-size: 12.5px; line-height: 1.45; visibility: hidden; box-shadow: 0 2px 10px rgba(0, 0, 0, 0.28);
    background: var(--mw-raised); border: 1px solid var(--mw-border); overflow-wrap: anywhere; }
  .mw-tip b { display: block; font-weight: 600; }
  .mw-tip code { display: block; margin-top: 4px; opacity: 0.8; overflow: hidden; white-space: nowrap; text-overflow: ellipsis;
    font: 12px var(--mw-mono); background: none; padding: 0; color: inherit; }
  .mw-icon.rows::before, .mw-icon.grow::before { content: ""; display: inline-block; width: 12px; height: 11px; vertical-align: -1px; background-repeat: no-repeat; }
  .mw-icon.rows::before { background-image: repeating-linear-gradient(currentColor 0 1.5px, transparent 1.5px 3px); }
  .mw-icon.grow::before { background-image: linear-gradient(currentColor 0 0), linear-gradient(currentColor 0 0), linear-gradient(currentColor 0 0), linear-gradient(currentColor 0 0),
      linear-gradient(currentColor 0 0), linear-gradient(currentColor 0 0), linear-gradient(currentColor 0 0), linear-gradient(currentColor 0 0);
    background-size: 4px 1.5px, 1.5px 4px, 4px 1.5px, 1.5px 4px, 4px 1.5px, 1.5px 4px, 4px 1.5px, 1.5px 4px;
    background-position: 0 0, 0 0, 100% 0, 100% 0, 0 100%, 0 100%, 100% 100%, 100% 100%; }
  .mw-foot:empty { display: none; }
  .mw-foot { display: flex; flex-wrap: wrap; gap: 2px 14px; align-items: center; min-height: 22px; }
  .mw select { font: inherit; font-size: 12px; line-height: 18px; height: 22px; color: inherit; background: var(--mw-background); cursor: pointer;
    border: 1px solid var(--mw-border); border-radius: 5px; padding: 0 4px; max-width: 132px; }
  .mw:not([data-full]) .mw-metric { display: none; }
  .mw button.mw-icon { padding: 1px 5px; min-width: 24px; }
  .mw button:disabled { opacity: 0.45; cursor: default; }
  .mw-dialog { position: fixed; z-index: 1000001; inset: 64px auto auto 50%; transform: translateX(-50%); padding: 12px 18px 16px; max-height: calc(100vh - 96px);
    max-width: min(960px, calc(100vw - 32px)); box-sizing: border-box; overflow: auto; border-radius: 8px; background: var(--mw-raised);
    border: 1px solid var(--mw-border); box-shadow: 0 6px 24px rgba(0, 0, 0, 0.3); font-size: 13px; }
  .mw-dialog.table { width: min(960px, calc(100vw - 32px)); } .mw-dialog.explain { width: min(640px, calc(100vw - 32px)); }
  .mw-dialog .mw-head { position: sticky; top: -12px; z-index: 1; background: var(--mw-raised); margin: -12px 0 6px; padding: 10px 0 6px; }
  .mw-dialog h5 { font: inherit; font-weight: 600; margin: 12px 0 2px; padding: 0; } .mw-dialog p { margin: 2px 0; font-size: 13px; }
  .mw-dialog code { font: 12.5px var(--mw-mono); background: var(--mw-background); color: inherit; padding: 3px 6px; border-radius: 4px; display: block; margin: 4px 0; white-space: pre-wrap; }
  .mw-dialog .mw-inputs { opacity: 0.85; }
  .mw-dialog dl { display: grid; grid-template-columns: auto 1fr auto 1fr; gap: 4px 16px; margin: 0; font-size: 13px; }
  .mw-dialog dt { font-family: var(--mw-mono); white-space: nowrap; } .mw-dialog dd { margin: 0; }
  .mw-scroll { overflow-x: auto; }
  .mw table { border-collapse: collapse; width: 100%; font-size: 12.5px; margin: 0; }
  .mw th { text-align: left; font-weight: 600; vertical-align: bottom; } .mw th, .mw td { padding: 3px 8px; border: 0; border-bottom: 1px solid var(--mw-border); }
  .mw td { max-width: 340px; overflow: hidden; text-overflow: ellipsis; white-space: pre; } .mw th.number { text-align: right; } .mw td.number { text-align: right; font-variant-numeric: tabular-nums; }
  .mw tbody tr { cursor: pointer; } .mw tbody tr:hover, .mw tbody tr:focus-visible { background: var(--mw-background); outline: none; }
  .mw tbody tr:focus-visible { box-shadow: inset 0 0 0 2px var(--mw-accent); }
  .mw-place { font-size: 12px; opacity: 0.8; font-variant-numeric: tabular-nums; }
  .mw-finder { position: fixed; z-index: 1000001; top: 64px; right: 24px; display: grid; grid-template-columns: minmax(0, 1fr) auto auto; gap: 4px 6px; align-items: center;
    width: min(520px, calc(100vw - 48px)); box-sizing: border-box; padding: 8px 10px; border-radius: 8px; background: var(--mw-raised); border: 1px solid var(--mw-border);
    box-shadow: 0 4px 16px rgba(0, 0, 0, 0.25); }
  .mw-finder input { font: 13px var(--mw-mono); color: inherit; background: var(--mw-background); border: 1px solid var(--mw-border); border-radius: 5px; padding: 3px 8px; min-width: 0; }
  .mw-finder input:focus-visible { outline: none; box-shadow: 0 0 0 2px var(--mw-accent); }
  .mw-finder > button:last-child { grid-area: 1 / 3; } .mw-told { grid-column: 1 / -1; grid-row: 2; font-size: 12.5px; min-height: 18px; }
  .mw-finder[hidden], .mw-dialog[hidden], .mw-note[hidden], .mw-tools[hidden] { display: none; }
  .mw-note { position: fixed; z-index: 1000002; left: 50%; bottom: 28px; transform: translateX(-50%); padding: 8px 14px; border-radius: 8px; max-width: calc(100vw - 32px);
    font-size: 13px; background: var(--mw-raised); border: 1px solid var(--mw-border); box-shadow: 0 4px 16px rgba(0, 0, 0, 0.25); }
  .mw-error { padding: 16px; grid-column: 1 / -1; }
  .mw-said { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .mw-tabs { display: none; gap: 4px; grid-area: tabs; }
  .mw.narrow { grid-template: "timeline" auto "tabs" auto "shown" auto / minmax(0, 1fr); }
  .mw.narrow .mw-tabs { display: flex; }
  .mw.narrow .mw-tabs button { flex: 1; line-height: 24px; font-size: 13px; }
  .mw.narrow .mw-pane:not(.timeline) { display: none; grid-area: shown; }
  .mw.narrow .mw-pane.shown { display: flex; }
  .mw.narrow .mw-drift { height: 240px; }
  .mw.narrow .mw-caption.mw-caption { -webkit-line-clamp: 8; min-height: 0; }
  .mw.narrow .mw-tools { gap: 4px; } .mw.narrow .mw-head button { padding: 1px 6px; }
  .mw.narrow .mw-dialog dl { grid-template-columns: auto 1fr; }
  @media (pointer: coarse) {
    .mw-stage, .mw-tree, .mw-nodes, .mw-mask, .mw-drift { touch-action: pan-y; }
    .mw button, .mw select { min-height: 32px; }
  }
  .mw[data-full] { position: fixed; inset: 0; z-index: 1000000; box-sizing: border-box; padding: 16px 24px; background: var(--mw-background); overflow: auto;
    grid-template: "full" minmax(0, 1fr) / minmax(0, 1fr); }
  .mw[data-full] .mw-pane.mw-pane { display: none; grid-area: full; }
  .mw[data-full] .mw-tabs { display: none; }
  .mw[data-full="timeline"] .mw-pane.timeline, .mw[data-full="mask"] .mw-pane.mask, .mw[data-full="text"] .mw-pane.text, .mw[data-full="drift"] .mw-pane.drift { display: flex; }
  .mw[data-full] .mw-pane > [tabindex="0"] { flex: 1; height: auto; min-height: 200px; }
`;
