# Where the API lies: below which prefix, for which spellings of a path, and
# behind which guards of nginx.  Without this suite a request could pass a
# guard by another spelling of its path, an escaped slash in an id could become
# a path, or nginx could put its own pages over the answers.

use Test::Nginx::Socket;
use SelSuite;

repeat_each(2);
no_root_location();
no_long_string();
log_level('info');

plan tests => repeat_each() * stories(blocks());
run_tests();

__DATA__

=== TEST 1: a prefix with a slash at its end
--- config
    location /selector/ { select_service selector; }
--- pipelined_requests
> GET /selector/health
< 200 {"status":"ok"}

> POST /selector/workers {"worker_id":1,"endpoint":"a","block_size":4}
< 201 ~ "worker_id":1,

> PATCH /selector/workers/1 {"block_size":4}
< 200 ~ "worker_id":1,

> POST /selector/select {"token_ids":[1]}
< 200 ~ "worker_id":1,

> DELETE /selector/workers/1
< 200 ~ "worker_id":1,

> GET /selector/
< 404 ERROR route not found

> GET /selector//health
< 404 ERROR route not found

> GET /selector/selector/health
< 404 ERROR route not found

> POST /selector/health
< 405 ERROR method not allowed
< Allow: GET,HEAD

# Outside of it nginx answers.
> GET /health
< 404 ~ <html>
< Content-Type: text/html

> GET /selectorhealth
< 404 ~ <html>
< Content-Type: text/html



=== TEST 2: a prefix without one
--- config
    location /selector { select_service selector; }
--- pipelined_requests
> GET /selector/health
< 200 {"status":"ok"}

> GET /selector/workers?model_name=x
< 200 []

> GET /selector
< 404 ERROR route not found

> GET /selector?x=/health
< 404 ERROR route not found

> GET /selector/
< 404 ERROR route not found

> GET /selectorhealth
< 404 ERROR route not found

> GET /selectors/health
< 404 ERROR route not found



=== TEST 3: several prefixes, one catalog
--- config
    location / { select_service selector; }
    location /a/ { select_service selector; }
    location /a/b/ { select_service selector; }
    location "/with blank/" { select_service selector; }
    location /outer/ {
        location /outer/inner/ { select_service selector; }
    }
--- pipelined_requests
> POST /a/workers {"worker_id":5}
< 201 ~ "worker_id":5,

> GET /workers
< 200 ~ [{"worker_id":5,

> GET /a/b/workers
< 200 ~ [{"worker_id":5,

> GET /with%20blank/workers
< 200 ~ [{"worker_id":5,

> GET /outer/inner/workers
< 200 ~ [{"worker_id":5,

> DELETE /a/b/workers/5
< 200 ~ "worker_id":5,

> GET /a/workers
< 200 []



=== TEST 4: another server and a proxy before it
--- http_config
    server {
        listen 127.0.0.1:$TEST_NGINX_RAND_PORT_1;
        location / { select_service selector; }
    }
--- config
    location /near/ { select_service selector; }
    location /far/ {
        proxy_pass http://127.0.0.1:$TEST_NGINX_RAND_PORT_1/;
    }
--- pipelined_requests
> POST /far/workers {"worker_id":5}
< 201 ~ "worker_id":5,

> GET /near/workers
< 200 ~ [{"worker_id":5,

> PUT /far/health
< 405 ERROR method not allowed
< Allow: GET,HEAD

> DELETE /near/workers/5
< 200 ~ "worker_id":5,

> DELETE /far/workers/5
< 404 ERROR worker 5 not found



=== TEST 5: another spelling of a path is another path
--- config
    location / { select_service selector; }
    location /selector/ { select_service selector; }
--- pipelined_requests
> GET /%68ealth
< 404 ERROR route not found

> GET /selector/%68ealth
< 404 ERROR route not found

> GET //health
< 404 ERROR route not found

> GET /selector/./health
< 404 ERROR route not found

> GET /./health
< 404 ERROR route not found

> GET /x/../health
< 404 ERROR route not found

> GET /selector/x/../health
< 404 ERROR route not found

> GET /selector/../health
< 404 ERROR route not found

> GET /selector/%2e%2e/health
< 404 ERROR route not found

> GET //selector/health
< 404 ERROR route not found

> GET /selector%2Fhealth
< 404 ERROR route not found

> GET /health%2F
< 404 ERROR route not found

> GET /health%3Fx
< 404 ERROR route not found

> GET /health%20
< 404 ERROR route not found

> GET /health;x=1
< 404 ERROR route not found

> GET /selector/workers%2F1
< 404 ERROR route not found

> DELETE /workers%2F1
< 404 ERROR route not found

> DELETE /workers/1/../2
< 404 ERROR route not found

> DELETE /workers/.
< 400 Invalid URL: Cannot parse `.` to a `u64`
< Content-Type: text/plain; charset=utf-8

# An escaped slash stays in the id,
> DELETE /selector/workers/1%2F..%2F2
< 400 Invalid URL: Cannot parse `1/../2` to a `u64`
< Content-Type: text/plain; charset=utf-8

# and escapes in the prefix are the prefix.
> GET /%73elector/health
< 200 {"status":"ok"}

> GET /selecto%72/health
< 200 {"status":"ok"}



=== TEST 6: query strings are no part of the path
--- pipelined_requests
> GET /health?
< 200 {"status":"ok"}

> GET /health?/../workers
< 200 {"status":"ok"}

> GET /health?a=b&c=%zz%
< 200 {"status":"ok"}

> GET /ready?x#y
< 503 {"ready":false,"schedulable_workers":0,"workers":[]}

> GET /nope?/health
< 404 ERROR route not found

> DELETE /workers/1?/2
< 404 ERROR worker 1 not found

> DELETE /workers/1%3F
< 400 Invalid URL: Cannot parse `1?` to a `u64`
< Content-Type: text/plain; charset=utf-8



=== TEST 7: absolute request targets
--- config
    location / { select_service selector; }
    location /selector/ { select_service selector; }
--- pipelined_requests
> GET http://localhost/health
< 200 {"status":"ok"}

> GET HTTP://localhost:80/selector/health?x=1
< 200 {"status":"ok"}

> GET http://localhost/workers?model_name=x
< 200 []

> DELETE http://localhost/selector/workers/12
< 404 ERROR worker 12 not found

> GET http://localhost
< 404 ERROR route not found

> GET http://localhost?x=/health
< 404 ERROR route not found

> GET http://localhost/
< 404 ERROR route not found

> GET http://localhost//health
< 404 ERROR route not found

> GET http://localhost/%68ealth
< 404 ERROR route not found



=== TEST 8: HTTP/1.0
--- request
> GET /health HTTP/1.0
< 200 {"status":"ok"}

> POST /workers HTTP/1.0 {}
< 422 DATA missing field `worker_id`



=== TEST 9: limit_except guards, and lets pass what it allows
--- config
    location /read/ {
        limit_except GET { deny all; }
        select_service selector;
    }
    location /write/ {
        limit_except GET { allow all; }
        select_service selector;
    }
--- pipelined_requests
> GET /read/workers
< 200 []

> POST /read/workers {"worker_id":1}
< 403 ~ <html>
< Content-Type: text/html

> DELETE /read/workers/1
< 403 ~ <html>
< Content-Type: text/html

> POST /write/workers {"worker_id":1}
< 201 ~ "worker_id":1,

> GET /read/workers
< 200 ~ [{"worker_id":1,

> PATCH /write/workers/1 {"block_size":3}
< 200 ~ "block_size":3,

> DELETE /write/workers/1
< 200 ~ "worker_id":1,



=== TEST 10: access and passwords come before the API
--- config
    location / {
        auth_basic "selector";
        auth_basic_user_file $TEST_NGINX_SERVER_ROOT/html/users;
        select_service selector;
    }
    location /closed/ {
        deny all;
        select_service selector;
    }
--- user_files
>>> users
ray:{PLAIN}secret
--- request
> POST /workers {"worker_id":1}
< 401 ~ <html>
< Content-Type: text/html
< WWW-Authenticate: Basic realm="selector"

> POST /workers {"worker_id":1}
> Authorization: Basic cmF5OnNlY3JldA==
< 201 ~ "worker_id":1,

> DELETE /closed/workers/1
< 403 ~ <html>
< Content-Type: text/html

> DELETE /closed/../workers/1
< 401 ~ <html>
< Content-Type: text/html
< WWW-Authenticate: ~ Basic .*

> DELETE /workers/1
> Authorization: Basic cmF5OnNlY3JldA==
< 200 ~ "worker_id":1,



=== TEST 11: the rewrite module's if
--- config
    location / {
        if ($http_x_set) { set $was_set 1; }
        if ($http_x_block) { return 403; }
        add_header X-Was-Set "<$was_set>" always;
        select_service selector;
    }
--- pipelined_requests
> GET /health
< 200 {"status":"ok"}
< X-Was-Set: <>

> GET /health
> X-Set: 1
< 200 {"status":"ok"}

> POST /workers {"worker_id":1}
> X-Set: 1
< 201 ~ "worker_id":1,

> DELETE /workers/1
> X-Set: 1
< 200 ~ "worker_id":1,

> DELETE /workers/1
> X-Block: 1
< 403 ~ <html>
< Content-Type: text/html



=== TEST 12: error pages are not put over the API's answers
--- config
    location / {
        error_page 400 404 405 413 415 422 503 = /page;
        select_service selector;
    }
    location = /page { return 200 "page"; }
--- pipelined_requests
> GET /nope
< 404 ERROR route not found

> PUT /select
< 405 ERROR method not allowed
< Allow: POST

> POST /select {
< 400 SYNTAX EOF

> POST /select x
> Content-Type: text/plain
< 415 ERROR Expected request with `Content-Type: application/json`

> POST /select {"token_ids":1}
< 422 DATA token_ids

> POST /select {"token_ids":[1]}
< 503 ERROR no schedulable workers are available



=== TEST 13: a regular expression takes nothing off
--- config
    location ~ ^/(health|workers) { select_service selector; }
--- pipelined_requests
> GET /health
< 200 {"status":"ok"}

> POST /workers {"worker_id":1}
< 201 ~ "worker_id":1,

> DELETE /workers/1
< 200 ~ "worker_id":1,

> GET /workersx
< 404 ERROR route not found

> GET /ready
< 404 ~ <html>
< Content-Type: text/html



=== TEST 14: blocks inside exact and regular expression locations
--- config
    location = /workers {
        limit_except GET POST { deny all; }
        select_service selector;
    }
    location ~ /ready$ {
        if ($http_x_never) { return 400; }
        select_service selector;
    }
    location = /select {
        limit_except POST { allow all; }
        select_service selector;
    }
--- pipelined_requests
> POST /workers {"worker_id":1}
< 201 ~ "worker_id":1,

> GET /workers
< 200 ~ [{"worker_id":1,

> GET /ready
< 503 ~ "ready":false

> GET /select
< 405 ERROR method not allowed
