# The catalog over HTTP: registration, listing, PATCH, DELETE and readiness.
# Without this suite a record could lose or rename a member, a worker could be
# schedulable that must not be (or the reverse), an update could clear or keep
# what it must not, and nobody would be told why a worker is never selected.
#
# Two worker processes serve, and each request has a connection of its own: any
# step may meet either process, and all must see one catalog.

use Test::Nginx::Socket;
use SelSuite;

master_on();
workers(2);
no_root_location();
no_long_string();
log_level('info');

our $events = 'select_kv_events on;';

plan tests => repeat_each() * stories(blocks());
run_tests();

__DATA__

=== TEST 1: every member is echoed, in this order, whatever the order sent
--- request
> POST /workers
> {"kv_event_source_mode":"state_agent_v2",
>  "router_hint_source_control_endpoints":{"3":"tcp://h:1","4":"tcp://h:2"},
>  "router_hint_worker_type":"vllm","kv_transfer_preferred_weight":0.5,
>  "kv_transfer_enforcement":"preferred","kv_transfer_domain":"zone",
>  "topology_domains":{"rack":"r1"},"taints":["zone-a"],"is_eagle":true,
>  "stable_routing_id":"stable","total_kv_blocks":4096,
>  "max_num_batched_tokens":8192,"data_parallel_size":2,
>  "data_parallel_start_rank":3,"block_size":16,
>  "replay_endpoint":"tcp://r:1",
>  "kv_events_endpoints":{"3":"tcp://e:1","4":"tcp://e:2"},
>  "kv_events_endpoint":"tcp://e:0","endpoint":"http://10.0.0.7:8000",
>  "routing_group":"east","model_name":"llama","worker_id":7}
< 201
< {"worker_id":7,"model_name":"llama","routing_group":"east",
<  "lifecycle":"schedulable","endpoint":"http://10.0.0.7:8000",
<  "kv_events_endpoint":"tcp://e:0",
<  "kv_events_endpoints":{"3":"tcp://e:1","4":"tcp://e:2"},
<  "replay_endpoint":"tcp://r:1","block_size":16,
<  "data_parallel_start_rank":3,"data_parallel_size":2,
<  "max_num_batched_tokens":8192,"total_kv_blocks":4096,
<  "stable_routing_id":"stable","is_eagle":true,"taints":["zone-a"],
<  "topology_domains":{"rack":"r1"},"kv_transfer_domain":"zone",
<  "kv_transfer_enforcement":"preferred","kv_transfer_preferred_weight":0.5,
<  "router_hint_worker_type":"vllm",
<  "router_hint_source_control_endpoints":{"3":"tcp://h:1","4":"tcp://h:2"},
<  "kv_event_source_mode":"state_agent_v2"}

> GET /workers
< 200
< [{"worker_id":7,"model_name":"llama","routing_group":"east",
<  "lifecycle":"schedulable","endpoint":"http://10.0.0.7:8000",
<  "kv_events_endpoint":"tcp://e:0",
<  "kv_events_endpoints":{"3":"tcp://e:1","4":"tcp://e:2"},
<  "replay_endpoint":"tcp://r:1","block_size":16,
<  "data_parallel_start_rank":3,"data_parallel_size":2,
<  "max_num_batched_tokens":8192,"total_kv_blocks":4096,
<  "stable_routing_id":"stable","is_eagle":true,"taints":["zone-a"],
<  "topology_domains":{"rack":"r1"},"kv_transfer_domain":"zone",
<  "kv_transfer_enforcement":"preferred","kv_transfer_preferred_weight":0.5,
<  "router_hint_worker_type":"vllm",
<  "router_hint_source_control_endpoints":{"3":"tcp://h:1","4":"tcp://h:2"},
<  "kv_event_source_mode":"state_agent_v2"}]

> DELETE /workers/7
< 200
< {"worker_id":7,"model_name":"llama","routing_group":"east",
<  "lifecycle":"unschedulable","endpoint":"http://10.0.0.7:8000",
<  "kv_events_endpoint":"tcp://e:0",
<  "kv_events_endpoints":{"3":"tcp://e:1","4":"tcp://e:2"},
<  "replay_endpoint":"tcp://r:1","block_size":16,
<  "data_parallel_start_rank":3,"data_parallel_size":2,
<  "max_num_batched_tokens":8192,"total_kv_blocks":4096,
<  "stable_routing_id":"stable","is_eagle":true,"taints":["zone-a"],
<  "topology_domains":{"rack":"r1"},"kv_transfer_domain":"zone",
<  "kv_transfer_enforcement":"preferred","kv_transfer_preferred_weight":0.5,
<  "router_hint_worker_type":"vllm",
<  "router_hint_source_control_endpoints":{"3":"tcp://h:1","4":"tcp://h:2"},
<  "kv_event_source_mode":"state_agent_v2"}



=== TEST 2: what is not known is null or left out; defaults are not filled in
--- request
> POST /workers {"worker_id":8}
< 201
< {"worker_id":8,"model_name":"default","routing_group":"default",
<  "lifecycle":"incomplete","endpoint":null,"kv_events_endpoint":null,
<  "replay_endpoint":null,"block_size":null,"data_parallel_start_rank":null,
<  "data_parallel_size":null,"max_num_batched_tokens":null,
<  "total_kv_blocks":null,"stable_routing_id":null,"is_eagle":null,
<  "taints":[],"topology_domains":{},"kv_transfer_domain":null,
<  "kv_transfer_enforcement":null,"kv_transfer_preferred_weight":null,
<  "not_schedulable_reasons":["endpoint is required",
< "block_size must be greater than 0"]}

# Null is the same as absence where null is allowed.
> POST /workers
> {"worker_id":8,"endpoint":null,"kv_events_endpoint":null,
>  "replay_endpoint":null,"block_size":null,"data_parallel_start_rank":null,
>  "data_parallel_size":null,"max_num_batched_tokens":null,
>  "total_kv_blocks":null,"stable_routing_id":null,"is_eagle":null,
>  "kv_transfer_domain":null,"kv_transfer_enforcement":null,
>  "kv_transfer_preferred_weight":null,"router_hint_worker_type":null,
>  "kv_event_source_mode":null}
< 201
< {"worker_id":8,"model_name":"default","routing_group":"default",
<  "lifecycle":"incomplete","endpoint":null,"kv_events_endpoint":null,
<  "replay_endpoint":null,"block_size":null,"data_parallel_start_rank":null,
<  "data_parallel_size":null,"max_num_batched_tokens":null,
<  "total_kv_blocks":null,"stable_routing_id":null,"is_eagle":null,
<  "taints":[],"topology_domains":{},"kv_transfer_domain":null,
<  "kv_transfer_enforcement":null,"kv_transfer_preferred_weight":null,
<  "not_schedulable_reasons":["endpoint is required",
< "block_size must be greater than 0"]}



=== TEST 3: a second registration replaces the whole record
--- request
> POST /workers
> {"worker_id":1,"endpoint":"a","block_size":4,"total_kv_blocks":9,
>  "taints":["t"],"topology_domains":{"rack":"r"},
>  "kv_events_endpoints":{"0":"tcp://e:1"},"is_eagle":false,
>  "router_hint_worker_type":"x","kv_event_source_mode":"y",
>  "router_hint_source_control_endpoints":{"0":"tcp://h:1"}}
< 201 ~ "lifecycle":"schedulable"

> POST /workers {"worker_id":1,"endpoint":"b","block_size":4}
< 201
< {"worker_id":1,"model_name":"default","routing_group":"default",
<  "lifecycle":"schedulable","endpoint":"b","kv_events_endpoint":null,
<  "replay_endpoint":null,"block_size":4,"data_parallel_start_rank":null,
<  "data_parallel_size":null,"max_num_batched_tokens":null,
<  "total_kv_blocks":null,"stable_routing_id":null,"is_eagle":null,
<  "taints":[],"topology_domains":{},"kv_transfer_domain":null,
<  "kv_transfer_enforcement":null,"kv_transfer_preferred_weight":null}

> GET /workers
< 200 /^\[\{"worker_id":1,[^{}]*"endpoint":"b",[^{}]*\{\}[^{}]*\}\]$/

# An incomplete record replaces a schedulable one too.
> POST /workers {"worker_id":1}
< 201 REASONS
< endpoint is required
< block_size must be greater than 0

> GET /ready
< 503 ~ {"ready":false,"schedulable_workers":0,"workers":[{"worker_id":1,



=== TEST 4: all missing members are named, in a fixed order
--- request
> POST /workers {"worker_id":1,"endpoint":"","block_size":4}
< 201 REASONS
< endpoint is required

> POST /workers {"worker_id":1,"endpoint":"a","block_size":0}
< 201 REASONS
< block_size must be greater than 0

> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"data_parallel_size":0}
< 201 REASONS
< data_parallel_size must be greater than 0

> POST /workers {"worker_id":1,"data_parallel_size":0}
< 201 REASONS
< endpoint is required
< block_size must be greater than 0
< data_parallel_size must be greater than 0

> POST /workers {"worker_id":1,"endpoint":"ray://replica#1","block_size":4}
< 201 ~ "lifecycle":"schedulable"



=== TEST 5: with KV events on each rank needs an event endpoint
--- http_config eval: $::events
--- request
> POST /workers
> {"worker_id":1,"data_parallel_start_rank":2,"data_parallel_size":3,
>  "kv_events_endpoints":{"3":"tcp://127.0.0.1:1"},
>  "replay_endpoint":"tcp://127.0.0.1:1"}
< 201 REASONS
< endpoint is required
< block_size must be greater than 0
< kv_events endpoint is required for dp_rank 2
< kv_events endpoint is required for dp_rank 4
< replay_endpoint is supported only for data_parallel_size 1

# No rank, no endpoint to miss.
> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"data_parallel_size":0}
< 201 REASONS
< data_parallel_size must be greater than 0

> POST /workers {"worker_id":1,"endpoint":"a","block_size":4}
< 201 REASONS
< kv_events endpoint is required for dp_rank 0

# An empty text is no endpoint.
> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"kv_events_endpoint":""}
< 201 REASONS
< kv_events endpoint is required for dp_rank 0

> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"kv_events_endpoints":{"0":""}}
< 201 REASONS
< kv_events endpoint is required for dp_rank 0

# The scalar serves one rank, whatever its number.
> POST /workers
> {"worker_id":1,"endpoint":"a","block_size":4,"data_parallel_start_rank":5,
>  "kv_events_endpoint":"tcp://127.0.0.1:1"}
< 201 ~ "lifecycle":"schedulable"

> POST /workers
> {"worker_id":1,"endpoint":"a","block_size":4,"data_parallel_size":2,
>  "kv_events_endpoint":"tcp://127.0.0.1:1"}
< 201 REASONS
< kv_events endpoint is required for dp_rank 0
< kv_events endpoint is required for dp_rank 1

# A map with entries is the only source, and its keys are global ranks.
> POST /workers
> {"worker_id":1,"endpoint":"a","block_size":4,"data_parallel_start_rank":5,
>  "kv_events_endpoint":"tcp://127.0.0.1:1",
>  "kv_events_endpoints":{"0":"tcp://127.0.0.1:1"}}
< 201 REASONS
< kv_events endpoint is required for dp_rank 5

> POST /workers
> {"worker_id":1,"endpoint":"a","block_size":4,"data_parallel_start_rank":5,
>  "data_parallel_size":2,
>  "kv_events_endpoints":{"6":"tcp://127.0.0.1:1","5":"tcp://127.0.0.1:2"}}
< 201 ~ "lifecycle":"schedulable"



=== TEST 6: with KV events off neither endpoints nor their syntax matter
--- request
> POST /workers
> {"worker_id":1,"endpoint":"a","block_size":4,"data_parallel_size":2,
>  "kv_events_endpoints":{"1":"not-a-zmq-endpoint"},"replay_endpoint":"x"}
< 201 /"lifecycle":"schedulable".*"kv_transfer_preferred_weight":null\}$/



=== TEST 7: W2, C2: a replay endpoint only with one rank
--- http_config eval: $::events
--- request
> POST /workers
> {"worker_id":1,"endpoint":"a","block_size":4,"data_parallel_size":2,
>  "kv_events_endpoints":{"0":"tcp://127.0.0.1:1","1":"tcp://127.0.0.1:2"},
>  "replay_endpoint":"tcp://127.0.0.1:3"}
< 201 REASONS
< replay_endpoint is supported only for data_parallel_size 1

> POST /workers
> {"worker_id":1,"endpoint":"a","block_size":4,"data_parallel_size":1,
>  "kv_events_endpoints":{"0":"tcp://127.0.0.1:1"},
>  "replay_endpoint":"tcp://127.0.0.1:3"}
< 201 ~ "lifecycle":"schedulable"

# A size that is not allowed is not more than one.
> POST /workers
> {"worker_id":1,"endpoint":"a","block_size":4,"data_parallel_size":0,
>  "replay_endpoint":"tcp://127.0.0.1:3"}
< 201 REASONS
< data_parallel_size must be greater than 0



=== TEST 8: event endpoints of a wrong form
--- http_config eval: $::events
--- request
> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"kv_events_endpoint":"not-a-zmq-endpoint"}
< 201 REASONS
< reconciliation failed: invalid kv_events endpoint for worker 1 dp_rank 0: invalid ZMQ endpoint `not-a-zmq-endpoint`: missing scheme

> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"kv_events_endpoint":"tcp://"}
< 201 REASONS
< reconciliation failed: invalid kv_events endpoint for worker 1 dp_rank 0: invalid ZMQ endpoint `tcp://`: missing address

> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"kv_events_endpoint":"tcp://host"}
< 201 REASONS
< reconciliation failed: invalid kv_events endpoint for worker 1 dp_rank 0: invalid ZMQ endpoint `tcp://host`: missing TCP port

> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"kv_events_endpoint":"tcp://::1:5"}
< 201 REASONS
< reconciliation failed: invalid kv_events endpoint for worker 1 dp_rank 0: invalid ZMQ endpoint `tcp://::1:5`: missing TCP port

> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"kv_events_endpoint":"tcp://:5"}
< 201 REASONS
< reconciliation failed: invalid kv_events endpoint for worker 1 dp_rank 0: invalid ZMQ endpoint `tcp://:5`: missing TCP host

> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"kv_events_endpoint":"tcp://[::1:5"}
< 201 REASONS
< reconciliation failed: invalid kv_events endpoint for worker 1 dp_rank 0: invalid ZMQ endpoint `tcp://[::1:5`: missing closing `]`

> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"kv_events_endpoint":"tcp://host:"}
< 201 REASONS
< reconciliation failed: invalid kv_events endpoint for worker 1 dp_rank 0: invalid ZMQ endpoint `tcp://host:`: invalid TCP port: cannot parse integer from empty string

> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"kv_events_endpoint":"tcp://host:55x"}
< 201 REASONS
< reconciliation failed: invalid kv_events endpoint for worker 1 dp_rank 0: invalid ZMQ endpoint `tcp://host:55x`: invalid TCP port: invalid digit found in string

> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"kv_events_endpoint":"tcp://host:-1"}
< 201 REASONS
< reconciliation failed: invalid kv_events endpoint for worker 1 dp_rank 0: invalid ZMQ endpoint `tcp://host:-1`: invalid TCP port: invalid digit found in string

> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"kv_events_endpoint":"tcp://host:65536"}
< 201 REASONS
< reconciliation failed: invalid kv_events endpoint for worker 1 dp_rank 0: invalid ZMQ endpoint `tcp://host:65536`: invalid TCP port: number too large to fit in target type

> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"kv_events_endpoint":"udp://host:5"}
< 201 REASONS
< reconciliation failed: invalid kv_events endpoint for worker 1 dp_rank 0: invalid ZMQ endpoint `udp://host:5`: unsupported scheme `udp`

> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"kv_events_endpoint":"TCP://host:5"}
< 201 REASONS
< reconciliation failed: invalid kv_events endpoint for worker 1 dp_rank 0: invalid ZMQ endpoint `TCP://host:5`: unsupported scheme `TCP`

> POST /workers
> {"worker_id":1,"endpoint":"a","block_size":4,
>  "kv_events_endpoint":"tcp://127.0.0.1:1","replay_endpoint":"nowhere"}
< 201 REASONS
< reconciliation failed: invalid replay endpoint for worker 1: invalid ZMQ endpoint `nowhere`: missing scheme

# Entries for ranks that the worker does not have are looked at, too.
> POST /workers
> {"worker_id":1,"endpoint":"a","block_size":4,
>  "kv_events_endpoints":{"0":"tcp://127.0.0.1:1","9":"x"}}
< 201 REASONS
< reconciliation failed: invalid kv_events endpoint for worker 1 dp_rank 9: invalid ZMQ endpoint `x`: missing scheme

# Missing members come first: then the form is not looked at.
> POST /workers {"worker_id":1,"block_size":4,"kv_events_endpoint":"x"}
< 201 REASONS
< endpoint is required

> POST /select {"token_ids":[1]}
< 503 ERROR no schedulable workers are available



=== TEST 9: event endpoints that pass
--- http_config eval: $::events
--- request
> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"kv_events_endpoint":"tcp://[::1]:5"}
< 201 ~ "lifecycle":"schedulable"

> POST /workers {"worker_id":2,"endpoint":"a","block_size":4,"kv_events_endpoint":"tcp://127.0.0.1:0"}
< 201 ~ "lifecycle":"schedulable"

> POST /workers {"worker_id":3,"endpoint":"a","block_size":4,"kv_events_endpoint":"tcp://127.0.0.1:65535"}
< 201 ~ "lifecycle":"schedulable"

> POST /workers {"worker_id":4,"endpoint":"a","block_size":4,"kv_events_endpoint":"ipc:///nowhere"}
< 201 ~ "lifecycle":"schedulable"

> POST /workers {"worker_id":5,"endpoint":"a","block_size":4,"kv_events_endpoint":"inproc://x"}
< 201 ~ "lifecycle":"schedulable"

# The connection is tried after the answer; that it cannot be made changes
# nothing here.
> POST /workers {"worker_id":6,"endpoint":"a","block_size":4,"kv_events_endpoint":"tcp://*:1"}
< 201 ~ "lifecycle":"schedulable"

> GET /ready
< 200 ~ {"ready":true,"schedulable_workers":6,"workers":[



=== TEST 10: W1: one bad endpoint makes the worker incomplete, two good ones heal it
--- http_config eval: $::events
--- request
> POST /workers
> {"worker_id":1,"endpoint":"a","block_size":4,"data_parallel_size":2,
>  "kv_events_endpoints":{"0":"tcp://127.0.0.1:1","1":"not-a-zmq-endpoint"}}
< 201 REASONS
< reconciliation failed: invalid kv_events endpoint for worker 1 dp_rank 1: invalid ZMQ endpoint `not-a-zmq-endpoint`: missing scheme

> POST /select {"token_ids":[1,2,3,4]}
< 503 ERROR no schedulable workers are available

> PATCH /workers/1
> {"kv_events_endpoints":{"0":"tcp://127.0.0.1:1","1":"tcp://127.0.0.1:2"}}
< 200 /"lifecycle":"schedulable".*null\}$/

> POST /select {"token_ids":[1,2,3,4]}
< 200 ~ "worker_id":1,



=== TEST 11: the first worker fixes the block size of its partition
--- request
# One that is incomplete fixes nothing.
> POST /workers {"worker_id":1,"model_name":"m","block_size":64}
< 201 REASONS
< endpoint is required

> POST /workers {"worker_id":2,"model_name":"m","endpoint":"a","block_size":16}
< 201 ~ "lifecycle":"schedulable"

> POST /workers {"worker_id":3,"model_name":"m","endpoint":"a","block_size":32}
< 201 REASONS
< reconciliation failed: block_size mismatch for model=m routing_group=default: existing=16 requested=32

# Other partitions are free to differ.
> POST /workers {"worker_id":4,"model_name":"m","routing_group":"g","endpoint":"a","block_size":32}
< 201 ~ "lifecycle":"schedulable"

> POST /workers {"worker_id":5,"model_name":"M","endpoint":"a","block_size":32}
< 201 ~ "lifecycle":"schedulable"

# Missing members come first: then the partition is not looked at.
> POST /workers {"worker_id":3,"model_name":"m","block_size":32}
< 201 REASONS
< endpoint is required

# The only worker cannot change it either, and it outlives all workers.
> PATCH /workers/2 {"block_size":32}
< 200 REASONS
< reconciliation failed: block_size mismatch for model=m routing_group=default: existing=16 requested=32

> DELETE /workers/2
< 200 ~ "lifecycle":"unschedulable"

> POST /workers {"worker_id":2,"model_name":"m","endpoint":"a","block_size":32}
< 201 REASONS
< reconciliation failed: block_size mismatch for model=m routing_group=default: existing=16 requested=32

> POST /workers {"worker_id":2,"model_name":"m","endpoint":"a","block_size":16}
< 201 ~ "lifecycle":"schedulable"



=== TEST 12: and whether it works with EAGLE
--- request
> POST /workers {"worker_id":1,"model_name":"plain","endpoint":"a","block_size":4}
< 201 ~ "lifecycle":"schedulable"

> POST /workers {"worker_id":2,"model_name":"plain","endpoint":"a","block_size":4,"is_eagle":true}
< 201 REASONS
< reconciliation failed: is_eagle mismatch for model=plain routing_group=default: existing=false requested=true

> POST /workers {"worker_id":2,"model_name":"plain","endpoint":"a","block_size":4,"is_eagle":false}
< 201 ~ "lifecycle":"schedulable"

> POST /workers {"worker_id":3,"model_name":"eagle","endpoint":"a","block_size":4,"is_eagle":true}
< 201 ~ "lifecycle":"schedulable"

> POST /workers {"worker_id":4,"model_name":"eagle","endpoint":"a","block_size":4}
< 201 REASONS
< reconciliation failed: is_eagle mismatch for model=eagle routing_group=default: existing=true requested=false



=== TEST 13: the list is sorted by model, group and number of the worker
--- request
> POST /workers {"worker_id":10,"model_name":"b","routing_group":"x"}
< 201 REASONS
< endpoint is required
< block_size must be greater than 0

> POST /workers {"worker_id":9,"model_name":"b","routing_group":"x"}
< 201 ~ "worker_id":9,

> POST /workers {"worker_id":18446744073709551615,"model_name":"b","routing_group":"x"}
< 201 ~ "worker_id":18446744073709551615,

> POST /workers {"worker_id":9223372036854775808,"model_name":"b","routing_group":"x"}
< 201 ~ "worker_id":9223372036854775808,

> POST /workers {"worker_id":7,"model_name":"b","routing_group":"y"}
< 201 ~ "worker_id":7,

> POST /workers {"worker_id":8,"model_name":"a","routing_group":"z"}
< 201 ~ "worker_id":8,

> POST /workers {"worker_id":6,"model_name":"B","routing_group":"x"}
< 201 ~ "worker_id":6,

> GET /workers
< 200
< /^\[\{"worker_id":6,[^]]*\],[^]]*\]\},\{"worker_id":8,[^]]*\],[^]]*\]\},
< \{"worker_id":9,[^]]*\],[^]]*\]\},\{"worker_id":10,[^]]*\],[^]]*\]\},
< \{"worker_id":9223372036854775808,[^]]*\],[^]]*\]\},
< \{"worker_id":18446744073709551615,[^]]*\],[^]]*\]\},
< \{"worker_id":7,[^]]*\],[^]]*\]\}\]$/

> GET /ready
< 503
< /^\{"ready":false,"schedulable_workers":0,
< "workers":\[\{"worker_id":6,.*\{"worker_id":8,.*\{"worker_id":9,.*
< \{"worker_id":10,.*\{"worker_id":9223372036854775808,.*
< \{"worker_id":18446744073709551615,.*\{"worker_id":7,/



=== TEST 14: I2: filters are exact, other parameters none
--- request
> POST /workers {"worker_id":1,"model_name":"m","routing_group":"g"}
< 201 ~ "worker_id":1,

> POST /workers {"worker_id":2,"model_name":"m","routing_group":"h"}
< 201 ~ "worker_id":2,

> POST /workers {"worker_id":3,"model_name":"a/b c&d+é","routing_group":"g"}
< 201 ~ "worker_id":3,

> POST /workers {"worker_id":4,"model_name":"","routing_group":"g"}
< 201 ~ "worker_id":4,"model_name":"",

> GET /workers?model_name=m
< 200 /^\[\{"worker_id":1,[^{]*\{\}[^{]*\},\{"worker_id":2,[^{]*\{\}[^{]*\}\]$/

> GET /workers?routing_group=h
< 200 /^\[\{"worker_id":2,[^{]*\{\}[^{]*\}\]$/

> GET /workers?routing_group=g&model_name=m
< 200 /^\[\{"worker_id":1,[^{]*\{\}[^{]*\}\]$/

> GET /workers?model_name=M
< 200 []

> GET /workers?model_name=m&routing_group=west
< 200 []

# A parameter that is there and empty is a filter.
> GET /workers?model_name=
< 200 /^\[\{"worker_id":4,[^{]*\{\}[^{]*\}\]$/

> GET /workers?routing_group
< 200 []

> GET /workers?model_name=a%2Fb%20c%26d%2B%C3%A9
< 200 /^\[\{"worker_id":3,[^{]*\{\}[^{]*\}\]$/

> GET /workers?model_name=a/b+c%26d%2b%c3%a9
< 200 /^\[\{"worker_id":3,[^{]*\{\}[^{]*\}\]$/

> GET /workers?%6dodel_name=m&routing_group=h
< 200 /^\[\{"worker_id":2,[^{]*\{\}[^{]*\}\]$/

# Others are no filters, the old name of the group included.
> GET /workers?tenant_id=none&tenant_id=x&modelname=y&&model_name=a/b+c%26d%2b%c3%a9&
< 200 /^\[\{"worker_id":3,[^{]*\{\}[^{]*\}\]$/



=== TEST 15: a filter that is given twice is an error
--- request
> GET /workers?model_name=a&model_name=a
< 400 /^Failed to deserialize query string: /
< Content-Type: text/plain; charset=utf-8

> GET /workers?routing_group=a&x=1&routing_group=b
< 400 /^Failed to deserialize query string: /
< Content-Type: text/plain; charset=utf-8



=== TEST 16: PATCH changes what it names and nothing else
--- request
> POST /workers
> {"worker_id":7,"model_name":"m","routing_group":"g","endpoint":"a",
>  "block_size":4,"data_parallel_size":2,"max_num_batched_tokens":1,
>  "total_kv_blocks":2,"stable_routing_id":"s","is_eagle":false,
>  "taints":["a","b"],"topology_domains":{"rack":"r"},
>  "kv_events_endpoint":"k","kv_events_endpoints":{"0":"e0","1":"e1"},
>  "kv_transfer_domain":"d","kv_transfer_enforcement":"required",
>  "kv_transfer_preferred_weight":0.25,"router_hint_worker_type":"t",
>  "router_hint_source_control_endpoints":{"0":"h0"},
>  "kv_event_source_mode":"m","replay_endpoint":"r"}
< 201 ~ "lifecycle":"schedulable"

> PATCH /workers/7 {"total_kv_blocks":8192}
< 200
< {"worker_id":7,"model_name":"m","routing_group":"g",
<  "lifecycle":"schedulable","endpoint":"a","kv_events_endpoint":"k",
<  "kv_events_endpoints":{"0":"e0","1":"e1"},"replay_endpoint":"r",
<  "block_size":4,"data_parallel_start_rank":null,"data_parallel_size":2,
<  "max_num_batched_tokens":1,"total_kv_blocks":8192,
<  "stable_routing_id":"s","is_eagle":false,"taints":["a","b"],
<  "topology_domains":{"rack":"r"},"kv_transfer_domain":"d",
<  "kv_transfer_enforcement":"required","kv_transfer_preferred_weight":0.25,
<  "router_hint_worker_type":"t",
<  "router_hint_source_control_endpoints":{"0":"h0"},
<  "kv_event_source_mode":"m"}

# Null leaves as it is, also where registration does not allow it; the
# partition and the id are no members here.
> PATCH /workers/7
> {"endpoint":null,"block_size":null,"taints":null,"topology_domains":null,
>  "kv_events_endpoints":null,"router_hint_source_control_endpoints":null,
>  "is_eagle":null,"replay_endpoint":null,"data_parallel_size":null,
>  "worker_id":9,"model_name":5,"routing_group":null}
< 200
< {"worker_id":7,"model_name":"m","routing_group":"g",
<  "lifecycle":"schedulable","endpoint":"a","kv_events_endpoint":"k",
<  "kv_events_endpoints":{"0":"e0","1":"e1"},"replay_endpoint":"r",
<  "block_size":4,"data_parallel_start_rank":null,"data_parallel_size":2,
<  "max_num_batched_tokens":1,"total_kv_blocks":8192,
<  "stable_routing_id":"s","is_eagle":false,"taints":["a","b"],
<  "topology_domains":{"rack":"r"},"kv_transfer_domain":"d",
<  "kv_transfer_enforcement":"required","kv_transfer_preferred_weight":0.25,
<  "router_hint_worker_type":"t",
<  "router_hint_source_control_endpoints":{"0":"h0"},
<  "kv_event_source_mode":"m"}

# Maps and taints are replaced whole; empty ones clear.
> PATCH /workers/7
> {"taints":["c"],"topology_domains":{"zone":"z"},
>  "kv_events_endpoints":{"1":"n1"},
>  "router_hint_source_control_endpoints":{"1":"n1"}}
< 200
< {"worker_id":7,"model_name":"m","routing_group":"g",
<  "lifecycle":"schedulable","endpoint":"a","kv_events_endpoint":"k",
<  "kv_events_endpoints":{"1":"n1"},"replay_endpoint":"r",
<  "block_size":4,"data_parallel_start_rank":null,"data_parallel_size":2,
<  "max_num_batched_tokens":1,"total_kv_blocks":8192,
<  "stable_routing_id":"s","is_eagle":false,"taints":["c"],
<  "topology_domains":{"zone":"z"},"kv_transfer_domain":"d",
<  "kv_transfer_enforcement":"required","kv_transfer_preferred_weight":0.25,
<  "router_hint_worker_type":"t",
<  "router_hint_source_control_endpoints":{"1":"n1"},
<  "kv_event_source_mode":"m"}

> PATCH /workers/7
> {"taints":[],"topology_domains":{},"kv_events_endpoints":{},
>  "router_hint_source_control_endpoints":{}}
< 200
< {"worker_id":7,"model_name":"m","routing_group":"g",
<  "lifecycle":"schedulable","endpoint":"a","kv_events_endpoint":"k",
<  "replay_endpoint":"r","block_size":4,"data_parallel_start_rank":null,
<  "data_parallel_size":2,"max_num_batched_tokens":1,"total_kv_blocks":8192,
<  "stable_routing_id":"s","is_eagle":false,"taints":[],
<  "topology_domains":{},"kv_transfer_domain":"d",
<  "kv_transfer_enforcement":"required","kv_transfer_preferred_weight":0.25,
<  "router_hint_worker_type":"t","kv_event_source_mode":"m"}

> PATCH /workers/7
> {"endpoint":"b","kv_events_endpoint":"l","replay_endpoint":"q",
>  "data_parallel_start_rank":1,"data_parallel_size":3,
>  "max_num_batched_tokens":4,"stable_routing_id":"t",
>  "kv_transfer_domain":"e","kv_transfer_enforcement":"preferred",
>  "kv_transfer_preferred_weight":0.75,"router_hint_worker_type":"u",
>  "kv_event_source_mode":"n"}
< 200
< {"worker_id":7,"model_name":"m","routing_group":"g",
<  "lifecycle":"schedulable","endpoint":"b","kv_events_endpoint":"l",
<  "replay_endpoint":"q","block_size":4,"data_parallel_start_rank":1,
<  "data_parallel_size":3,"max_num_batched_tokens":4,"total_kv_blocks":8192,
<  "stable_routing_id":"t","is_eagle":false,"taints":[],
<  "topology_domains":{},"kv_transfer_domain":"e",
<  "kv_transfer_enforcement":"preferred","kv_transfer_preferred_weight":0.75,
<  "router_hint_worker_type":"u","kv_event_source_mode":"n"}



=== TEST 17: PATCH evaluates again, in both directions
--- request
> POST /workers {"worker_id":1}
< 201 REASONS
< endpoint is required
< block_size must be greater than 0

> PATCH /workers/1 {"endpoint":"a"}
< 200 REASONS
< block_size must be greater than 0

> PATCH /workers/1 {"block_size":4}
< 200 ~ "lifecycle":"schedulable"

> POST /select {"token_ids":[1,2,3,4]}
< 200 ~ "worker_id":1,

> PATCH /workers/1 {}
< 200 ~ "lifecycle":"schedulable"

> PATCH /workers/1 {"endpoint":""}
< 200 REASONS
< endpoint is required

> POST /select {"token_ids":[1,2,3,4]}
< 503 ERROR no schedulable workers are available

> PATCH /workers/1 {"endpoint":"b"}
< 200 ~ "lifecycle":"schedulable"

> POST /select {"token_ids":[1,2,3,4]}
< 200 ~ "endpoint":"b",



=== TEST 18: PATCH and DELETE of a worker that is not there
--- request
> PATCH /workers/99 {"block_size":16}
< 404 ERROR worker 99 not found

> DELETE /workers/18446744073709551615
< 404 ERROR worker 18446744073709551615 not found

> POST /workers {"worker_id":18446744073709551615,"endpoint":"a","block_size":4}
< 201 ~ "lifecycle":"schedulable"

> PATCH /workers/18446744073709551615 {"total_kv_blocks":18446744073709551615}
< 200 ~ {"worker_id":18446744073709551615,

# Ids that differ only beyond 53 bits are different workers.
> DELETE /workers/18446744073709551614
< 404 ERROR worker 18446744073709551614 not found

> DELETE /workers/18446744073709551615
< 200 ~ {"worker_id":18446744073709551615,

> DELETE /workers/18446744073709551615
< 404 ERROR worker 18446744073709551615 not found

> GET /workers
< 200 []



=== TEST 19: W7: DELETE takes the worker out of selection, listing and readiness
--- request
> POST /workers {"worker_id":1,"endpoint":"a","block_size":4}
< 201 ~ "lifecycle":"schedulable"

> POST /workers {"worker_id":2}
< 201 ~ "lifecycle":"incomplete"

> GET /ready
< 200 /^\{"ready":true,"schedulable_workers":1,"workers":\[\{"worker_id":1,.*\{"worker_id":2,.*\}\]\}$/

> DELETE /workers/1
< 200 /^\{"worker_id":1,"model_name":"default","routing_group":"default","lifecycle":"unschedulable",.*"kv_transfer_preferred_weight":null\}$/

> GET /ready
< 503 /^\{"ready":false,"schedulable_workers":0,"workers":\[\{"worker_id":2,[^{]*\{\}[^{]*\}\]\}$/

> POST /select {"token_ids":[1,2,3,4]}
< 503 ERROR no schedulable workers are available

# An incomplete worker is deleted like others; no reasons are given.
> DELETE /workers/2
< 200 /^\{"worker_id":2,"model_name":"default","routing_group":"default","lifecycle":"unschedulable",.*"kv_transfer_preferred_weight":null\}$/

> GET /ready
< 503 {"ready":false,"schedulable_workers":0,"workers":[]}

> GET /workers
< 200 []

> POST /workers {"worker_id":1,"endpoint":"a","block_size":4}
< 201 ~ "lifecycle":"schedulable"

> POST /select {"token_ids":[1,2,3,4]}
< 200 ~ "worker_id":1,



=== TEST 20: W3, C1: a worker that moves leaves its old partition
--- request
> POST /workers {"worker_id":1,"routing_group":"a","endpoint":"x","block_size":4}
< 201 ~ "lifecycle":"schedulable"

> POST /select {"routing_group":"a","token_ids":[1,2,3,4]}
< 200 ~ "routing_group":"a","worker_id":1,

> POST /select {"routing_group":"b","token_ids":[1,2,3,4]}
< 503 ERROR no schedulable workers for model=default routing_group=b

> POST /workers {"worker_id":1,"routing_group":"b","endpoint":"x","block_size":16}
< 201 ~ "lifecycle":"schedulable"

> GET /workers?routing_group=a
< 200 []

> GET /workers?routing_group=b
< 200 ~ [{"worker_id":1,

> POST /select {"routing_group":"a","token_ids":[1,2,3,4]}
< 503 ERROR no schedulable workers for model=default routing_group=a

> POST /select {"routing_group":"b","token_ids":[1,2,3,4]}
< 200 ~ "routing_group":"b","worker_id":1,

# A worker that cannot join the other partition has left the old one, too.
> POST /workers {"worker_id":2,"routing_group":"a","endpoint":"x","block_size":4}
< 201 ~ "lifecycle":"schedulable"

> POST /workers {"worker_id":2,"routing_group":"b","endpoint":"x","block_size":4}
< 201 REASONS
< reconciliation failed: block_size mismatch for model=default routing_group=b: existing=16 requested=4

> POST /select {"routing_group":"a","token_ids":[1,2,3,4]}
< 503 ERROR no schedulable workers for model=default routing_group=a

# What the old partition fixed is still fixed.
> POST /workers {"worker_id":2,"routing_group":"a","endpoint":"x","block_size":16}
< 201 REASONS
< reconciliation failed: block_size mismatch for model=default routing_group=a: existing=4 requested=16



=== TEST 21: numbers use all their bits
--- request
> POST /workers
> {"worker_id":0,"endpoint":"a","block_size":4294967295,
>  "data_parallel_start_rank":4294967294,"data_parallel_size":1,
>  "max_num_batched_tokens":18446744073709551615,
>  "total_kv_blocks":9007199254740993}
< 201
< {"worker_id":0,"model_name":"default","routing_group":"default",
<  "lifecycle":"schedulable","endpoint":"a","kv_events_endpoint":null,
<  "replay_endpoint":null,"block_size":4294967295,
<  "data_parallel_start_rank":4294967294,"data_parallel_size":1,
<  "max_num_batched_tokens":18446744073709551615,
<  "total_kv_blocks":9007199254740993,"stable_routing_id":null,
<  "is_eagle":null,"taints":[],"topology_domains":{},
<  "kv_transfer_domain":null,"kv_transfer_enforcement":null,
<  "kv_transfer_preferred_weight":null}

> POST /select {"token_ids":[1]}
< 200 ~ "worker_id":0,"dp_rank":4294967294,

> GET /workers
< 200 ~ "total_kv_blocks":9007199254740993,



=== TEST 22: ranks end before 2^32 - 1
--- request
# The worker is schedulable, but has no rank that could be chosen.
> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"data_parallel_start_rank":4294967295}
< 201 ~ "lifecycle":"schedulable"

> POST /select {"token_ids":[1,2,3,4]}
< 503 ERROR no endpoints available to route work

> POST /workers {"worker_id":1,"endpoint":"a","block_size":4,"data_parallel_start_rank":4294967294,"data_parallel_size":9}
< 201 ~ "lifecycle":"schedulable"

> POST /select {"token_ids":[1,2,3,4]}
< 200 ~ "overlap":{"longest_matched":0,"gpu":0,"dp":{"4294967294":0},



=== TEST 23: a worker with more ranks than the zone has room for changes nothing
--- request
> POST /workers {"worker_id":1,"endpoint":"a","block_size":4}
< 201 ~ "lifecycle":"schedulable"

> POST /workers {"worker_id":1,"endpoint":"b","block_size":4,"data_parallel_size":60000}
< 503 /^\{"error":"select_zone is full: [^"]+"\}$/

> PATCH /workers/1 {"data_parallel_size":60000}
< 503 /^\{"error":"select_zone is full: [^"]+"\}$/

> POST /workers {"worker_id":2,"endpoint":"b","block_size":4,"data_parallel_size":60000}
< 503 /^\{"error":"select_zone is full: [^"]+"\}$/

> GET /workers
< 200 /^\[\{"worker_id":1,[^{]*"endpoint":"a",[^{]*"data_parallel_size":null,[^{]*\{\}[^{]*\}\]$/

> POST /select {"token_ids":[1,2,3,4]}
< 200 ~ "worker_id":1,"dp_rank":0,"endpoint":"a",

# A number of ranks that no zone has room for is a reason.
> POST /workers {"worker_id":2,"endpoint":"b","block_size":4,"data_parallel_size":4294967295}
< 201 REASONS
< data_parallel_size must not be greater than 65535

> DELETE /workers/2
< 200 ~ "data_parallel_size":4294967295,



=== TEST 24: a record of some length is kept whole
--- request eval
my @taints = map { sprintf '%04d', $_ } 0 .. 4999;
my $list = CORE::join ',', map { qq("$_") } @taints;
my $back = CORE::join ',', map { qq("$_") } CORE::reverse @taints;
qq(> POST /workers {"worker_id":1,"taints":[$back]}
< 201 ~ "taints":[$list],"topology_domains":{},

> GET /workers
< 200 ~ "taints":[$list],"topology_domains":{},
)



=== TEST 25: a record that the zone has no room for changes nothing
--- request eval
my $long = 'x' x 5_000_000;
qq(> POST /workers {"worker_id":1,"endpoint":"a"}
< 201 REASONS
< block_size must be greater than 0

> POST /workers {"worker_id":1,"endpoint":"$long"}
< 503 /^\\{"error":"select_zone is full: [^"]+"\\}\$/

> POST /workers {"worker_id":2,"endpoint":"$long"}
< 503 /^\\{"error":"select_zone is full: [^"]+"\\}\$/

> PATCH /workers/1 {"stable_routing_id":"$long"}
< 503 /^\\{"error":"select_zone is full: [^"]+"\\}\$/

> GET /workers
< 200 /^\\[\\{"worker_id":1,[^{]*"endpoint":"a",[^{]*"stable_routing_id":null,[^{]*\\{\\}[^{]*\\}\\]\$/

> POST /workers {"worker_id":2}
< 201 ~ {"worker_id":2,
)



=== TEST 26: taints are a set
--- request
> POST /workers {"worker_id":1,"taints":["b","a","b","","B","aa","a"]}
< 201 ~ "taints":["","B","a","aa","b"],"topology_domains":{},

> PATCH /workers/1 {"taints":["z","y","z"]}
< 200 ~ "taints":["y","z"],"topology_domains":{},



=== TEST 27: text is kept to the letter
--- request
> POST /workers
> {"worker_id":1,"model_name":"a\"b\\c\/d\b\f\n\r\t\u0001\u001F\u007f\u20ac\ud83d\ude00é",
>  "taints":["\u00e9"],"topology_domains":{"\"k\"":"\u0000v"}}
< 201
< /^\{"worker_id":1,"model_name":"a\\"b\\\\c\/d\\b\\f\\n\\r\\t\\u0001\\u001f
< \x7f\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa9","routing_group".*
< "taints":\["\xc3\xa9"\],"topology_domains":\{"\\"k\\"":"\\u0000v"\},/

# Written otherwise, it is the same name.
> GET /workers?model_name=a%22b%5Cc/d%08%0C%0A%0D%09%01%1F%7F%E2%82%AC%F0%9F%98%80%C3%A9
< 200 ~ [{"worker_id":1,



=== TEST 28: names that differ only behind a zero byte are different
--- request
> POST /workers {"worker_id":1,"model_name":"m\u0000a","endpoint":"a","block_size":4}
< 201 ~ "model_name":"m\u0000a",

> GET /workers?model_name=m
< 200 []

> GET /workers?model_name=m%00b
< 200 []

> GET /workers?model_name=m%00a
< 200 ~ [{"worker_id":1,

> POST /select {"model_name":"m","token_ids":[1]}
< 503 ERROR no schedulable workers for model=m routing_group=default



=== TEST 29: the transfer weight is printed as the shortest text of 32 bits
--- request
> POST /workers {"worker_id":1,"kv_transfer_preferred_weight":0.1}
< 201 ~ "kv_transfer_preferred_weight":0.1,

> POST /workers {"worker_id":1,"kv_transfer_preferred_weight":0.10000000149011612}
< 201 ~ "kv_transfer_preferred_weight":0.1,

> POST /workers {"worker_id":1,"kv_transfer_preferred_weight":1}
< 201 ~ "kv_transfer_preferred_weight":1.0,

> POST /workers {"worker_id":1,"kv_transfer_preferred_weight":0}
< 201 ~ "kv_transfer_preferred_weight":0.0,

> POST /workers {"worker_id":1,"kv_transfer_preferred_weight":-2.5e-1}
< 201 ~ "kv_transfer_preferred_weight":-0.25,

> POST /workers {"worker_id":1,"kv_transfer_preferred_weight":16777217}
< 201 ~ "kv_transfer_preferred_weight":16777216.0,

> POST /workers {"worker_id":1,"kv_transfer_preferred_weight":0.333333333333333333333}
< 201 ~ "kv_transfer_preferred_weight":0.33333334,

> POST /workers {"worker_id":1,"kv_transfer_preferred_weight":3.4028234663852886e38}
< 201 ~ "kv_transfer_preferred_weight":3.4028235e38,

> POST /workers {"worker_id":1,"kv_transfer_preferred_weight":1e-45}
< 201 ~ "kv_transfer_preferred_weight":1e-45,



=== TEST 30: R2, R3: ready as soon as one worker is schedulable in any partition
--- request
> GET /ready
< 503 {"ready":false,"schedulable_workers":0,"workers":[]}

> POST /select {"token_ids":[1,2,3,4]}
< 503 ERROR no schedulable workers are available

> GET /health
< 200 {"status":"ok"}

> POST /workers {"worker_id":1,"model_name":"x","endpoint":"a","block_size":4}
< 201 ~ "lifecycle":"schedulable"

> POST /workers {"worker_id":2,"model_name":"y","endpoint":"a","block_size":8}
< 201 ~ "lifecycle":"schedulable"

> GET /ready
< 200 /^\{"ready":true,"schedulable_workers":2,"workers":\[\{"worker_id":1,.*,\{"worker_id":2,/

> POST /select {"token_ids":[1,2,3,4]}
< 503 ERROR no schedulable workers for model=default routing_group=default

> GET /health
< 200 {"status":"ok"}
