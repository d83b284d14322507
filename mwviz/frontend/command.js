// The Streamlit component `mwviz.command`: shows nothing, passes its data to the workbench.

import { endCommands, leaveCommand } from "./mailbox.js";

export function command({ data, parentElement }) {
  if (data) leaveCommand(data, parentElement);
  return () => endCommands(parentElement);
}
