// Entry of the Streamlit component `mwviz.command`: shows nothing, passes its data to the workbench.

import { leaveCommand } from "./mailbox.js";

export default function ({ data }) {
  if (data) leaveCommand(data);
}
