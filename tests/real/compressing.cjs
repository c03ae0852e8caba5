// An Express app before the model server, with or without the `compression` middleware that most have: PORT, UPSTREAM,
// COMPRESS=yes. Its modules are in .venv-real/node.
const http = require("http");
const express = require("express");

const app = express();
if (process.env.COMPRESS === "yes") app.use(require("compression")({ filter: () => true }));
app.use((request, response) => {
  const options = { port: process.env.UPSTREAM, path: request.url, method: request.method, headers: request.headers };
  const onwards = http.request({ host: "127.0.0.1", ...options }, (answer) => {
    response.status(answer.statusCode);
    for (const name of ["content-type", "cache-control"]) {
      if (answer.headers[name]) response.setHeader(name, answer.headers[name]);
    }
    answer.on("data", (piece) => response.write(piece));
    answer.on("end", () => response.end());
  });
  onwards.on("error", () => response.status(502).end());
  request.pipe(onwards);
});
app.listen(Number(process.env.PORT), "127.0.0.1");
