/*
 * A few threads take names from one list and put them, answered, on another;
 * an eventfd tells the event loop.  A name belongs to the list it stands on,
 * and to a thread between the two.
 *
 * At the end of the process the threads are joined, but for those whose
 * look-up hangs in the C library: these are cancelled and left to the end of
 * the process.  The module is linked such that its code is never unmapped
 * under them.
 */

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include "ngx/ngx_http_select_names.h"
#include "ngx/ngx_http_select_watch.h"


#define NGX_HTTP_SELECT_NAME_THREADS  4
#define NGX_HTTP_SELECT_NAME_MAX      255

/* how long the end of the process waits for look-ups, milliseconds */
#define NGX_HTTP_SELECT_NAME_WAIT     100


struct ngx_http_select_name_s {
    ngx_queue_t               queue;
    ngx_http_select_name_pt   handler;      /* NULL: cancelled */
    void                     *data;
    int                       rc;           /* of getaddrinfo() */
    char                      address[NGX_HTTP_SELECT_ADDRESS];
    char                      host[NGX_HTTP_SELECT_NAME_MAX + 1];
};


typedef struct {
    pthread_mutex_t           mutex;        /* guards both lists */
    pthread_cond_t            wanted;
    ngx_queue_t               asked;
    ngx_queue_t               answered;
    ngx_http_select_watch_t   watch;
    pthread_t                 threads[NGX_HTTP_SELECT_NAME_THREADS];
    ngx_uint_t                n;            /* threads */
    int                       bell;
    unsigned                  running:1;
} ngx_http_select_names_t;


static ngx_int_t ngx_http_select_names_start(ngx_log_t *log);
static void *ngx_http_select_names_thread(void *data);
static ngx_http_select_name_t *ngx_http_select_names_next(
    ngx_http_select_names_t *ns);
static void ngx_http_select_names_answer(ngx_http_select_names_t *ns,
    ngx_http_select_name_t *name);
static void ngx_http_select_names_resolve(ngx_http_select_name_t *name);
static void ngx_http_select_names_answered(void *data);


static ngx_http_select_names_t  ngx_http_select_names;


ngx_http_select_name_t *
ngx_http_select_name_look_up(const char *host, size_t len,
    ngx_http_select_name_pt handler, void *data, ngx_log_t *log)
{
    ngx_http_select_name_t   *name;
    ngx_http_select_names_t  *ns;

    ns = &ngx_http_select_names;

    if (len > NGX_HTTP_SELECT_NAME_MAX
        || (!ns->running && ngx_http_select_names_start(log) != NGX_OK))
    {
        return NULL;
    }

    name = ngx_calloc(sizeof(ngx_http_select_name_t), log);

    if (name == NULL) {
        return NULL;
    }

    name->handler = handler;
    name->data = data;
    ngx_memcpy(name->host, host, len);

    pthread_mutex_lock(&ns->mutex);
    ngx_queue_insert_tail(&ns->asked, &name->queue);
    pthread_cond_signal(&ns->wanted);
    pthread_mutex_unlock(&ns->mutex);

    return name;
}


/* Only the event loop reads or writes the handler. */

void
ngx_http_select_name_cancel(ngx_http_select_name_t *name)
{
    name->handler = NULL;
}


static ngx_int_t
ngx_http_select_names_start(ngx_log_t *log)
{
    sigset_t                  all, old;
    ngx_uint_t                i;
    ngx_http_select_names_t  *ns;

    ns = &ngx_http_select_names;

    ngx_memzero(ns, sizeof(ngx_http_select_names_t));

    ngx_queue_init(&ns->asked);
    ngx_queue_init(&ns->answered);
    pthread_mutex_init(&ns->mutex, NULL);
    pthread_cond_init(&ns->wanted, NULL);

    ns->bell = eventfd(0, EFD_NONBLOCK|EFD_CLOEXEC);
    ns->watch.handler = ngx_http_select_names_answered;

    if (ns->bell == -1
        || ngx_http_select_watch(&ns->watch, ns->bell, log) != NGX_OK)
    {
        if (ns->bell != -1) {
            (void) close(ns->bell);
        }

        return NGX_ERROR;
    }

    ns->running = 1;

    /* nginx's signals are for its main thread */

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);

    for (i = 0; i < NGX_HTTP_SELECT_NAME_THREADS; i++) {
        if (pthread_create(&ns->threads[i], NULL,
                           ngx_http_select_names_thread, ns)
            != 0)
        {
            break;
        }

        ns->n++;
    }

    pthread_sigmask(SIG_SETMASK, &old, NULL);

    if (ns->n == 0) {
        ngx_http_select_names_stop();
        (void) close(ns->bell);
        return NGX_ERROR;
    }

    return NGX_OK;
}


void
ngx_http_select_names_stop(void)
{
    ngx_uint_t                i;
    struct timespec           until;
    ngx_http_select_names_t  *ns;

    ns = &ngx_http_select_names;

    if (!ns->running) {
        return;
    }

    ngx_http_select_unwatch(&ns->watch);

    pthread_mutex_lock(&ns->mutex);
    ns->running = 0;
    pthread_cond_broadcast(&ns->wanted);
    pthread_mutex_unlock(&ns->mutex);

    (void) clock_gettime(CLOCK_REALTIME, &until);

    until.tv_nsec += NGX_HTTP_SELECT_NAME_WAIT * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;

    for (i = 0; i < ns->n; i++) {
        if (pthread_timedjoin_np(ns->threads[i], NULL, &until) != 0) {
            (void) pthread_cancel(ns->threads[i]);
            (void) pthread_detach(ns->threads[i]);
        }
    }
}


static void *
ngx_http_select_names_thread(void *data)
{
    int                      state;
    ngx_http_select_name_t  *name;

    /* cancelled in a look-up only, never with the lists locked */

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);

    for ( ;; ) {
        name = ngx_http_select_names_next(data);

        if (name == NULL) {
            return NULL;
        }

        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
        ngx_http_select_names_resolve(name);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);

        ngx_http_select_names_answer(data, name);
    }
}


/* Waits for a name; NULL at the end. */

static ngx_http_select_name_t *
ngx_http_select_names_next(ngx_http_select_names_t *ns)
{
    ngx_queue_t  *q;

    q = NULL;

    pthread_mutex_lock(&ns->mutex);

    while (ns->running && ngx_queue_empty(&ns->asked)) {
        pthread_cond_wait(&ns->wanted, &ns->mutex);
    }

    if (ns->running) {
        q = ngx_queue_head(&ns->asked);
        ngx_queue_remove(q);
    }

    pthread_mutex_unlock(&ns->mutex);

    return q != NULL ? ngx_queue_data(q, ngx_http_select_name_t, queue) : NULL;
}


static void
ngx_http_select_names_answer(ngx_http_select_names_t *ns,
    ngx_http_select_name_t *name)
{
    uint64_t  one;

    pthread_mutex_lock(&ns->mutex);
    ngx_queue_insert_tail(&ns->answered, &name->queue);
    pthread_mutex_unlock(&ns->mutex);

    one = 1;

    if (write(ns->bell, &one, sizeof(one)) == -1) {
        return;             /* full: it has been readable for long */
    }
}


static void
ngx_http_select_names_resolve(ngx_http_select_name_t *name)
{
    struct addrinfo  hints, *list;

    ngx_memzero(&hints, sizeof(struct addrinfo));

    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;

    name->rc = getaddrinfo(name->host, NULL, &hints, &list);

    if (name->rc != 0) {
        return;
    }

    name->rc = getnameinfo(list->ai_addr, list->ai_addrlen, name->address,
                           sizeof(name->address), NULL, 0, NI_NUMERICHOST);
    freeaddrinfo(list);
}


static void
ngx_http_select_names_answered(void *data)
{
    ngx_queue_t              *q;
    ngx_http_select_name_t   *name;
    ngx_http_select_names_t  *ns;

    ns = &ngx_http_select_names;

    for ( ;; ) {
        pthread_mutex_lock(&ns->mutex);

        if (ngx_queue_empty(&ns->answered)) {
            pthread_mutex_unlock(&ns->mutex);
            return;
        }

        q = ngx_queue_head(&ns->answered);
        ngx_queue_remove(q);
        pthread_mutex_unlock(&ns->mutex);

        name = ngx_queue_data(q, ngx_http_select_name_t, queue);

        if (name->handler != NULL) {
            name->handler(name->data, name->rc == 0 ? name->address : NULL,
                          name->rc == 0 ? NULL : gai_strerror(name->rc));
        }

        ngx_free(name);
    }
}
