#!/bin/sh
# get_vscode.sh DIRECTORY: VS Code in a browser, for test_vs_code_shows_a_conflict_and_mends_it.
#
# All of it is packages of npm: code-server, which brings VS Code along, playwright-core, which moves
# the browser, and what packages the extension. 4.100.3 is the last one for Node 20. Scripts of packages
# would download programs: none is run. So a log and a search are missing, and argon2 is compiled.
set -eu
mkdir -p "$1/extension"
cp "$(dirname "$0")/../../editors/vscode/package.json" "$1/extension"
cd "$1"
install="npm install --ignore-scripts --no-audit --no-fund"
(cd extension && $install)
[ -f package.json ] || echo '{ "private": true }' > package.json
$install --omit=dev code-server@4.100.3 playwright-core@1
(cd node_modules/code-server/lib/vscode && $install --omit=dev && ln -sfn node_modules node_modules.asar)
cd node_modules/argon2
node=$(readlink -f "$(command -v node)")
npx node-pre-gyp install --build-from-source --nodedir="${node%/bin/node}"
