-- The canonical tables. This file is the data dictionary: one column a line, each with what it means.
-- Null means "not known". Instants are timestamptz in UTC and end in _at, durations are milliseconds and end in _ms,
-- sizes end in _bytes, fractions of one end in _share, counts are plain plurals.

-- One row per file read.
create table inputs (
    input_id        integer,      -- rank of the path as given, from 1
    path            varchar,      -- as the user gave it, "-" for standard input
    format          varchar,      -- name of the format page, null when none fits
    vantage         varchar,      -- where on the way these records were written
    reason          varchar,      -- why this format was chosen, or why none was
    bytes           bigint,       -- size as stored
    lines           bigint,       -- lines = rows + rejected + blank + foreign; of a CSV (its header not counted), a JSON
                                  -- array or pretty-printed objects: records
    rows            bigint,       -- lines that gave a row
    rejected        bigint,       -- lines that could not be read
    blank           bigint,       -- empty lines
    foreign_lines   bigint,       -- readable lines that are no LLM call ("foreign" in the report)
    doubled         bigint,       -- rows that stand elsewhere already and count once
    out_of_order    bigint,       -- rows that start before the row above them (null where the order is not known)
    longest_gap_ms  double,       -- longest time between two neighbouring starts
    grew            boolean,      -- the file grew while it was read
    note            varchar       -- what a reader must know: guesses of fields and units, ends early, no LLM call
);

-- One row per line that was not read whole; at most 20 lines of a file and reason, the counts stand in inputs.
create table rejects (
    input_id        integer,
    line            bigint,       -- 1-based
    reason          varchar,      -- "not JSON", "field ttft_ms is not a number", ...
    fatal           boolean,      -- true: the line gave no row; false: a row without that field
    snippet         varchar       -- redacted and cut
);

-- One row per kind of wrong value in one field of one file: the row is kept, the field is unknown.
create table bad_fields (
    input_id        integer,
    field           varchar,
    bad_values      bigint
);

-- One row per attempt at one call as seen from one vantage.
create table attempts (
    attempt_id      bigint,       -- rank by started_at, input, request_id ...: the only key between tables
    input_id        integer,      -- the file
    line            bigint,       -- found by re-reading for the few examples that are shown
    ---------- identity
    vantage         varchar,      -- client | gateway | proxy | engine | cloud | bench | probe
    request_id      varchar,      -- of this attempt at its vantage
    incoming_id     varchar,      -- an id received from the caller
    response_id     varchar,      -- the id in the answer (chatcmpl-...)
    task_id         varchar,      -- what the user wanted: groups the attempts
    attempt         integer,      -- 1 = first try
    trace_id        varchar,
    span_id         varchar,
    conversation_id varchar,
    idempotency_key varchar,
    prompt_hash     varchar,
    prefix_hash     varchar,
    template_id     varchar,
    options_hash    varchar,
    schema_hash     varchar,
    batch_id        varchar,
    ---------- where
    provider        varchar,
    model           varchar,
    route           varchar,
    operation       varchar,      -- chat, completion, embeddings ...
    instance        varchar,      -- the replica that answered
    region          varchar,
    tenant          varchar,
    caller          varchar,
    app_version     varchar,
    prompt_version  varchar,
    user_agent      varchar,
    hop             varchar,      -- of a probe
    variant         varchar,      -- of a probe
    ---------- ask
    stream          boolean,
    max_tokens      bigint,
    input_tokens    bigint,       -- always including cached ones
    cached_tokens   bigint,
    output_tokens   bigint,       -- including reasoning ones
    reasoning_tokens bigint,
    prompt_chars    bigint,
    usage_source    varchar,      -- provider | estimated
    timeout_ms      double,       -- the limit that the caller had set
    priority        integer,
    ---------- times
    started_at      timestamptz,
    ended_at        timestamptz,
    time_basis      varchar,      -- start | end | both | relative: which instant the record itself holds
    time_resolution_ms double,
    queue_ms        double,       -- waiting for the engine, as the engine reports it
    prepare_ms      double,       -- before the model is asked; of which:
    retrieval_ms    double,
    tool_ms         double,
    dns_ms          double,
    connect_ms      double,
    tls_ms          double,
    header_ms       double,       -- response headers; not a first token
    first_byte_ms   double,
    ttft_ms         double,       -- first non-empty generated delta; null if not streamed
    ttfo_ms         double,       -- first delta that is not reasoning
    prefill_ms      double,
    decode_ms       double,
    total_ms        double,       -- send to last byte, or to the moment of giving up
    delivery_ms     double,       -- from the end of generation until the result is available
    overhead_ms     double,       -- of a gateway itself
    max_gap_ms      double,       -- longest silence between two chunks
    chunks          bigint,
    terminal_seen   boolean,      -- the stream's own end mark came
    client_gone_at  timestamptz,
    ---------- connection
    conn_id         varchar,
    conn_reused     boolean,
    conn_idle_ms    double,
    upstream_attempts integer,    -- tries of a proxy or gateway behind this one attempt
    upstream_instance varchar,
    upstream_total_ms double,
    ---------- outcome
    outcome         varchar,      -- completed | incomplete | empty | failed | timeout | cancelled | rate_limited | unknown
    timeout_phase   varchar,      -- connect | first_token | idle | total
    http_status     integer,
    error_type      varchar,      -- timeout | rate_limit | quota | overloaded | context_length | content_filter | auth | invalid_request | connection_reset | upstream_error | server_error | cancelled | other
    error_origin    varchar,      -- client | gateway | proxy | provider | engine
    finish_reason   varchar,
    retry_after_ms  double,
    limit_remaining bigint,
    preemptions     integer,
    cache_hit       boolean,      -- answered from a response cache: no model ran
    cost_usd        double,
    cost_status     varchar,
    result_id       varchar,
    server_outcome  varchar,      -- what the other side reported, where one record holds both
    server_ttft_ms  double,
    server_total_ms double
);

-- One row per timed piece of a stream.
create table chunks (
    attempt_id      bigint,
    seq             bigint,       -- from 1
    read_no         bigint,       -- which socket read brought it
    at_ms           double,       -- since send
    kind            varchar,      -- comment | event | role | reasoning | text | tool | usage | error | terminal
    event_name      varchar,
    bytes           bigint,       -- payload after transfer decoding
    wire_bytes      bigint,       -- with framing and as compressed, since the piece before; 0 for more pieces of one read
    text_chars      bigint,
    sent_at_ms      double        -- since send, where the sender stamped it; against another machine's clock: at most late
);

-- One row per fact a probe saw that is no time (http_version, content_type, content_length, content_encoding,
-- transfer_encoding, cache_control, x_accel_buffering, via, server, age, alt_svc, cert_issuer, gzip_members,
-- framing_error, status, retry_after, connection_headers, guardrail, protocol_fault, ending, loop_lag_ms, place: the
-- number of the hop, 01 for the application). Only these response headers; never a request header, cookie or credential.
create table facts (
    attempt_id      bigint,
    name            varchar,
    value           varchar
);

-- One row per named part of the way of one attempt or task.
create table stages (
    attempt_id      bigint,
    task_id         varchar,
    name            varchar,      -- queue | prepare | retrieval | tool | generate | deliver, or a span's own
    started_at      timestamptz,
    duration_ms     double,
    parent          varchar
);

-- One row per change of a task's state.
create table task_events (
    task_id         varchar,
    "at"            timestamptz,
    state           varchar,      -- queued | running | finalizing | succeeded | failed | cancelled ...
    worker          varchar,
    result_id       varchar,
    heartbeat       boolean
);

-- One row per value of one gauge or counter at one instant.
create table engine_samples (
    input_id        integer,
    "at"            timestamptz,
    instance        varchar,
    model           varchar,
    name            varchar,      -- waiting | running | kv_usage | gpu_util | gpu_memory | preemptions | prefix_hits ...
    value           double
);

-- One row per kind of secret in one file; the match itself is never kept.
create table secrets (
    input_id        integer,
    kind            varchar,      -- as redact.py names it: OpenAI-style key, JWT, e-mail address ...
    count           bigint,       -- lines that hold one, of those looked at (the note of the file says if not all)
    first_line      bigint        -- the first of them, 1-based
);
