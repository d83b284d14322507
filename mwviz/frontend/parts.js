// The Streamlit components of ours by name, as the loader calls them: with what Streamlit gives the
// entry of a component, on mount and on each change of data or theme.

import { command } from "./command.js";
import { workbench } from "./index.js";
import { inspector } from "./inspector.js";
import { metric } from "./metricpicker.js";
import { numbers } from "./numbers.js";

export const PARTS = { workbench, command, inspector, metric, numbers };
