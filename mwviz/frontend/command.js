// The Streamlit component `mwviz.command`: shows nothing, passes its data to the workbench.

import { leaveCommand } from "./mailbox.js";

export function command({ data }) {
  if (data) leaveCommand(data);
}
