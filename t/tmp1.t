use Test::Nginx::Socket;
use SelSuite;

repeat_each(2);
master_on();
workers(2);
no_root_location();
no_long_string();
log_level('info');
plan tests => repeat_each() * stories(blocks());
run_tests();

__DATA__

=== TEST 1: x
--- request
> DELETE /workers/7
< 404 ERROR worker 7 not found

> POST /workers
> {"worker_id":
>  8}
< 201 REASONS
< endpoint is required
< block_size must be greater than 0

> PUT /workers
< 405 ERROR method not allowed
< Allow: GET,HEAD,POST
