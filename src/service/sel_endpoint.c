#include "service/sel_endpoint.h"
#include "service/sel_fault.h"


static const char *sel_endpoint_tcp(sel_str_t address);
static const char *sel_endpoint_port(sel_str_t port);
static sel_str_t sel_endpoint_after(sel_str_t str, size_t n);


const char *
sel_endpoint_fault(sel_str_t endpoint, sel_arena_t *arena)
{
    char          *text;
    size_t         i;
    const char    *why;
    sel_str_t      scheme, address;

    for (i = 0; i + 3 <= endpoint.len; i++) {
        if (memcmp(endpoint.data + i, "://", 3) == 0) {
            break;
        }
    }

    scheme = (sel_str_t) { i, endpoint.data };
    why = NULL;

    if (i + 3 > endpoint.len) {
        why = "missing scheme";

    } else {
        address = sel_endpoint_after(endpoint, i + 3);

        if (address.len == 0) {
            why = "missing address";

        } else if (sel_str_eq(scheme, sel_str("tcp"))) {
            why = sel_endpoint_tcp(address);

        } else if (!sel_str_eq(scheme, sel_str("ipc"))
                   && !sel_str_eq(scheme, sel_str("inproc")))
        {
            why = sel_arena_printf(arena, "unsupported scheme `%.*s`",
                                   sel_str_arg(scheme));
            if (why == NULL) {
                return "out of memory";
            }
        }
    }

    if (why == NULL && memchr(endpoint.data, '\0', endpoint.len) != NULL) {
        why = "a NUL character in the address";
    }

    if (why == NULL) {
        return NULL;
    }

    text = sel_arena_printf(arena, "invalid ZMQ endpoint `%.*s`: %s",
                            sel_str_arg(endpoint), why);

    return text != NULL ? text : "out of memory";
}


static const char *
sel_endpoint_tcp(sel_str_t address)
{
    size_t     colon;
    sel_str_t  host;

    for (colon = address.len; colon > 0; colon--) {
        if (address.data[colon - 1] == ':') {
            break;
        }
    }

    if (colon == 0) {
        return "missing TCP port";
    }

    host = (sel_str_t) { colon - 1, address.data };

    if (host.len == 0) {
        return "missing TCP host";
    }

    if (host.data[0] == '[') {
        if (host.data[host.len - 1] != ']') {
            return "missing closing `]`";
        }

    } else if (memchr(host.data, ':', host.len) != NULL) {
        return "missing TCP port";
    }

    return sel_endpoint_port(sel_endpoint_after(address, colon));
}


static const char *
sel_endpoint_port(sel_str_t port)
{
    size_t    i;
    uint32_t  value;

    if (port.len == 0) {
        return "invalid TCP port: cannot parse integer from empty string";
    }

    if (port.data[0] == '+' && port.len > 1) {
        port = sel_endpoint_after(port, 1);
    }

    value = 0;

    for (i = 0; i < port.len; i++) {
        if (port.data[i] < '0' || port.data[i] > '9') {
            return "invalid TCP port: invalid digit found in string";
        }
    }

    for (i = 0; i < port.len; i++) {
        value = value * 10 + (port.data[i] - '0');

        if (value > UINT16_MAX) {
            return "invalid TCP port: "
                   "number too large to fit in target type";
        }
    }

    return NULL;
}


static sel_str_t
sel_endpoint_after(sel_str_t str, size_t n)
{
    return (sel_str_t) { str.len - n, str.data + n };
}
