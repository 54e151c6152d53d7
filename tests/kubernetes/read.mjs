// Prints the documents of YAML files as JSON, one object {file, documents} for each file. A document with a kind is checked
// against the schema of Kubernetes first; the first that does not fit ends it with an error.
//
// Usage: node read.mjs FILE...

import {readFileSync} from "node:fs";
import {createRequire} from "node:module";
import path from "node:path";
import {pathToFileURL} from "node:url";

const packages = path.join(process.cwd(), "node_modules"), require = createRequire(path.join(packages, "/"));
const yaml = require("js-yaml");

async function check(document) {
  if (!document.kind) return document;
  const models = await import(pathToFileURL(path.join(packages, "kubernetes-models", document.apiVersion, "index.js")));
  new models[document.kind](document).validate();
  return document;
}

const read = async file => ({file, documents: await Promise.all(yaml.loadAll(readFileSync(file, "utf8")).map(check))});
console.log(JSON.stringify(await Promise.all(process.argv.slice(2).map(read))));
