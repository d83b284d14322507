// What the workbench says to Python is said again until Python has told it something.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { endCommands, leaveCommand, listenForCommands, sayUntilTold } from "../../mwviz/frontend/mailbox.js";

beforeEach(() => {
  globalThis.window = new EventTarget();
});

test("what is said is said again, ever later, until something is told", ({ mock }) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  let said = 0;
  sayUntilTold(() => ++said);
  mock.timers.tick(0);
  assert.equal(said, 1);
  mock.timers.tick(7_999);
  assert.equal(said, 1);
  mock.timers.tick(1);
  assert.equal(said, 2);
  mock.timers.tick(15_999);
  assert.equal(said, 2);
  mock.timers.tick(1);
  assert.equal(said, 3);
  leaveCommand({}, "page");
  mock.timers.tick(1_000_000);
  assert.equal(said, 3);
});

test("what is told before ends nothing: a new session has to be told of once", ({ mock }) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  leaveCommand({}, "page");
  let said = 0;
  sayUntilTold(() => ++said);
  mock.timers.tick(1_000_000);
  assert.equal(said, 1);
});

test("what can be said no more is not tried again", ({ mock }) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  let asked = 0;
  sayUntilTold(() => {
    asked += 1;
    return false;
  });
  mock.timers.tick(1_000_000);
  assert.equal(asked, 1);
});

test("a picture is awaited once nobody tells anything any more", () => {
  const awaited = [];
  listenForCommands((command) => awaited.push(command.awaited));
  leaveCommand({ view: "replay" }, "one");
  leaveCommand({ view: "replay" }, "two");
  endCommands("one");
  endCommands("one");
  assert.deepEqual(awaited, [false, false]);
  endCommands("two");
  assert.deepEqual(awaited, [false, false, true]);
});
