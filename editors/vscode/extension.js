// Starts `ptxsw lsp` and hands it the settings; all answers are the server's.
"use strict";

const { window, workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

async function start() {
  const settings = workspace.getConfiguration("ptxsw");
  const [command, ...first] = settings.get("command");
  const options = {
    documentSelector: [
      { scheme: "file", pattern: "**/*.cu" },
      { scheme: "file", pattern: "**/*.ptx" },
    ],
    initializationOptions: {
      command: [command, ...first],
      check: settings.get("check"),
    },
  };
  const server = { command, args: [...first, "lsp"] };
  client = new LanguageClient("ptxsw", "ptxsw", server, options);
  try {
    await client.start();
  } catch {
    client = undefined; // what never ran cannot be stopped
    window.showErrorMessage(
      `"${command}" does not start: pip install 'ptxsw[lsp]', or set ptxsw.command to where it is.`,
    );
  }
}

async function stop() {
  await client?.stop();
  client = undefined;
}

async function activate(context) {
  context.subscriptions.push(
    workspace.onDidChangeConfiguration(async (change) => {
      if (change.affectsConfiguration("ptxsw")) {
        await stop();
        await start();
      }
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
