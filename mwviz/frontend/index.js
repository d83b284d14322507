// The Streamlit component `mwviz.workbench`. The loader calls this on mount and again on each change of
// data or theme; Streamlit runs the returned clean-up only on unmount.

import { mount } from "./workbench.js";

const instances = new WeakMap();

export function workbench({ data, parentElement, setStateValue, setTriggerValue }) {
  let workbench = instances.get(parentElement);
  if (!workbench) {
    workbench = mount(parentElement);
    instances.set(parentElement, workbench);
  }
  workbench.update(data, setStateValue, setTriggerValue);
  return () => {
    instances.get(parentElement)?.destroy();
    instances.delete(parentElement);
  };
}
